"""Whether KL to the full GP falls with the degree of correlation, said under every table that has both."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from streamgp.experiments.results import Row

_DEGREE = re.compile(r"CPoE\((\d+)\)|\bC=(\d+)")


def kl_by_degree(rows: Sequence[Row]) -> dict[str, list[tuple[int, float]]]:
    """(C, KL of the latent function), C ascending, by what else the setting and the method say."""
    found: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for row in rows:
        name = f"{row.setting} {row.method}"
        degree = _DEGREE.search(name)
        if row.metric == "kl" and degree is not None:
            rest = " ".join(_DEGREE.sub("", name).split())
            found[rest].append((int(degree[1] or degree[2]), row.ours))
    return {name: sorted(line) for name, line in found.items()}


def kl_falls(rows: Sequence[Row]) -> str:
    """In words; where it rises, by how much.

    Examples
    --------
    >>> kl_falls([Row("s", "n=9", f"CPoE({C})", "kl", kl) for C, kl in ((1, 0.5), (2, 0.1), (3, 0.2))])
    'KL to the full GP does not fall with C everywhere: n=9, C = 2 to 3, 0.1 to 0.2.'
    """
    lines = kl_by_degree(rows)
    rises = [
        f"{name}, C = {C} to {next_C}, {kl:.3g} to {next_kl:.3g}"
        for name, line in lines.items()
        for (C, kl), (next_C, next_kl) in pairwise(line)
        if next_kl > kl
    ]
    if rises:
        return "KL to the full GP does not fall with C everywhere: " + "; ".join(rises) + "."
    return f"KL to the full GP falls with every step of C ({sum(len(line) - 1 for line in lines.values())} of them)."
