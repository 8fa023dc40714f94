"""Textbook forms of everything, slow and plain: the truth that the fast paths are held against."""

from __future__ import annotations

import numpy as np


def trimmed_poe_loop(
    means: np.ndarray, variances: np.ndarray, n_trim: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(6)-(7) of the Byzantine-resilient paper, a point at a time, for answers without ties."""
    n, m = means.shape
    mean, variance, kept = np.empty(m), np.empty(m), np.zeros((n, m), dtype=bool)
    for j in range(m):
        by_mean = sorted(range(n), key=lambda i: means[i, j])[n_trim : n - n_trim]
        by_variance = sorted(range(n), key=lambda i: variances[i, j])[n_trim : n - n_trim]
        common = [i for i in by_mean if i in by_variance]
        precision = sum(1.0 / variances[i, j] for i in common)
        variance[j] = len(common) / precision
        mean[j] = variance[j] / len(common) * sum(means[i, j] / variances[i, j] for i in common)
        kept[common, j] = True
    return mean, variance, kept


def hierarchical_parts(shared: dict, own: dict, X: np.ndarray, *, period: int) -> list:
    """Unwhitened latents of one client, as (kernel on X, interpolation matrix (7), prior of u, loading).

    The pFedHGP layers global, deviation (kernel phi k_g) and local, in this order, with variances where the paper
    has them: in the kernels. ``period`` is the number of global kernels.
    """

    def positive(eta: np.ndarray) -> np.ndarray:
        return np.log1p(np.exp(eta))

    def kernel(A: np.ndarray, B: np.ndarray, ell: np.ndarray) -> np.ndarray:
        return np.array([[np.exp(-0.5 * np.sum(((a - b) / ell) ** 2)) for b in B] for a in A]).reshape(len(A), len(B))

    def latent(Z: np.ndarray, ell: np.ndarray, scale: float, loading: np.ndarray) -> tuple:
        K_zz = scale * (kernel(Z, Z, ell) + 1e-6 * np.eye(len(Z)))
        A = scale * kernel(X, Z, ell) @ np.linalg.inv(K_zz)
        return scale * kernel(X, X, ell), A, K_zz, loading

    ell_g, var_g = positive(shared["eta_lengthscale"]), positive(shared["eta_variance"])
    ell_l, var_l = positive(own["eta_lengthscale"]), positive(own["eta_variance"])
    phi = positive(shared["eta_phi"])[0]
    out = [latent(shared["inducing"], ell_g[r], var_g[r], b) for r, b in enumerate(shared["loadings"].T)]
    for r, b in enumerate(own["deviation_loadings"].T):
        out.append(latent(shared["inducing"], ell_g[r % period], phi * var_g[r % period], b))
    out += [latent(own["inducing"], ell_l[r], var_l[r], b) for r, b in enumerate(own["local_loadings"].T)]
    return out


def hierarchical_elbo(Y: list, parts: list, means: list, covs: list, noise: float, *, n_global: int) -> float:
    """Theorem 1, (19), term by term for given factors in the paper's own (unwhitened) coordinates.

    ``parts[i]`` are a client's latents, ``means[i]`` and ``covs[i]`` one factor q(u) a latent; the first
    ``n_global`` of them are the shared ones (the same in every client) and their divergence counts once.
    """

    def divergence(m: np.ndarray, S: np.ndarray, K: np.ndarray) -> float:
        P = np.linalg.inv(K)
        return 0.5 * (np.trace(P @ S) + m @ P @ m - len(m) + np.linalg.slogdet(K)[1] - np.linalg.slogdet(S)[1])

    total = 0.0
    for i, y in enumerate(Y):
        for q in range(y.shape[1]):
            rows = np.isfinite(y[:, q])
            mu, spread = np.zeros(len(y)), 0.0
            for (K, A, K_zz, b), m, S in zip(parts[i], means[i], covs[i], strict=True):
                mu += b[q] * (A @ m)
                spread += b[q] ** 2 * (np.diag(A @ S @ A.T) + np.diag(K - A @ K_zz @ A.T))[rows].sum()
            total += -0.5 * rows.sum() * np.log(2 * np.pi * noise)
            total += -0.5 / noise * (np.sum((y - mu[:, None])[rows, q] ** 2) + spread)
        for r, ((_, _, K_zz, _), m, S) in enumerate(zip(parts[i], means[i], covs[i], strict=True)):
            if r >= n_global or i == 0:
                total -= divergence(m, S, K_zz)
    return float(total)


def hierarchical_evidence(Y: list, parts: list, noises: list, *, n_global: int) -> float:
    """The bound at the best q of full covariance: the density of a Gaussian less the residual trace (2)."""
    marks = [(i, n, q) for i, y in enumerate(Y) for n in range(len(y)) for q in range(y.shape[1])]
    marks = [(i, n, q) for i, n, q in marks if np.isfinite(Y[i][n, q])]
    C = np.diag([noises[i] for i, _, _ in marks])
    slack = 0.0
    for s, (i, n, q) in enumerate(marks):
        for t, (j, k, p) in enumerate(marks):
            for r, (left, right) in enumerate(zip(parts[i], parts[j], strict=True)):
                if r < n_global or i == j:
                    C[s, t] += left[3][q] * right[3][p] * (left[1][n] @ left[2] @ right[1][k])
        slack += sum(b[q] ** 2 * (K[n, n] - A[n] @ K_zz @ A[n]) for K, A, K_zz, b in parts[i]) / noises[i]
    y = np.array([Y[i][n, q] for i, n, q in marks])
    quadratic = y @ np.linalg.solve(C, y) + np.linalg.slogdet(C)[1] + len(y) * np.log(2 * np.pi)
    return float(-0.5 * quadratic - 0.5 * slack)


class DenseCPoE:
    """Correlated Product of Experts with full matrices: Props 4-9 and Table 5 as they are written.

    ``predecessors`` are any sets pi(j); the first C experts, C the largest number with pi(j) = {0..j-1} for
    all j < C,
    share the region {0..C-1} (Def. 2).
    """

    def __init__(self, kernel, s, X, y, A, predecessors, *, name="fitc", alpha=0.5):
        self.kernel, self.A, self.N = kernel, A, sum(map(len, X))
        ends = np.cumsum([0, *map(len, A)])
        self.at = lambda es: np.concatenate([np.arange(ends[e], ends[e + 1]) for e in es] or [np.zeros(0, int)])
        C = 0
        while len(A) > C and set(predecessors[C]) == set(range(C)):
            C += 1
        self.C = C
        self.psi = [list(range(C)) if j < C else [*sorted(p), j] for j, p in enumerate(predecessors)]
        self.K = K = kernel(np.concatenate(A))
        M = len(K)
        self.S, self.log_det_Q = np.zeros((M, M)), 0.0
        for j, p in enumerate(predecessors):
            pi, me = self.at(sorted(p)), self.at([j])
            F = np.linalg.solve(K[np.ix_(pi, pi)], K[np.ix_(pi, me)]).T
            Q = K[np.ix_(me, me)] - F @ K[np.ix_(pi, me)]
            row = np.zeros((len(me), M))
            row[:, me], row[:, pi] = np.eye(len(me)), -F
            self.S += row.T @ np.linalg.solve(Q, row)
            self.log_det_Q += np.linalg.slogdet(Q)[1]
        H, V, self.V_bar, start, correction = np.zeros((self.N, M)), np.zeros((self.N, self.N)), [], 0, 0.0
        for j, x in enumerate(X):
            psi, stop = self.at(self.psi[j]), start + len(x)
            K_xa = kernel(x, np.concatenate([A[e] for e in self.psi[j]]))
            H[start:stop, psi] = h = np.linalg.solve(K[np.ix_(psi, psi)], K_xa.T).T
            D = kernel(x) - h @ K_xa.T
            diagonal = np.diag(np.diag(D))
            V_bar = {"fitc": diagonal, "pitc": D, "pep": alpha * diagonal, "pep_block": alpha * D}.get(name, 0 * D)
            self.V_bar.append(D)
            V[start:stop, start:stop] = V_bar + s * np.eye(len(x))
            if name == "vfe":
                correction += np.trace(D) / (2 * s)
            if name in ("pep", "pep_block"):
                inner = diagonal if name == "pep" else D
                det = np.linalg.slogdet(np.eye(len(x)) + alpha / s * inner)[1]
                correction += (1 - alpha) / (2 * alpha) * det
            start = stop
        target = np.concatenate(y)
        P = H @ np.linalg.solve(self.S, H.T) + V
        self.log_evidence = sum(
            -0.5 * (c @ np.linalg.solve(P, c) + np.linalg.slogdet(P)[1] + self.N * np.log(2 * np.pi)) - correction
            for c in target.T
        )
        self.Sigma = np.linalg.inv(self.S + H.T @ np.linalg.solve(V, H))
        self.mu = self.Sigma @ (H.T @ np.linalg.solve(V, target))

    def region(self, Xs, j):
        """Prop. 9: local mean (m, q) and covariance (m, m) of expert j at Xs."""
        psi = self.at(self.psi[j])
        k = self.kernel(Xs, np.concatenate([self.A[e] for e in self.psi[j]]))
        h = np.linalg.solve(self.K[np.ix_(psi, psi)], k.T).T
        return h @ self.mu[psi], h @ self.Sigma[np.ix_(psi, psi)] @ h.T + self.kernel(Xs) - h @ k.T

    def predict(self, Xs, *, Z=None):
        """Props 8-10: mean (m, q) and variance (m,) of the latent function, all regions taking part."""
        prior = np.diag(self.kernel(Xs))
        local = [self.region(Xs, j) for j in range(self.C - 1, len(self.A))]
        means, variances = np.array([m for m, _ in local]), np.array([np.diag(v) for _, v in local])
        Z = np.log(self.N) * self.C if Z is None else Z
        beta = (0.5 * np.log(prior / variances)) ** Z
        beta /= beta.sum(axis=0)
        variance = 1 / (beta / variances).sum(axis=0)
        return variance[:, None] * np.einsum("wm,wmq->mq", beta / variances, means), variance


def weighted_ridge(
    Z: np.ndarray, e: np.ndarray, precision: np.ndarray, *, forgetting: float, ridge: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Posterior mean, covariance and moment matrix of w in e = Z w, rows (n, d) discounted by their age."""
    n = len(e)
    a = precision * forgetting ** np.arange(n - 1, -1, -1)
    A = sum((a[t] * np.outer(Z[t], Z[t]) for t in range(n)), np.zeros((Z.shape[1], Z.shape[1])))
    P = np.linalg.inv(A + np.diag(ridge))
    return P @ (Z.T @ (a * e)), P, A


def gp_posterior(K: np.ndarray, cross: np.ndarray, prior: float, y: np.ndarray) -> tuple[float, float]:
    """Mean and variance of a GP at one point, by the inverse of the covariance K of the observations y."""
    weights = np.linalg.inv(K) @ cross
    return float(weights @ y), float(prior - weights @ cross)
