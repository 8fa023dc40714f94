"""What the command line does before a command has begun."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from streamgp.cli import ROLES

ROOT = Path(__file__).resolve().parents[1]
#: a command whose loading takes long: it is told to stop meanwhile, in the middle of an import that catches everything
SLOW = """
import os, signal, sys, time
try:
    os.kill(os.getpid(), getattr(signal, sys.argv[2]))
    time.sleep(5)
except BaseException:
    pass
"""


@pytest.mark.parametrize(("name", "sign"), [("agent", "SIGTERM"), ("trainer", "SIGINT")])
def test_a_role_that_is_told_to_stop_while_it_is_loaded_ends_with_0(name: str, sign: str, tmp_path: Path) -> None:
    assert {name, "cloud", "scorer", "trainee"} < ROLES
    (tmp_path / "slow.py").write_text(SLOW)
    code = f"import sys; from streamgp import cli; cli.COMMANDS[{name!r}] = ('slow', ''); cli.main([{name!r}])"
    words = [sys.executable, "-S", "-c", code, name, sign]
    paths = ":".join([str(ROOT), str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(words, env={"PYTHONPATH": paths}, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "stopped before it had begun\n")


def test_another_command_ends_of_the_signal(tmp_path: Path) -> None:
    """A replay that is cut off in the middle has not done what it was told."""
    (tmp_path / "slow.py").write_text(SLOW)
    code = "import sys; from streamgp import cli; cli.COMMANDS['replay'] = ('slow', ''); cli.main(['replay'])"
    words = [sys.executable, "-S", "-c", code, "replay", "SIGTERM"]
    paths = ":".join([str(ROOT), str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(words, env={"PYTHONPATH": paths}, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == -15
