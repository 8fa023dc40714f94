"""The parameters: what all clients share and what each keeps for itself, as flat arrays by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from streamgp.gp.gaussian import Array

#: unconstrained arrays by name; positive ones are stored before their softplus (pFedHGP, 3.7)
Block = Mapping[str, Array]


def softplus(eta: Array) -> Array:
    """log(1 + exp(eta)), without overflow."""
    return np.logaddexp(0.0, eta)


def softplus_inverse(value: Array) -> Array:
    """The eta whose softplus is ``value`` > 0."""
    return value + np.log(-np.expm1(-value))


def softplus_slope(eta: Array) -> Array:
    """d softplus / d eta."""
    return np.asarray(expit(eta))


@dataclass(frozen=True, slots=True)
class Layout:
    """Which layers there are and how wide: ranks of (34), 0 for a layer that is left out.

    ``n_kernels`` global kernels serve the global latents and, scaled by phi, the deviation latents in turn; with
    ``period``, the turn starts again after so many deviation latents. ``own_noise``: each client has a noise variance
    of its own, the shared one times exp(log_noise).
    """

    n_outputs: int
    rank_global: int
    rank_deviation: int
    rank_local: int
    period: int = 0
    own_noise: bool = False

    @property
    def turn(self) -> NDArray[np.intp]:
        """(rank_deviation,) the global kernel of each deviation latent."""
        at = np.arange(self.rank_deviation)
        return (at % (self.period or max(self.rank_deviation, 1))) % max(self.n_kernels, 1)

    @property
    def n_kernels(self) -> int:
        """Global kernels with features of their own."""
        return self.rank_global or self.rank_deviation

    @property
    def scalar(self) -> bool:
        """One output and at most one latent a layer: a loading would only be a second scale, so it stays 1."""
        return self.n_outputs == 1 and max(self.rank_global, self.rank_deviation, self.rank_local) == 1


@dataclass(frozen=True, slots=True)
class Scales:
    """Positive quantities of a client's view: kernels, and loadings with all scales multiplied in.

    ``W`` (Q, R) has the effective loadings of the layers global, deviation, local side by side, so that
    y = sum over latents of W[:, r] A_r v_r + noise with whitened v.
    """

    global_lengthscale: Array
    local_lengthscale: Array
    W: Array
    noise: float


def scales(shared: Block, own: Block, layout: Layout) -> Scales:
    """The client's positive quantities from its unconstrained ones."""
    s_g = np.sqrt(softplus(shared["eta_variance"]))  # (kernels,)
    s_l = np.sqrt(softplus(own["eta_variance"]))
    turn = layout.turn
    root_phi = np.sqrt(softplus(shared["eta_phi"]))
    W = np.hstack(
        [
            shared["loadings"] * s_g[: layout.rank_global],
            own["deviation_loadings"] * (root_phi * s_g[turn]),
            own["local_loadings"] * s_l,
        ]
    )
    return Scales(
        softplus(shared["eta_lengthscale"]),
        softplus(own["eta_lengthscale"]),
        W,
        noise_of(shared, own),
    )


def noise_of(shared: Block, own: Block) -> float:
    """The client's noise variance."""
    noise = float(softplus(shared["eta_noise"])[0])
    return noise * float(np.exp(own["log_noise"][0])) if "log_noise" in own else noise


def scales_backward(
    shared: Block, own: Block, layout: Layout, *, W_bar: Array, noise_bar: float
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Derivatives by the shared and the own scales, given those by W (Q, R) and by the noise variance."""
    rg, rd = layout.rank_global, layout.rank_deviation
    v_g, v_l = softplus(shared["eta_variance"]), softplus(own["eta_variance"])
    s_g, s_l = np.sqrt(v_g), np.sqrt(v_l)
    turn = layout.turn
    phi = softplus(shared["eta_phi"])
    G, D, K = W_bar[:, :rg], W_bar[:, rg : rg + rd], W_bar[:, rg + rd :]
    by_s = np.zeros_like(s_g)
    by_s[:rg] = (G * shared["loadings"]).sum(axis=0)
    deviation = (D * own["deviation_loadings"]).sum(axis=0)
    np.add.at(by_s, turn, np.sqrt(phi) * deviation)
    local = (K * own["local_loadings"]).sum(axis=0)
    of_shared = {
        "loadings": G * s_g[:rg],
        "eta_variance": by_s / (2.0 * s_g) * softplus_slope(shared["eta_variance"]),
        "eta_phi": (deviation @ s_g[turn]) / (2.0 * np.sqrt(phi)) * softplus_slope(shared["eta_phi"]),
        "eta_noise": noise_bar * softplus_slope(shared["eta_noise"]) * noise_of(shared, own) / noise_of(shared, {}),
    }
    of_own = {
        "deviation_loadings": D * (np.sqrt(phi) * s_g[turn]),
        "local_loadings": K * s_l,
        "eta_variance": local / (2.0 * s_l) * softplus_slope(own["eta_variance"]),
    }
    if "log_noise" in own:
        of_own["log_noise"] = np.array([noise_bar * noise_of(shared, own)])
    return of_shared, of_own
