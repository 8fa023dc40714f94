"""The hierarchical GP as the local model of a station: own layers on its rows, the global layer from a training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np
from threadpoolctl import threadpool_limits
from typing_extensions import Self

from streamgp.errors import CheckpointError
from streamgp.gp.gaussian import Array, Gaussian
from streamgp.gp.hierarchy.blocks import Layout
from streamgp.gp.hierarchy.bound import Factors, Shared
from streamgp.gp.hierarchy.data import client_data
from streamgp.models.contract import State
from streamgp.models.hgp.client import client_step
from streamgp.models.hgp.fit import Plan, maximise
from streamgp.models.hgp.globals import GlobalModel
from streamgp.models.hgp.moments import Moments, moments_from, moments_of
from streamgp.models.hgp.posterior import ClientPosterior
from streamgp.models.hgp.start import Units, spread_points, start_own, start_shared
from streamgp.models.rows import check_rows

VERSION = 1
#: rows after which own kernels are fitted for the first time; then each time that there are twice as many
FIRST_FIT = 50
#: without a training: the smooth own layer (the deviation's place in (3)) and the rough one, no global layer
ALONE = Layout(1, 0, 1, 1)
FIT_ITERATIONS = 40
#: iterations of a client's own block at each global record but the first
FOLLOW_ITERATIONS = 5
#: rows are standardised: six standard deviations are the span of 10 of the working units
SPAN = 6.0


@final
class HierarchicalModel:
    """One station's part of the hierarchical GP (3), learned row by row at bounded cost.

    Without a training it has two layers of its own, a smooth and a rough one. :meth:`adopt` puts the global layer of
    a training, and the deviation on its kernels, in the smooth one's place; q(u_g) stays as the server published it
    and the station's own factors are the optimal ones given it, after every row. Own kernels are fitted by the
    bound at 50 rows, 100, 200 and so on, and follow each global record by a few steps.

    Parameters
    ----------
    n_global, n_local
        Inducing inputs of the smooth and of the rough layer while there is no training; a training says its own.
    max_points
        Rows kept for fits. Once there are more, the older half is forgotten.
    fit
        Whether kernels and noise are fitted at all; else they stay as a fresh model has them.
    seed
        Of the starts.

    Examples
    --------
    >>> import numpy as np
    >>> model = HierarchicalModel(fit=False)
    >>> model.learn(np.zeros((4, 2)), np.ones(4))
    >>> belief = model.predict(np.array([[0.0, 0.0], [9.0, 9.0]]))
    >>> bool(belief.mean[0] > 0.8), bool(belief.variance[1] > belief.variance[0]), model.learned
    (True, True, 4)
    """

    def __init__(
        self, *, n_global: int = 48, n_local: int = 32, max_points: int = 2000, fit: bool = True, seed: int = 0
    ) -> None:
        if min(n_global, n_local) < 1 or max_points < 2 * FIRST_FIT:
            raise ValueError(f"budgets must be at least 1 and max_points at least {2 * FIRST_FIT}")
        self._sizes = (n_global, n_local, max_points)
        self._fit, self._seed = fit, seed
        self._learned = 0
        self._X, self._y = np.zeros((0, 0)), np.zeros(0)
        self._global: GlobalModel | None = None
        self._shared: dict[str, Array] = {}
        self._own: dict[str, Array] = {}
        self._moments: Moments | None = None
        self._belief: ClientPosterior | None = None

    @property
    def learned(self) -> int:
        return self._learned

    @property
    def follows(self) -> tuple[str, int] | None:
        """Run and round of the global layer that it stands on, or None while it stands alone."""
        return None if self._global is None else (self._global.run, self._global.round)

    # -- learning

    def learn(self, Z: Array, y: Array) -> None:
        """Take in rows Z (n, d), targets y (n,), standardised.

        Raises
        ------
        ValueError
            If the shapes do not fit or a number is not finite; nothing has changed then.
        """
        check_rows(Z, y)
        if self._X.shape[1] and Z.shape[1] != self._X.shape[1]:
            raise ValueError(f"rows of {self._X.shape[1]} columns expected, got {Z.shape[1]}")
        for x, value in zip(Z, y.tolist(), strict=True):
            self._learn_row(x, value)

    def _learn_row(self, x: Array, y: float) -> None:
        self._X = np.vstack([self._X, x]) if len(self._X) else np.array(x[None])
        self._y = np.append(self._y, y)
        self._learned += 1
        self._belief = None
        full = len(self._X) > self._sizes[2]
        if full:
            self._X, self._y = self._X[len(self._X) // 2 :].copy(), self._y[len(self._y) // 2 :].copy()
        turn = self._learned <= FIRST_FIT or _doubles(self._learned)
        if self._moments is None or turn:
            self._place(fit=self._fit and _doubles(self._learned))
        elif full:
            self._gather()
        else:
            units = self._units
            self._moments.add(units.inputs(x), y / units.scale)

    def _place(self, *, fit: bool) -> None:
        """Inducing inputs among the present rows, where the training does not say them; kernels, if they are due."""
        X, y = self._working()
        rng = np.random.default_rng([self._seed, self._learned])
        if self._global is not None:
            if self._learned <= FIRST_FIT:
                self._own = start_own(X, self._global.layout, self._global.n_local, rng)
            if fit:
                self._climb(FIT_ITERATIONS)
        else:
            fresh = not self._shared
            shared = start_shared(X, ALONE, self._sizes[0], rng, noise=0.2) if fresh else dict(self._shared)
            own = start_own(X, ALONE, self._sizes[1], rng, fixed=True) if fresh else dict(self._own)
            shared["inducing"] = spread_points(X, self._sizes[0], rng)
            own["inducing"] = spread_points(X, self._sizes[1], rng)
            if fit:
                plan = Plan(
                    ALONE, "structured", *self._sizes[:2], self._sizes[1], 1, FIT_ITERATIONS, hold=("inducing",)
                )
                with threadpool_limits(limits=1, user_api="blas"):
                    _, (shared, own) = maximise(
                        [client_data(X, y[:, None])], [shared, own], plan, max_iter=FIT_ITERATIONS
                    )
            self._shared, self._own = shared, own
        self._gather()

    def _climb(self, iterations: int) -> None:
        """The own block under the training's shared one: line 4 of Algorithm 1."""
        assert self._global is not None
        X, y = self._working()
        with threadpool_limits(limits=1, user_api="blas"):
            made = client_step(
                self._global.state,
                client_data(X, y[:, None]),
                self._own,
                layout=self._global.layout,
                factors=self._global.factors,
                iterations=iterations,
            )
        self._own = made.own

    def _gather(self) -> None:
        """The sums of all rows kept, under the present blocks."""
        X, y = self._working()
        layout, factors = self._family(self._global)
        self._moments = moments_of(X, y, shared=self._shared, own=self._own, layout=layout, factors=factors)
        self._belief = None

    def adopt(self, given: GlobalModel) -> bool:
        """Stand on the global layer of a training from now on; False, and no change, if its rows are others.

        Raises
        ------
        ValueError
            If the training has several outputs.
        """
        if given.layout.n_outputs != 1:
            raise ValueError(f"a station forecasts one output, the training has {given.layout.n_outputs}")
        if len(self._X) and given.width != self._X.shape[1]:
            return False
        before, self._global = self._global, given
        self._shared = dict(given.state.block)
        first = before is None or before.layout != given.layout or before.run != given.run
        if not len(self._X):
            self._X = np.zeros((0, given.width))
        if first:
            rng = np.random.default_rng([self._seed, self._learned])
            self._own = start_own(self._working()[0], given.layout, given.n_local, rng)
        if self._fit and self._learned >= FIRST_FIT:
            self._climb(FIT_ITERATIONS if first else FOLLOW_ITERATIONS)
        self._gather()
        return True

    # -- answering

    def predict(self, Z: Array) -> Gaussian:
        """Belief at rows Z (m, d), standardised; the prior while nothing is learned and nothing adopted."""
        if Z.ndim != 2:
            raise ValueError(f"Z must be (m, d), got {Z.shape}")
        if self._moments is None:
            return Gaussian(np.zeros(len(Z)), np.ones(len(Z)), np.full(len(Z), 0.2))
        if self._belief is None:
            self._belief = self._moments.posterior(self._q())
        mean, cov = self._belief.predict(self._units.inputs(Z), latent=True)
        square = self._units.scale**2
        noise = np.full(len(Z), self._belief.scales.noise * square)
        return Gaussian(mean[:, 0] * self._units.scale, cov[:, 0, 0] * square, noise)

    @staticmethod
    def _family(given: GlobalModel | None) -> tuple[Layout, Factors]:
        return (ALONE, "structured") if given is None else (given.layout, given.factors)

    def _q(self) -> Shared | None:
        return None if self._global is None else self._global.state.q

    @property
    def _units(self) -> Units:
        if self._global is not None:
            return self._global.units
        d = self._X.shape[1]
        return Units(np.zeros(d), np.full(d, SPAN), 1.0)

    def _working(self) -> tuple[Array, Array]:
        return self._units.inputs(self._X), self._y / self._units.scale

    # -- the state

    def state(self) -> State:
        return {
            "version": VERSION,
            "sizes": list(self._sizes),
            "fit": self._fit,
            "seed": self._seed,
            "learned": self._learned,
            "X": self._X,
            "y": self._y,
            "shared": dict(self._shared),
            "own": dict(self._own),
            "sums": None if self._moments is None else [self._moments.F.copy(), self._moments.c.copy()],
            "global": None if self._global is None else self._global.plain(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The twin that ``state`` describes.

        Raises
        ------
        CheckpointError
            If it is of another version, or damaged.
        """
        if state.get("version") != VERSION:
            raise CheckpointError(f"hierarchical model: version {state.get('version')!r}, this release reads {VERSION}")
        try:
            n_global, n_local, max_points = (int(v) for v in state["sizes"])
            new = cls(
                n_global=n_global,
                n_local=n_local,
                max_points=max_points,
                fit=bool(state["fit"]),
                seed=int(state["seed"]),
            )
            new._learned = int(state["learned"])
            new._X, new._y = np.array(state["X"], dtype=np.float64), np.array(state["y"], dtype=np.float64)
            new._shared = {name: np.array(a, dtype=np.float64) for name, a in state["shared"].items()}
            new._own = {name: np.array(a, dtype=np.float64) for name, a in state["own"].items()}
            g = new._global = None if state["global"] is None else GlobalModel.from_plain(state["global"])
            if state["sums"] is not None:
                F, c = (np.array(a, dtype=np.float64) for a in state["sums"])
                layout, factors = cls._family(g)
                new._moments = moments_from(F, c, shared=new._shared, own=new._own, layout=layout, factors=factors)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise CheckpointError(f"hierarchical model: damaged state ({error})") from error
        return new


def _doubles(count: int) -> bool:
    """Whether kernels are due at so many rows: at 50, 100, 200 and so on."""
    return count >= FIRST_FIT and count % FIRST_FIT == 0 and ((count // FIRST_FIT) & (count // FIRST_FIT - 1)) == 0
