"""Point by point, the cloud's answer or the station's own: equations (8) and (9)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, cast, final

import numpy as np
from numpy.typing import ArrayLike

from streamgp.errors import SettingsError
from streamgp.fusion.bounds import Theory
from streamgp.fusion.fused import Mask, numbers, usable_mask
from streamgp.gp.gaussian import Array

Rule: TypeAlias = Literal["eq8", "eq9"]
RULES: tuple[Rule, ...] = ("eq8", "eq9")


_CLEARLY = 2.0  # standard errors


class Believed(Protocol):
    """Whatever has a variance (m,): a ``Gaussian``, a ``Fused``."""

    @property
    def variance(self) -> Array:
        """(m,) variance of the latent function."""


@final
@dataclass(frozen=True, slots=True)
class ChoiceConstants:
    """The three constants of (9): the cloud is used where theta_cloud v_cloud - theta_local v_local < -margin.

    Examples
    --------
    >>> ChoiceConstants(theta_cloud=1.0, theta_local=1.0, margin=0.0)  # with these, (9) is (8)
    ChoiceConstants(theta_cloud=1.0, theta_local=1.0, margin=0.0)
    """

    theta_cloud: float
    theta_local: float
    margin: float

    def __post_init__(self) -> None:
        if not all(math.isfinite(x) and x >= 0 for x in (self.theta_cloud, self.theta_local, self.margin)):
            raise SettingsError("the constants of (9) must be finite and not negative")

    @classmethod
    def from_theory(
        cls, theory: Theory, *, noise_variance: float, dispersion: float, dispersion_bound: float
    ) -> ChoiceConstants:
        """Theta-hat, theta-check and Gamma as Theorem 2 defines them.

        With these (9) never picks the cloud, whatever the data: theta-check times a local variance is at most
        ``sigma_e kappa(d) / (sigma_f^2 + sigma_e^2) <= sigma``, and Gamma is above ``sigma sqrt(2 ln 2)``.
        :meth:`from_record` gives constants of the same meaning that do.

        Parameters
        ----------
        theory
            Kernel, noises, sup norm, Lipschitz constant, beta and delta.
        noise_variance
            This agent's own noise variance.
        dispersion
            d^[i](t), this agent's own dispersion.
        dispersion_bound
            gamma_d, a bound of every agent's dispersion.
        """
        if not theory.noise_least <= noise_variance <= theory.noise_greatest:
            raise SettingsError("noise_variance must lie between the least and the greatest of the theory")
        if not 0.0 <= dispersion <= dispersion_bound < math.inf:
            raise SettingsError("need 0 <= dispersion <= dispersion_bound, finite")
        sf2, kappa = theory.signal_variance, theory.kappa
        shrink = (sf2 + theory.noise_greatest - kappa(dispersion_bound)) * theory.sup_norm
        near = kappa(dispersion)
        return cls(
            theta_cloud=shrink / ((1.0 - 2.0 * theory.beta) * sf2 * theory.noise_least),
            theta_local=math.sqrt(noise_variance) * near / (sf2**2 + sf2 * noise_variance - near**2),
            margin=sf2 * theory.lipschitz * dispersion_bound / (sf2 + theory.noise_least) + theory.spread,
        )

    @classmethod
    def from_record(
        cls,
        *,
        local_error: Array,
        local_variance: Array,
        cloud_error: Array,
        cloud_variance: Array,
        margin: float = 0.0,
    ) -> ChoiceConstants:
        """Constants estimated from past answers whose truth is known.

        Theorem 2 writes both errors as a constant times the claimed variance, bounding the cloud's from above (31)
        and the station's from below (30). What (9) decides by is the ratio of the two constants, and here it is the
        one that would have chosen best: with the least sum of squared errors over the record. Only where that is
        clearly less (by twice its standard error) than with one of the two everywhere is there a choice at all; else
        the better one has it, from the ratio of sqrt(sum e^2 / sum v^2) or the end of the record on, whichever is
        farther. theta_cloud is that number itself, which makes the two sides of (9) equal on average.

        Parameters
        ----------
        local_error, local_variance, cloud_error, cloud_variance : (n,)
            Past errors of the two answers, and the latent variances that they claimed. A row that holds what no
            answer could (NaN, a variance that is not positive) tells nothing and is left out.
        margin
            How much better the cloud must be, in the units of y.

        Raises
        ------
        ValueError
            If the columns are not of one length, or no row tells anything.
        """
        local_error, local_variance, cloud_error, cloud_variance = _record(
            local_error=local_error,
            local_variance=local_variance,
            cloud_error=cloud_error,
            cloud_variance=cloud_variance,
        )
        cloud, local = _per_variance(cloud_error, cloud_variance), _per_variance(local_error, local_variance)
        if not (cloud > 0.0 and local > 0.0):  # one of them never erred
            return cls(cloud, local, margin)
        unit = max(float(np.abs(local_error).max()), float(np.abs(cloud_error).max()))
        gain = (local_error / unit) ** 2 - (cloud_error / unit) ** 2
        ratio = local_variance / cloud_variance
        return cls(cloud, cloud / _best_threshold(ratio, gain, cloud / local), margin)


def choose(
    local: Believed | ArrayLike,
    cloud: Believed | ArrayLike | None,
    rule: Rule = "eq8",
    *,
    constants: ChoiceConstants | None = None,
) -> Mask:
    """(m,) True where the cloud's answer is to be used, the set Z_fused of (8) or (9).

    Parameters
    ----------
    local, cloud
        The two answers, or their variances (m,). Without a cloud (no quorum) the station's own is used everywhere.
    rule
        ``eq8``: where the cloud's variance is the smaller. ``eq9``: where the cloud's squared error is the smaller
        by the bounds of Theorem 2; needs ``constants``.

    Raises
    ------
    SettingsError
        If the rule is unknown, or ``eq9`` has no constants.

    Examples
    --------
    >>> choose([0.5, 0.1], [0.2, 0.2])
    array([ True, False])
    """
    if rule not in RULES:
        raise SettingsError(f"rule must be one of {', '.join(RULES)}, got {rule!r}")
    v_local = _variance(local)
    if cloud is None:
        return np.zeros(v_local.shape, dtype=np.bool_)
    v_cloud = _variance(cloud)
    if v_local.shape != v_cloud.shape:
        raise ValueError(f"local and cloud must be of one shape, got {v_local.shape} and {v_cloud.shape}")
    possible = v_cloud > 0  # the cloud's answer is no answer elsewhere
    if rule == "eq8":
        return np.asarray(possible & (v_local > v_cloud))
    if constants is None:
        raise SettingsError("eq9 needs constants: from settings or from a record")
    with np.errstate(invalid="ignore", over="ignore"):  # two infinite variances: nothing speaks for the cloud
        gain = constants.theta_cloud * v_cloud - constants.theta_local * v_local
    return np.asarray(possible & (gain < -constants.margin))


def _variance(believed: Believed | ArrayLike) -> Array:
    values: Any = getattr(believed, "variance", None)
    return numbers(cast("ArrayLike", believed) if values is None else values, "variances")


def _record(**given: Array) -> list[Array]:
    """Errors and variances of both answers where all four are such as an answer can have."""
    columns = [numbers(values, name) for name, values in given.items()]
    shapes = {column.shape for column in columns}
    if len(shapes) > 1 or columns[0].ndim != 1:
        raise ValueError(f"errors and variances must be (n,), of one length, got {sorted(shapes)}")
    told = usable_mask(columns[0], columns[1]) & usable_mask(columns[2], columns[3])
    if not told.any():
        raise ValueError("no row of the record has finite errors and positive variances of both answers")
    return [column[told] for column in columns]


def _per_variance(error: Array, variance: Array) -> float:
    largest = float(np.abs(error).max())
    if largest == 0.0:
        return 0.0
    most = float(variance.max())  # squares of ratios to the greatest cannot overflow, nor all of them vanish
    return largest / most * float(np.sqrt(((error / largest) ** 2).sum() / ((variance / most) ** 2).sum()))


def _best_threshold(ratio: Array, gain: Array, plain: float) -> float:
    """The ratio of variances above which the cloud is to be used, for the greatest gain in the past.

    Parameters
    ----------
    ratio : (n,)
        Local over cloud variance.
    gain : (n,)
        What the cloud would have saved, in any unit.
    plain
        The threshold that is chosen among equally good ones, or else the end that is next to it.
    """
    values, place = np.unique(ratio, return_inverse=True)
    by_value = np.bincount(place, weights=gain, minlength=len(values))
    square = np.bincount(place, weights=gain**2, minlength=len(values))
    above = np.append(np.cumsum(by_value[::-1])[::-1], 0.0)  # gain of the cloud from the j-th value on
    best = int(above.argmax())
    one = 0 if above[0] > 0.0 else len(values)  # the better one of both, everywhere
    apart = slice(best, one) if best < one else slice(one, best)  # where the two choices differ
    if above[best] - above[one] <= _CLEARLY * math.sqrt(float(square[apart].sum())):
        best = one
    if best == 0:
        return float(max(min(plain, values[0] * (1.0 - 1e-9)), 1e-9 * plain))
    if best == len(values):
        return float(max(plain, values[-1] * (1.0 + 1e-9)))
    return float(np.sqrt(values[best - 1]) * np.sqrt(values[best]))
