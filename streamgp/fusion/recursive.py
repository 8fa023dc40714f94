"""Recursive ridge regressions with forgetting, many rows (stations) and several settings side by side.

The state is exact and additive: discounted second moments A and b per forgetting factor. Inverses and weights are
caches per (forgetting factor, ridge), rebuilt on a schedule of the row's own count.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from streamgp.fusion.table import Table, span
from streamgp.gp.gaussian import Array

Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]

# The inverse is rebuilt after every other step at first, later when the count has grown by a tenth, in the end every
# ``refresh`` steps; rows take turns, so that no step pays for all of them.
_SHARE = 10


@final
class RecursiveRidge:
    """For each row the posterior of w in e = w'z + noise, under every (forgetting, ridge) pair.

    With weights a_t (row precision times the discount) the posterior is ``N(P b, P)``,
    ``P = (sum a z z' + diag(ridge))^-1``, ``b = sum a z e``. The ridge, the prior precision of w, is added afresh
    at each rebuild and so never forgotten: what was learned long ago falls back to the prior, and nothing winds up.

    Parameters
    ----------
    forgetting
        F discount factors per learned row, in (0, 1].
    ridge : (R, d)
        R prior precisions per feature.
    refresh
        The most learned rows between two rebuilds of the inverse.

    Examples
    --------
    >>> import numpy as np
    >>> model = RecursiveRidge(forgetting=(1.0,), ridge=np.full((1, 1), 1e-6), refresh=1)
    >>> model.grow(1)
    >>> for z in (1.0, 2.0, 3.0):
    ...     model.learn(np.array([0]), np.array([[z]]), np.array([2.0 * z]), np.ones(1))
    >>> mean, _, _ = model.predict(np.array([0]), np.array([[5.0]]))
    >>> mean.round(4)
    array([[10.]])
    """

    def __init__(self, *, forgetting: tuple[float, ...], ridge: Array, refresh: int) -> None:
        self.forgetting = np.asarray(forgetting, dtype=np.float64)  # (F,)
        self.ridge = np.asarray(ridge, dtype=np.float64)  # (R, d)
        self.refresh = refresh
        F, (R, d) = len(forgetting), self.ridge.shape
        prior = np.zeros((F, R, d, d))
        prior[..., np.arange(d), np.arange(d)] = 1.0 / self.ridge
        self.table = Table(
            {
                "A": np.zeros((F, d, d)),
                "b": np.zeros((F, d)),
                "mass": np.zeros(F),  # discounted sum of row precisions
                "P": prior,
                "w": np.zeros((F, R, d)),
                "count": np.int64(0),
                "stale": np.int64(0),  # rows learned since the last rebuild
            }
        )

    @property
    def n_settings(self) -> int:
        """S = F R, the pairs of forgetting factor and ridge, the ridge running fastest."""
        return len(self.forgetting) * len(self.ridge)

    def grow(self, n: int) -> None:
        """Make room for rows up to n, each at the prior."""
        self.table.grow(n)

    def learn(self, rows: Rows, z: Array, e: Array, precision: Array) -> None:
        """Take in one z (B, d), target e (B,) and row precision (B,) for each of the distinct rows."""
        az = precision[:, None] * z
        decay = self.forgetting
        outer = az[:, :, None] * z[:, None, :]
        A, b, mass = self.table["A"], self.table["b"], self.table["mass"]
        count, stale = self.table["count"], self.table["stale"]
        at = span(rows)
        A[at] *= decay[:, None, None]
        A[at] += outer[:, None]
        b[at] *= decay[:, None]
        b[at] += (az * e[:, None])[:, None]
        mass[at] *= decay
        mass[at] += precision[:, None]
        count[at] += 1
        stale[at] += 1
        wait = np.clip(count[rows] // _SHARE, 2, self.refresh)
        turn = np.where(wait < self.refresh, stale[rows] >= wait, (count[rows] + rows) % self.refresh == 0)
        self.rebuild(rows[turn])

    def rebuild(self, rows: Rows) -> None:
        """Bring the caches of these rows up to date."""
        if len(rows) == 0:
            return
        d = self.ridge.shape[1]
        precision = np.repeat(self.table["A"][rows][:, :, None], len(self.ridge), axis=2)
        precision[..., np.arange(d), np.arange(d)] += self.ridge
        P = np.linalg.inv(precision)
        P += np.swapaxes(P, -1, -2).copy()
        P *= 0.5
        self.table["P"][rows] = P
        self.table["w"][rows] = np.matmul(P, self.table["b"][rows][:, :, None, :, None])[..., 0]
        self.table["stale"][rows] = 0

    def predict(self, rows: Rows, z: Array) -> tuple[Array, Array, Array]:
        """Mean (B, S) of w'z, its spread z'Pz (B, S), and the change (B, S, d) that each feature makes.

        The change of feature j is the mean minus the mean of the ridge regression that never saw j: deleting j
        from a Gaussian posterior takes ``(Pz)_j w_j / P_jj`` away.
        """
        B, d = z.shape
        S = self.n_settings
        at = span(rows)
        P = self.table["P"][at].reshape(B, S * d, d)
        w = self.table["w"][at].reshape(B, S, d)
        Pz = np.matmul(P, z[:, :, None]).reshape(B, S, d)
        mean = np.sum(w * z[:, None], axis=-1)
        spread = np.sum(Pz * z[:, None], axis=-1)
        diagonal = P.reshape(B, S, d, d)[..., np.arange(d), np.arange(d)]
        return mean, spread, Pz * w / diagonal

    def fill(self, rows: Rows, z: Array, known: Mask, *, setting: tuple[int, int]) -> tuple[Array, Array]:
        """Conditional mean of the unknown features given the known ones, and the variance that w'z gains by it.

        The running second moments of z are S = P^-1 / mass (ridge included), so the conditional mean of the unknown
        part u given the known part o is ``-(P_uu)^-1 P_uo z_o`` and its covariance ``(P_uu)^-1 / mass``: w'z with the
        filled-in z is then the prediction of the regression on the known features alone.

        Parameters
        ----------
        z : (B, d)
            Entries that are not known may hold anything.
        known : (B, d)
        setting
            The (forgetting, ridge) pair whose moments are used.

        Returns
        -------
        (B, d) filled z, (B,) variance of w'z from not knowing (at most that of features of unit variance).
        """
        z = np.where(known, z, 0.0)
        extra = np.zeros(len(rows))
        lacking = np.flatnonzero(~known.all(axis=-1))
        if len(lacking) == 0:
            return z, extra
        some = rows[lacking]
        P = self.table["P"][some, setting[0], setting[1]]
        w = self.table["w"][some, setting[0], setting[1]]
        unknown = ~known[lacking]
        both = unknown[:, :, None] & unknown[:, None, :]
        d = z.shape[1]
        # Known features get rows of the identity, so that one batch of solves serves every pattern of gaps.
        M = np.where(both, P, 0.0)
        M[:, np.arange(d), np.arange(d)] += np.where(unknown, 0.0, 1.0)
        toward = np.matmul(P, z[lacking][:, :, None])[..., 0]
        right = np.stack([np.where(unknown, -toward, 0.0), np.where(unknown, w, 0.0)], axis=-1)
        solved = np.linalg.solve(M, right)
        z[lacking] = np.where(unknown, solved[..., 0], z[lacking])
        w_u = right[..., 1]
        mass = np.maximum(self.table["mass"][some, setting[0]], 1.0)
        extra[lacking] = np.minimum(np.sum(w_u * solved[..., 1], axis=-1) / mass, np.sum(w_u * w_u, axis=-1))
        return z, extra

    def reset_feature(self, row: int, feature: int) -> None:
        """Send one feature of one row back to its prior: another source takes its place."""
        self.table["A"][row, :, feature, :] = 0.0
        self.table["A"][row, :, :, feature] = 0.0
        self.table["b"][row, :, feature] = 0.0

    def state(self) -> dict[str, Any]:
        """All that a twin needs to go on from here; the caches are part of it, as they were built earlier."""
        return self.table.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Become the regressions that ``state`` describes."""
        self.table.restore(state)
