"""The simulator of pFedHGP 4.1-4.3, scenarios A to D, and the exact Bayes predictor under its own covariances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from streamgp.gp.gaussian import Array
from streamgp.gp.linalg import safe_cholesky

Scenario: TypeAlias = Literal["A", "B", "C", "D"]

NOISE_STD = 0.05
PHI = 1.2
RANK = 2
GLOBAL_LENGTHS = (1.8, 2.5)
GLOBAL_SCALES = (1.0, 0.7)
LOCAL_LENGTHS = (0.25, 0.45)
LOCAL_SCALES = (1.0, 0.8)
CORRELATION = 0.5  # rho of (42)


def rbf(x: Array, z: Array, *, length: float, scale: float) -> Array:
    """(37): (n, m) squared-exponential covariances of inputs x (n,) and z (m,)."""
    return scale**2 * np.asarray(np.exp(-0.5 * np.square((x[:, None] - z) / length)))


def periodic(x: Array, z: Array) -> Array:
    """The periodic part of (40), of period 3."""
    return np.asarray(np.exp(-2.0 * np.square(np.sin(np.pi * (x[:, None] - z) / 3.0) / 0.8)))


def latent_covariances(x: Array, z: Array, scenario: Scenario) -> dict[str, list[Array]]:
    """Covariances of the two latents of each component between inputs x (n,) and z (m,)."""
    smooth = [rbf(x, z, length=e, scale=t) for e, t in zip(GLOBAL_LENGTHS, GLOBAL_SCALES, strict=True)]
    deviation = [PHI * k for k in smooth]
    if scenario == "B":
        wave = periodic(x, z)
        deviation = [0.65 * k + 0.35 * PHI * t**2 * wave for k, t in zip(deviation, GLOBAL_SCALES, strict=True)]
    local = [rbf(x, z, length=e, scale=t) for e, t in zip(LOCAL_LENGTHS, LOCAL_SCALES, strict=True)]
    return {"global": smooth, "deviation": deviation, "local": local}


@dataclass(frozen=True, slots=True)
class Sample:
    """One run: training rows and test rows of every client, the clean test signal, and what generated them."""

    scenario: Scenario
    X: tuple[Array, ...]  # (n, 1) a client
    Y: tuple[Array, ...]  # (n, Q)
    X_test: Array  # (150, 1)
    Y_test: tuple[Array, ...]
    clean_test: tuple[Array, ...]
    B_global: Array  # (Q, 2)
    B_deviation: tuple[Array, ...]
    B_local: tuple[Array, ...]


def simulate(
    scenario: Scenario, seed: int, *, n_clients: int = 6, n_train: int = 50, n_test: int = 150, n_outputs: int = 4
) -> Sample:
    """Draw latents, loadings, inputs and noise of one run (4.1), with the mismatch of ``scenario`` (4.3)."""
    rng = np.random.default_rng(seed)
    x_test = np.linspace(0.0, 10.0, n_test)
    xs = [rng.uniform(0.0, 10.0, n_train) for _ in range(n_clients)]
    everywhere = np.concatenate([*xs, x_test])
    B_global = rng.standard_normal((n_outputs, RANK))
    f_global = _draw(latent_covariances(everywhere, everywhere, scenario)["global"], rng) @ B_global.T
    X, Y, Y_test, clean, B_deviation, B_local = [], [], [], [], [], []
    for i, x in enumerate(xs):
        at = np.concatenate([x, x_test])
        K = latent_covariances(at, at, scenario)
        B_deviation.append(rng.standard_normal((n_outputs, RANK)))
        B_local.append(rng.standard_normal((n_outputs, RANK)))
        deviation = _draw(K["deviation"], rng) @ B_deviation[-1].T
        local = _draw(K["local"], rng) @ B_local[-1].T
        if scenario == "D":
            local = CORRELATION * deviation + np.sqrt(1.0 - CORRELATION**2) * local
        shared = np.concatenate([f_global[i * n_train : (i + 1) * n_train], f_global[n_clients * n_train :]])
        signal = shared + deviation + local
        if scenario == "C":
            signal = signal + rng.uniform(0.35, 0.60) * shared * deviation
        noisy = signal + NOISE_STD * rng.standard_normal(signal.shape)
        X.append(x[:, None])
        Y.append(noisy[:n_train])
        Y_test.append(noisy[n_train:])
        clean.append(signal[n_train:])
    return Sample(
        scenario,
        tuple(X),
        tuple(Y),
        x_test[:, None],
        tuple(Y_test),
        tuple(clean),
        B_global,
        tuple(B_deviation),
        tuple(B_local),
    )


def _draw(covariances: list[Array], rng: np.random.Generator) -> Array:
    """(n, R) independent draws, one a covariance, through an eigendecomposition (they are nearly singular)."""
    drawn = []
    for K in covariances:
        values, vectors = np.linalg.eigh(K)
        drawn.append(vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal(len(K))))
    return np.column_stack(drawn)


def _covariance(sample: Sample, i: int, j: int, x: Array, z: Array) -> Array:
    """(35): covariance of the clean outputs of clients i at x and j at z, output-major within each row."""
    K = latent_covariances(x, z, sample.scenario)
    total = sum(np.kron(k, np.outer(b, b)) for k, b in zip(K["global"], sample.B_global.T, strict=True))
    if i == j:
        mix = CORRELATION if sample.scenario == "D" else 0.0
        for k, b in zip(K["deviation"], sample.B_deviation[i].T, strict=True):
            total = total + (1.0 + mix) ** 2 * np.kron(k, np.outer(b, b))
        for k, b in zip(K["local"], sample.B_local[i].T, strict=True):
            total = total + (1.0 - mix**2) * np.kron(k, np.outer(b, b))
    return np.asarray(total)


def exact_bayes(sample: Sample) -> list[tuple[Array, Array]]:
    """Mean (150, Q) and covariance (150, Q, Q) of every client's y under the true covariances, from all rows.

    For scenario C, whose signal is not Gaussian, these are the answers under the additive part alone.
    """
    T, Q = len(sample.X), sample.Y[0].shape[1]
    xs = [X[:, 0] for X in sample.X]
    K = np.block([[_covariance(sample, i, j, xs[i], xs[j]) for j in range(T)] for i in range(T)])
    factor = safe_cholesky(K + NOISE_STD**2 * np.eye(len(K)))
    alpha = factor.solve(np.concatenate([Y.ravel() for Y in sample.Y]))
    x = sample.X_test[:, 0]
    answers = []
    for i in range(T):
        cross = np.hstack([_covariance(sample, i, j, x, xs[j]) for j in range(T)])  # (m Q, N Q)
        prior = _covariance(sample, i, i, x[:1], x[:1])
        reduced = np.einsum(
            "mqn,nmp->mqp",
            cross.reshape(len(x), Q, -1),
            factor.solve(cross.T).reshape(-1, len(x), Q),
            optimize=True,
        )
        answers.append(((cross @ alpha).reshape(-1, Q), prior - reduced + NOISE_STD**2 * np.eye(Q)))
    return answers
