"""What a study's table says by itself: the ordering that the paper claims, and the cells that the paper has too."""

from __future__ import annotations

from collections.abc import Sequence

from streamgp.experiments.byzantine.trials import Trials
from streamgp.experiments.results import Row

MUCH = 10.0  # what << means here
_NOT_OURS = ("attacked", "local")  # columns that say nothing of the algorithm


def ordering(trials: Trials, settings: Sequence[str], *, trimmed: str = "trimmed") -> list[str]:
    """Notes: in which settings attack-free <= trimmed << attacked holds (<<: 10 times), and where and how it does not.

    Examples
    --------
    >>> trials = Trials("toy")
    >>> for method, value in (("attack-free", 1.0), ("trimmed", 2.0), ("attacked", 3.0)):
    ...     trials.add("mimic", method, value)
    >>> for note in ordering(trials, ["mimic"]):
    ...     print(note)
    attack-free <= trimmed << attacked holds in 0 of 1 rows.
    Not held: trimmed << attacked in mimic (attacked is 1.5 x trimmed and 3 x attack-free).
    """
    crossed, mild = [], []
    for setting in settings:
        free, cut, hit = (trials.mean(setting, method) for method in ("attack-free", trimmed, "attacked"))
        if free > cut:
            crossed.append(f"{setting} (trimmed is {cut / free:.3g} x attack-free)")
        if hit < MUCH * cut:
            mild.append(f"{setting} (attacked is {hit / cut:.3g} x trimmed and {hit / free:.3g} x attack-free)")
    failed = {text.partition(" (")[0] for text in (*crossed, *mild)}
    notes = [f"attack-free <= {trimmed} << attacked holds in {len(settings) - len(failed)} of {len(settings)} rows."]
    if crossed:
        notes.append(f"Not held: attack-free <= {trimmed} in {'; '.join(crossed)}.")
    if mild:
        notes.append(f"Not held: {trimmed} << attacked in {'; '.join(mild)}.")
    return notes


def beside_the_paper(rows: Sequence[Row], *, shown: str = "\0") -> str:
    """Note: in how many of the cells that the paper has ours is at most the paper's, and in which it is not.

    Settings that begin with ``shown`` are not held to it, and neither are the columns that show no algorithm of ours.
    """
    held = [
        row
        for row in rows
        if row.paper is not None and not row.setting.startswith(shown) and not row.method.endswith(_NOT_OURS)
    ]
    worse = [
        f"{row.setting} {row.method} ({row.ours:.4g}, paper {row.paper:.4g})"
        for row in held
        if row.paper is not None and row.ours > row.paper
    ]
    where = f"; not in {'; '.join(worse)}" if worse else ""
    return f"At least as good as the paper in {len(held) - len(worse)} of {len(held)} cells{where}."
