"""Sums over agents whose last bit does not depend on the order of the agents."""

from __future__ import annotations

import numpy as np

from streamgp.gp.gaussian import Array

_MANTISSA = 52
_SPARE = 4  # bits of a term of a coarse sum, and one more


def order_free_sum(terms: Array) -> Array:
    """Sum over axis 0, the same to the last bit whatever the order of the rows.

    Every term is split on a grid so coarse that the sum of all terms on it is exact; what the grid leaves over is
    summed on a second, finer grid (Demmel and Nguyen, Reproducible summation, 2013, with two folds).

    Parameters
    ----------
    terms : (n, m)
        Finite, below 1e300 in magnitude.

    Returns
    -------
    (m,)
        As exact as an ordinary sum, or more so.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[0.1], [1e16], [0.3], [-1e16]])
    >>> float(order_free_sum(x)[0]) == float(order_free_sum(x[::-1])[0])
    True
    """
    n = terms.shape[0]
    spare = max(1, (n - 1).bit_length()) + 1  # bits that n terms of one size can carry over
    peak = np.maximum(terms.max(axis=0), -terms.min(axis=0))
    power = np.frexp(peak)[1] + spare
    anchor = np.ldexp(1.5, power)
    coarse = terms + anchor
    coarse -= anchor
    total = coarse.sum(axis=0)
    rest = np.subtract(terms, coarse, out=coarse)
    anchor *= 2.0 ** (spare - _MANTISSA - 1)
    rest += anchor
    rest -= anchor
    return np.asarray(total + rest.sum(axis=0))


def coarse_sum(terms: Array) -> Array:
    """Sum over axis 0 of terms that are rounded in place to a grid on which any order gives the same sum.

    For weights and the like, whose size is known beforehand: a quarter of the cost of :func:`order_free_sum`.

    Parameters
    ----------
    terms : (n, m)
        At most 8 in magnitude; rounded to a multiple of 2^(b - 48) where n has b bits.

    Returns
    -------
    (m,)
        The exact sum of the rounded terms.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[0.1], [0.7], [0.2]])
    >>> float(coarse_sum(x)[0]), float(x[0, 0] * 2.0**46) % 1.0
    (1.0, 0.0)
    """
    anchor = 1.5 * 2.0 ** (terms.shape[0].bit_length() + _SPARE)
    terms += anchor
    terms -= anchor
    return np.asarray(terms.sum(axis=0))
