"""One method on one data set, in a process of its own: accuracy, time and memory as one JSON line.

``python -m tests.benchmarks.cpoe_curve kin40k vecchia 20`` or ``... kin40k cpoe n_experts=8 correlation=2``. All
methods get the same number of threads, the one that ``OMP_NUM_THREADS`` says.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys

from tests.benchmarks.cpoe_rivals import Data, Score, exact, ours, svgp, vecchia
from tests.benchmarks.cpoe_sets import SETS


def run(data: Data, method: str, *arguments: str) -> Score:
    """Hyperparameters, fit and prediction by one method."""
    if method == "vecchia":
        return vecchia(data, neighbours=int(arguments[0]))
    if method == "exact":
        return exact(data, rows=int(arguments[0]))
    if method == "svgp":
        return svgp(data, inducing=int(arguments[0]))
    settings = dict(a.split("=") for a in arguments)
    return ours(data, **{name: int(value) if value.isdigit() else value for name, value in settings.items()})


def apart(data: str, method: str, *arguments: object) -> dict[str, float]:
    """:func:`run` in a process of its own, with its peak memory in GiB."""
    command = [sys.executable, "-m", "tests.benchmarks.cpoe_curve", data, method, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *lines, last = done.stdout.strip().splitlines()
    print(*lines, sep="\n", flush=True)
    found: dict[str, float] = json.loads(last)
    return found


def main() -> None:
    """Print one JSON line."""
    name, method, *arguments = sys.argv[1:]
    score = run(SETS[name](), method, *arguments)
    gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"    {name}, {gib:.2f} GiB")
    numbers = {k: getattr(score, k) for k in ("rmse", "nlpd", "coverage", "seconds", "cpu")}
    print(json.dumps({"data": name, "method": " ".join([method, *arguments]), **numbers, "gib": gib}))


if __name__ == "__main__":
    main()
