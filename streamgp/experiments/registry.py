"""Every study of every paper by name, each a function of the same arguments."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar, final

from streamgp.experiments.results import Report

T = TypeVar("T")

#: paper -> module that holds its ``STUDIES``, a sequence of :class:`Study`; imported when asked for
GROUPS = {
    "byzantine": "streamgp.experiments.byzantine",
    "cpoe": "streamgp.experiments.cpoe",
    "hierarchical": "streamgp.experiments.hierarchical",
    "network": "streamgp.experiments.network",
}


class Progress(Protocol):
    """Hands an iterable on and shows how far it has come."""

    def __call__(self, items: Iterable[T], /, *, description: str, total: int) -> Iterable[T]:
        """The items themselves."""


class Run(Protocol):
    """A study: it draws its figure into ``out`` and returns its table; the runner writes the table."""

    def __call__(self, *, quick: bool, seed: int, out: Path, progress: Progress) -> Report:
        """Run it.

        Parameters
        ----------
        quick
            Fewer repetitions, the same study.
        seed
            Everything random comes from it.
        out
            Folder for figures; it exists.
        progress
            For loops that take long.
        """


@final
@dataclass(frozen=True, slots=True)
class Study:
    """A named study.

    Parameters
    ----------
    name
        What it is called on the command line.
    title
        One line: what it shows, and which figure or table of the paper.
    run
        The function.
    aliases
        Other names: the paper's section, figure and table.
    parts
        Name to a function that runs this part of the study alone: the whole takes long.

    Examples
    --------
    >>> Study("beta", "Fig. 2b", run=lambda **_: Report([]), aliases=("6.1.2",)).answers_to("6.1.2")
    True
    """

    name: str
    title: str
    run: Run
    aliases: tuple[str, ...] = ()
    parts: Mapping[str, Run] = field(default_factory=dict)

    def answers_to(self, name: str) -> bool:
        """Whether it is called so."""
        return name.lower() in (self.name, *self.aliases)

    def part(self, name: str) -> Study:
        """The study that is this part of it, called ``STUDY-PART``.

        Raises
        ------
        KeyError
            If it has no such part.
        """
        return replace(self, name=f"{self.name}-{name}", run=self.parts[name], aliases=(), parts={})


def studies(group: str) -> Sequence[Study]:
    """The studies of one paper.

    Raises
    ------
    KeyError
        If no paper is called so.
    """
    found: Sequence[Study] = importlib.import_module(GROUPS[group]).STUDIES
    return found


def no_progress(items: Iterable[T], /, *, description: str, total: int) -> Iterable[T]:
    """Show nothing."""
    return items
