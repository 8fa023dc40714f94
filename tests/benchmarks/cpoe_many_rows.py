"""Many rows, each count in a process of its own: time and memory of a batch, latency of a stream.

``python -m tests.benchmarks.cpoe_many_rows batch 250000`` prints CPU seconds of the fit, peak GiB and RMSE as one JSON
line, ``... stream 100000`` milliseconds of CPU a row (one ``partial_fit`` and one ``predict``): median, 99% and largest
of every tenth part.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from streamgp.models.experts import CPoERegressor


def truth(X: np.ndarray) -> np.ndarray:
    """A smooth function of three columns."""
    return np.sin(9 * X[:, 0]) * np.cos(7 * X[:, 1]) + X[:, 2]


def batch(n: int) -> dict[str, float]:
    """n rows in three columns, default settings, hyperparameters given."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, 3))
    y = truth(X) + 0.1 * rng.standard_normal(n)
    kernel = ConstantKernel(1.0) * Matern([0.3] * 3, nu=1.5)
    start = time.process_time()
    model = CPoERegressor(kernel, 0.01, optimizer=None, random_state=0).fit(X, y)
    cpu = time.process_time() - start
    Xs = rng.uniform(size=(2000, 3))
    rmse = float(np.sqrt(np.mean((model.predict(Xs) - truth(Xs)) ** 2)))
    return {"rows": n, "cpu": cpu, "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, "rmse": rmse}


def stream(n: int) -> dict[str, list[float]]:
    """n rows one at a time, experts of 128, C = 3."""
    rng = np.random.default_rng(0)
    t = np.arange(n) / 200.0
    X = np.column_stack([t, np.sin(t / 7)])
    y = np.sin(t) + 0.5 * np.sin(3.1 * t) + 0.1 * rng.standard_normal(n)
    kernel = ConstantKernel(1.0) * Matern([1.0, 1.0], nu=1.5)
    model = CPoERegressor(kernel, 0.01, expert_size=128, correlation=3, optimizer=None, random_state=0)
    cpu = np.empty(n)
    for i in range(n):
        start = time.thread_time()
        model.partial_fit(X[i : i + 1], y[i : i + 1])
        model.predict(X[i : i + 1] + 0.005, return_std=True)
        cpu[i] = time.thread_time() - start
    parts = np.array_split(1e3 * cpu, 10)
    return {
        name: [float(np.quantile(p, at)) for p in parts] for name, at in (("median", 0.5), ("99%", 0.99), ("max", 1))
    }


def apart(what: str, rows: int) -> dict[str, float]:
    """Numbers of a batch in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.cpoe_many_rows", what, str(rows)]
    found: dict[str, float] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    print(found, flush=True)
    return found


if __name__ == "__main__":
    print(json.dumps({"batch": batch, "stream": stream}[sys.argv[1]](int(sys.argv[2]))))
