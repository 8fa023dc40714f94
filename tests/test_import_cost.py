"""What a process of a network does not load: its start costs what it uses, not what the library can do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: dear to import, and of no use to a role with the default model
DEAR = ("sklearn", "pandas", "matplotlib", "scipy.stats")

CODE = """
import consumers.agent, consumers.cloud, consumers.scorer, streamgp, streamgp.fusion
consumers.options.one_thread()
import numpy as np
from streamgp.roles.settings import Settings
from streamgp.roles.wiring import agent_role, station_model
agent_role(Settings(), "A")
station = station_model(Settings())
for day in range(60):
    station.observe(day * 86_400_000, {}, float(day % 7))
twin = station_model(Settings())
twin.restore(station.state())
row, _, _ = twin.ask(60 * 86_400_000)
assert np.isfinite(twin.answer(row[None]).mean).all()
"""


def test_a_role_with_the_default_model_loads_neither_scikit_learn_nor_pandas() -> None:
    """The mains, and an agent that starts, learns, is restored and answers: 0.8 s of processor time a start."""
    ask = f"import sys; print([name for name in {DEAR!r} if name in sys.modules])"
    assert _said(f"{CODE}\n{ask}") == "[]\n"


def test_libraries_loaded_later_keep_to_one_thread_too() -> None:
    """A station's BLAS has one thread, also where the model brings it in after the process has begun."""
    late = "import consumers.options\nconsumers.options.one_thread()\nimport scipy.linalg\n"
    ask = "import threadpoolctl; print({pool['num_threads'] for pool in threadpoolctl.threadpool_info()})"
    assert _said(late + ask) == "{1}\n"


def _said(code: str) -> str:
    free = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=free, cwd=ROOT)
    assert done.stderr == ""
    return done.stdout
