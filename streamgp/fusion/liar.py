"""A liar: a wrapper around an honest answer, the same in a simulation and in a running network.

What it does to a query depends on its seed, its agent and the query's id alone, never on the order of the calls:
the same lies are told over any transport and at any speed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np
from numpy.typing import ArrayLike

from streamgp.fusion.fused import numbers
from streamgp.gp.gaussian import Array


@final
@dataclass(frozen=True, slots=True)
class Answer:
    """What an agent sends in reply to a query; a liar's may hold anything.

    Parameters
    ----------
    query_id
        The query that it claims to answer.
    mean, variance, noise_variance : (m,)
        As in :class:`streamgp.gp.gaussian.Gaussian`, but not checked.

    Examples
    --------
    >>> Answer.of("q", [1.0], [0.5], [0.5]).spread
    array([1.])
    """

    query_id: str
    mean: Array
    variance: Array
    noise_variance: Array

    @classmethod
    def of(cls, query_id: str, mean: ArrayLike, variance: ArrayLike, noise_variance: ArrayLike) -> Answer:
        """An answer with arrays of its own, all of the mean's shape (m,).

        Raises
        ------
        ValueError
            If they are not numbers, the mean is not one-dimensional, or another is neither (m,) nor a number.
        """
        mu = np.array(numbers(mean, "mean"))
        others = numbers(variance, "variance"), numbers(noise_variance, "noise_variance")
        if mu.ndim != 1 or any(a.shape not in ((), (1,), mu.shape) for a in others):
            shapes = ", ".join(str(a.shape) for a in (mu, *others))
            raise ValueError(f"mean, variance and noise_variance must be (m,), got {shapes}")
        return cls(query_id, mu, *(np.broadcast_to(a, mu.shape).copy() for a in others))

    @property
    def spread(self) -> Array:
        """(m,) standard deviation of an observation."""
        return np.asarray(np.sqrt(self.variance + self.noise_variance))

    def but(self, *, mean: Array | None = None, variance: Array | None = None, query_id: str = "") -> Answer:
        """The same answer with some of it replaced."""
        return Answer(
            query_id or self.query_id,
            self.mean if mean is None else mean,
            self.variance if variance is None else variance,
            self.noise_variance,
        )


@final
@dataclass(frozen=True, slots=True)
class Scene:
    """What a liar knows besides its own honest answer.

    Parameters
    ----------
    dice
        Random numbers of its own for this query.
    learned
        Observations behind its honest answer.
    others
        (k, m) usable honest means and variances of others, in an order of their own content; k may be 0.
    """

    dice: np.random.Generator
    learned: int
    others: tuple[Array, Array]


class Lie(Protocol):
    """One kind of lie; its fields are the settings."""

    @property
    def needs_others(self) -> bool:
        """True if it is the stronger for having seen the honest answers."""

    def tell(self, answer: Answer, scene: Scene) -> list[Answer]:
        """The answers sent instead of the honest one: none, one or many."""


@final
@dataclass(frozen=True, slots=True)
class Attack:
    """A liar of one kind, with its dice.

    Parameters
    ----------
    kind
        Name of the kind.
    lie
        What it tells.
    seed, agent
        Two liars of one seed and agent throw the same dice.
    """

    kind: str
    lie: Lie
    seed: int = 0
    agent: str = ""

    @property
    def needs_others(self) -> bool:
        """True if the lie is the stronger for having seen the honest answers first."""
        return self.lie.needs_others

    def strike(
        self,
        query_id: str,
        mean: ArrayLike,
        variance: ArrayLike,
        noise_variance: ArrayLike,
        *,
        learned: int = 0,
        others: Sequence[Answer] | None = None,
    ) -> list[Answer]:
        """The answers sent instead of the honest one: none, one or many.

        Parameters
        ----------
        query_id
            The query.
        mean, variance, noise_variance : (m,)
            The honest answer; it is not changed.
        learned
            Observations behind it.
        others
            Answers of honest agents to the same query, in any order, if the liar could see them.
        """
        answer = Answer.of(query_id, mean, variance, noise_variance)
        return self.lie.tell(answer, Scene(self._dice(query_id), learned, _stacked(others or (), answer.mean.size)))

    def _dice(self, query_id: str) -> np.random.Generator:
        digest = hashlib.sha256(f"{self.agent}\0{query_id}".encode()).digest()
        return np.random.default_rng([self.seed, int.from_bytes(digest[:8], "big")])


def _stacked(others: Sequence[Answer], m: int) -> tuple[Array, Array]:
    """(k, m) means and variances of the whole and finite answers, ordered by their content."""
    rows = [(tuple(o.mean), tuple(o.variance)) for o in others if o.mean.size == m]
    rows = sorted(r for r in rows if np.isfinite(r).all())
    return (
        np.array([r[0] for r in rows], dtype=np.float64).reshape(len(rows), m),
        np.array([r[1] for r in rows], dtype=np.float64).reshape(len(rows), m),
    )
