"""The two real data sets of section 6.2 as networks of 100 agents: Kin40k, and what there is of SARCOS."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

import numpy as np

from streamgp.errors import DatasetError
from streamgp.experiments.byzantine.network import Prior, fit_prior, local_answers
from streamgp.experiments.byzantine.toy import Answers
from streamgp.experiments.byzantine.tuning import Network, best_prior
from streamgp.experiments.registry import Progress
from streamgp.experiments.tables import table
from streamgp.gp.gaussian import Array

AGENTS = 100
LIARS = 5
TEST_POINTS = 40
SARCOS_NOTE = (
    "SARCOS: only a part of the published training file is at hand, so there are {n_train} training points where the "
    "paper has {paper}. The figures are shown and not held to the paper's."
)
_WARM_ROWS = 1_000  # of one warm-up network: ten an agent, as in the smallest setting of Table 4
_WARM_NETWORKS, _QUICK_NETWORKS = 8, 2
_WARM_POINTS = 300
_STEPS, _QUICK_STEPS = 60, 15


@final
@dataclass(frozen=True, slots=True)
class Robot:
    """A data set, standardised, with rows set apart for tuning.

    Parameters
    ----------
    name
        Of the data set.
    Z : (n, d)
        Inputs.
    y : (n,)
        Outputs.

    Examples
    --------
    >>> Robot("tiny", np.zeros((4, 2)), np.zeros(4)).Z.shape
    (4, 2)
    """

    name: str
    Z: Array
    y: Array

    def draw(self, n_train: int, n_test: int, rng: np.random.Generator) -> tuple[Array, Array, Array, Array]:
        """(n, p, d) inputs and (n, p) outputs of the agents, (m, d) test points and (m,) outputs there."""
        order = rng.permutation(len(self.y))
        train, test = order[:n_train], order[n_train : n_train + n_test]
        shape = (AGENTS, n_train // AGENTS)
        return self.Z[train].reshape(*shape, -1), self.y[train].reshape(shape), self.Z[test], self.y[test]

    def answers(self, n_train: int, prior: Prior, *, n_neighbors: int, rng: np.random.Generator) -> Answers:
        """One honest network, freshly drawn, asked at 40 test points."""
        Z, y, Zs, truth = self.draw(n_train, TEST_POINTS, rng)
        return Answers(*local_answers(Z, y, Zs, prior, n_neighbors=n_neighbors), truth)


def load(name: str, *, seed: int) -> tuple[Robot, Robot]:
    """(the study's rows, the warm-up's rows) of a data set, each input and the output standardised.

    Raises
    ------
    DatasetError
        If the file is not there.
    """
    data = table(name)
    Z = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    y = (data.y - data.y.mean()) / data.y.std()
    order = np.random.default_rng([seed, 62]).permutation(len(y))
    apart = min(8_000, len(y) // 4)
    warm, rest = order[:apart], order[apart:]
    return Robot(name, Z[rest], y[rest]), Robot(name, Z[warm], y[warm])


def at_hand(names: Iterable[str], *, seed: int) -> tuple[dict[str, tuple[Robot, Robot]], list[str]]:
    """:func:`load` of those data sets whose files are there, by name, and a note for each that is left out.

    Raises
    ------
    DatasetError
        If none is there.
    """
    found: dict[str, tuple[Robot, Robot]] = {}
    notes, missing = [], None
    for name in names:
        try:
            found[name] = load(name, seed=seed)
        except DatasetError as error:
            missing = error
            notes.append(f"{name} is left out: {error}.")
    if missing is not None and not found:
        raise missing
    return found, notes


def largest(robot: Robot, wanted: int) -> int:
    """Training points that there are, at most ``wanted``, in hundreds, with 300 rows left for tests."""
    return min(wanted, (len(robot.y) - 300) // AGENTS * AGENTS)


def tune(warm: Robot, *, n_neighbors: int, seed: int, quick: bool, progress: Progress) -> Prior:
    """Length-scales, noise and prior mean that are best for what the cloud serves: least squared trimmed error.

    Evidence on a handful of rows says little of the length-scales that an average of a hundred such agents wants, and
    where the outputs are skewed a prior mean of 0 is what most agents say and the cut then leaves.
    The warm-up's rows are dealt to networks of 1,000 rows, asked at warm-up rows that they have not seen;
    L-BFGS starts at the maximum-likelihood hyperparameters.
    """
    networks = []
    for number in range(_QUICK_NETWORKS if quick else _WARM_NETWORKS):
        rng = np.random.default_rng([seed, 63, number])
        networks.append(Network(*warm.draw(_WARM_ROWS, _WARM_POINTS, rng)))
    prior = fit_prior(warm.Z, warm.y, seed=seed)
    steps = _QUICK_STEPS if quick else _STEPS
    for _ in progress(range(1), description=f"tuning {warm.name}, k={n_neighbors}", total=1):
        prior, _error = best_prior(networks, prior, n_neighbors=n_neighbors, n_trim=LIARS, steps=steps)
    return prior
