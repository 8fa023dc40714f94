"""What a client believes after a fit: predictions, their parts, and the evidence of a batch of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamgp.gp.gaussian import Array
from streamgp.gp.hierarchy.blocks import Block, Layout, Scales, scales, softplus, softplus_inverse
from streamgp.gp.hierarchy.bound import Factors, Local, Shared, client_moments, solve_local
from streamgp.gp.hierarchy.features import correlation
from streamgp.gp.hierarchy.layers import Columns, Design, all_features, columns, stacked
from streamgp.gp.linalg import Factor, safe_cholesky, solve_lower

LAYERS = ("global", "deviation", "local")


@dataclass(frozen=True, slots=True)
class ClientPosterior:
    """Gaussian over a client's whitened coordinates under a fixed pair of blocks, all in working units."""

    shared: Block
    own: Block
    layout: Layout
    scales: Scales
    columns: Columns
    mean: Array  # (D,)
    cov: Array  # (D, D)

    def predict(self, X: Array, *, latent: bool = False) -> tuple[Array, Array]:
        """Mean (n, Q) and covariance (n, Q, Q) of y at rows X (n, d), of f where ``latent``: (38)-(39)."""
        A, left = self._features(X)
        W = self.scales.W
        phi = A[:, None, :] * W[:, self.columns.layer]  # (n, Q, D)
        cov = np.matmul(phi @ self.cov, phi.transpose(0, 2, 1))
        cov += np.einsum("nr,qr,pr->nqp", left, W, W, optimize=True)
        if not latent:
            cov += self.scales.noise * np.eye(len(W))
        return phi @ self.mean, 0.5 * (cov + cov.transpose(0, 2, 1))

    def parts(self, X: Array) -> dict[str, Array]:
        """(n, Q) mean of each layer at rows X (n, d): (17). They add up to the mean of f."""
        A, _ = self._features(X)
        g, d = self.columns.n_global, self.columns.n_deviation
        cuts = (slice(0, g), slice(g, g + d), slice(g + d, len(self.mean)))
        W = self.scales.W[:, self.columns.layer]
        return {name: (A[:, cut] * self.mean[cut]) @ W[:, cut].T for name, cut in zip(LAYERS, cuts, strict=True)}

    def evidence(self, X: Array) -> Evidence:
        """The joint predictive law of all outputs at rows X (n, d): (30), residual covariance in full."""
        A, _ = self._features(X)
        n, Q = len(X), len(self.scales.W)
        W = self.scales.W
        phi = (A[:, None, :] * W[:, self.columns.layer]).reshape(n * Q, -1)
        cov = phi @ self.cov @ phi.T
        for r, start in enumerate(self.columns.starts):
            own = A[:, start : start + self.columns.sizes[r]]
            residual = correlation(X, X, self._lengthscale(r)) - own @ own.T
            cov += np.kron(residual, np.outer(W[:, r], W[:, r]))
        cov[np.diag_indices_from(cov)] += self.scales.noise
        return Evidence(phi @ self.mean, cov)

    def _features(self, X: Array) -> tuple[Array, Array]:
        """Features at every coordinate (n, D), and the variance (n, R) that they leave of each unit latent."""
        parts = all_features(X, self.shared, self.own, self.scales)
        A = stacked(parts, len(X))[:, self.columns.feature]
        return A, 1.0 - np.add.reduceat(A * A, self.columns.starts, axis=1)

    def _lengthscale(self, r: int) -> Array:
        shared_latents = self.layout.rank_global + self.layout.rank_deviation
        if r >= shared_latents:
            return np.asarray(self.scales.local_lengthscale[r - shared_latents])
        turn = r if r < self.layout.rank_global else self.layout.turn[r - self.layout.rank_global]
        return np.asarray(self.scales.global_lengthscale[turn])


@dataclass(slots=True)
class Evidence:
    """A Gaussian over n Q values, row by row; its factor is made once for complete rows and kept."""

    mean: Array  # (n Q,)
    cov: Array  # (n Q, n Q)
    factor: Factor | None = None

    def log_density(self, Y: Array) -> float:
        """(31): log density of Y (n, Q); missing outputs are left out."""
        y = Y.ravel()
        seen = np.isfinite(y)
        if seen.all():
            if self.factor is None:
                self.factor = safe_cholesky(self.cov)
            factor = self.factor
        else:
            factor = safe_cholesky(self.cov[np.ix_(seen, seen)])
        error = solve_lower(factor.L, y[seen] - self.mean[seen])
        return -0.5 * (float(error @ error) + factor.log_det() + int(seen.sum()) * float(np.log(2.0 * np.pi)))


def client_posterior(
    d: Design, q: Shared, *, shared: Block, own: Block, layout: Layout, factors: Factors, local: Local | None = None
) -> ClientPosterior:
    """The client's belief at its optimal factors given q(v_g); ``local`` are these factors where they are solved."""
    mean, cov = client_moments(d, solve_local(d, factors) if local is None else local, q, factors)
    return ClientPosterior(shared, own, layout, d.scales, d.columns, mean, cov)


def newcomer_posterior(q: Shared, *, shared: Block, owns: tuple[Block, ...], layout: Layout) -> ClientPosterior:
    """Belief about a client without data: q of the global layer, and for its own layers what the others show.

    The deviation and the residual have mean zero; their covariance is the average of the other clients', latent by
    latent (in the order of their lengthscales). With loadings at the peak of their prior, which is zero, the
    newcomer would be as sure as if it had no layers of its own.
    """
    ordered = [_by_lengthscale(own) for own in owns]
    Q, rd, rl = layout.n_outputs, layout.rank_deviation, layout.rank_local
    scaled = [o["local_loadings"] * np.sqrt(softplus(o["eta_variance"])) for o in ordered]
    # deviation latents with the latent running fastest, so that each keeps its global kernel
    fastest = np.arange(rd * Q).reshape(rd, Q).T.ravel()
    own = {
        "inducing": np.mean(shared["inducing"], axis=0, keepdims=True),
        "eta_lengthscale": np.repeat(np.mean([o["eta_lengthscale"] for o in ordered], axis=0), Q, axis=0),
        "eta_variance": softplus_inverse(np.ones(rl * Q)),
        "deviation_loadings": _average_loadings([o["deviation_loadings"] for o in ordered])[:, fastest],
        "local_loadings": _average_loadings(scaled),
    }
    if layout.own_noise:
        own["log_noise"] = np.mean([o["log_noise"] for o in ordered], axis=0)
    wide = Layout(Q, layout.rank_global, rd * Q, rl * Q, period=rd)
    cols = columns(wide, len(shared["inducing"]), 1)
    mean, cov = np.zeros(len(cols.layer)), np.eye(len(cols.layer))
    mean[: cols.n_global], cov[: cols.n_global, : cols.n_global] = q.mean, q.cov
    return ClientPosterior(shared, own, wide, scales(shared, own, wide), cols, mean, cov)


def _by_lengthscale(own: Block) -> dict[str, Array]:
    order = np.argsort(np.prod(own["eta_lengthscale"], axis=1), kind="stable")
    out = dict(own)
    out["eta_lengthscale"], out["eta_variance"] = own["eta_lengthscale"][order], own["eta_variance"][order]
    out["local_loadings"] = own["local_loadings"][:, order]
    return out


def _average_loadings(loadings: list[Array]) -> Array:
    """(Q, R Q) columns whose outer products add up, latent by latent, to the clients' average outer product."""
    stack = np.stack(loadings)  # (T, Q, R)
    columns_ = []
    for r in range(stack.shape[2]):
        b = stack[:, :, r]
        values, vectors = np.linalg.eigh(b.T @ b / len(b))
        columns_.append(vectors * np.sqrt(np.maximum(values, 0.0)))
    return np.hstack(columns_) if columns_ else np.zeros((stack.shape[1], 0))
