"""The seam between a role and whatever a station believes."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

from typing_extensions import Self

from streamgp.gp.gaussian import Array, Gaussian

#: numbers, strings, None, lists and dicts of them, and numpy arrays: what a snapshot can hold without pickle
State: TypeAlias = dict[str, Any]


class LocalModel(Protocol):
    """A model of standardised y given rows z, updated one or many observations at a time."""

    @property
    def learned(self) -> int:
        """Observations behind the model so far, forgotten ones included."""

    def learn(self, Z: Array, y: Array) -> None:
        """Take in rows Z (n, d) with targets y (n,); equal to learning them one by one."""

    def predict(self, Z: Array) -> Gaussian:
        """Belief at rows Z (m, d); the model is not changed. Before any data: the prior."""

    def state(self) -> State:
        """All that a twin needs to go on from here."""

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The model that ``state`` describes: it predicts and learns the same, to the bit."""
