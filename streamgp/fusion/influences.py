"""Who foretells whom, read off the learners for people to look at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from streamgp.fusion.asked import Influence
from streamgp.fusion.targets import Targets


def influences(targets: Targets, names: Sequence[str], *, horizon_ms: int) -> list[Influence]:
    """One entry per station and source, in the order of the rows."""
    rows = np.arange(len(names))
    weight, score = targets.source_weights(rows), targets.harm.score(rows)
    found = []
    for row in rows.tolist():
        correlation = targets.screening.correlation(row)
        for slot, source in enumerate(targets.screening.sources[row].tolist()):
            if source < 0:
                continue
            place = targets.screening.table["places"][row, slot]
            found.append(
                Influence(
                    station=names[row],
                    source=names[source],
                    horizon_ms=horizon_ms,
                    weight=float(weight[row, slot]),
                    correlation=float(correlation[place]),
                    harm=float(score[row, slot]),
                    dropped=bool(targets.harm.dropped[row, slot]),
                )
            )
    return found


def dropped(horizons: Iterable[Targets], names: Sequence[str]) -> dict[str, list[str]]:
    """Source to the stations that hear it no more at some horizon, both by name."""
    pairs: set[tuple[int, int]] = set()
    for targets in horizons:
        rows, slots = np.nonzero(targets.harm.dropped)
        pairs |= set(zip(targets.screening.sources[rows, slots].tolist(), rows.tolist(), strict=True))
    found: dict[str, list[str]] = {}
    for source, row in sorted((names[s], names[r]) for s, r in pairs if s >= 0):
        found.setdefault(source, []).append(row)
    return found
