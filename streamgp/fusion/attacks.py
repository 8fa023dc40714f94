"""Attacks by name: those of the Byzantine-resilient paper (section 6.1), and those that it leaves out."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from streamgp.errors import SettingsError
from streamgp.fusion.informed import Alie, Collusion, Mimic
from streamgp.fusion.liar import Answer, Attack, Lie, Scene
from streamgp.fusion.lies import (
    BitFlip,
    Flood,
    GaussianLie,
    NotANumber,
    PerQuery,
    SameValue,
    Silence,
    WrongVariance,
)

__all__ = ["KINDS", "Answer", "Attack", "make_attack"]


@final
@dataclass(frozen=True, slots=True)
class Sleeper:
    """Honest until trusted: from ``after`` learned observations on it tells another lie.

    Parameters
    ----------
    after
        Observations learned before it strikes.
    then
        The kind of lie from then on, and ``magnitude`` its size (None: that kind's own).
    """

    after: int = 200
    then: str = "tiny-variance"
    magnitude: float | None = None

    def __post_init__(self) -> None:
        if self.then == "sleeper":
            raise SettingsError("a sleeper that wakes as a sleeper never wakes")
        self._lie()

    @property
    def needs_others(self) -> bool:
        """Whether the lie that it sleeps on does."""
        return self._lie().needs_others

    def tell(self, answer: Answer, scene: Scene) -> list[Answer]:
        """The honest answer, until it is trusted."""
        return self._lie().tell(answer, scene) if scene.learned >= self.after else [answer]

    def _lie(self) -> Lie:
        return make_lie(self.then, {} if self.magnitude is None else {"magnitude": self.magnitude})


_LIES: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "same-value": (SameValue, {}),
    "gaussian": (GaussianLie, {}),
    "alie": (Alie, {}),
    "mimic": (Mimic, {}),
    "bit-flip": (BitFlip, {}),
    "tiny-variance": (WrongVariance, {"variance_factor": 1e-6}),
    "huge-variance": (WrongVariance, {"variance_factor": 1e6}),
    "sleeper": (Sleeper, {}),
    "collusion": (Collusion, {}),
    "per-query": (PerQuery, {}),
    "silence": (Silence, {}),
    "flood": (Flood, {}),
    "nan": (NotANumber, {}),
}

#: every kind of attack, by the name that the command line takes
KINDS = tuple(_LIES)


def make_lie(kind: str, settings: dict[str, Any]) -> Lie:
    """The lie of one kind with these settings; see :func:`make_attack`."""
    if kind not in _LIES:
        raise SettingsError(f"unknown attack {kind!r}: one of {' '.join(KINDS)}")
    make, defaults = _LIES[kind]
    known = {field.name: field.default for field in dataclasses.fields(make)}
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise SettingsError(f"attack {kind} has no setting {', '.join(unknown)}")
    for name, value in settings.items():
        number = isinstance(value, (int, float, np.number)) and math.isfinite(value)
        if not number and (name == "magnitude" or isinstance(known[name], (int, float))) and value is not None:
            raise SettingsError(f"attack {kind}: {name} must be a finite number, got {value!r}")
        whole = isinstance(known[name], int) or name == "n_trim"
        if whole and value is not None and (value != int(value) or value < 0):
            raise SettingsError(f"attack {kind}: {name} must be a whole number, not negative, got {value!r}")
    lie: Lie = make(**{**defaults, **settings})
    return lie


def make_attack(kind: str, *, seed: int = 0, agent: str = "", **settings: Any) -> Attack:
    """A liar of one kind.

    Parameters
    ----------
    kind
        One of :data:`KINDS`.
    seed, agent
        Two liars of one seed and agent throw the same dice.
    **settings
        Fields of the kind; ``magnitude`` is the size of the lie wherever there is one.

    Raises
    ------
    SettingsError
        If the kind or a setting is unknown, or a setting is out of range.

    Examples
    --------
    >>> liar = make_attack("same-value", magnitude=-50.0)
    >>> liar.strike("q1", [1.5], [0.2], [0.1])[0].mean
    array([-50.])
    """
    if not isinstance(seed, (int, np.integer)) or seed < 0:
        raise SettingsError(f"attack {kind}: seed must be a whole number, not negative, got {seed!r}")
    return Attack(kind, make_lie(kind, settings), seed=seed, agent=agent)
