"""What the command line does before a command has begun."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from streamgp.start import ROLES

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


def started(*words: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """A process of which ``click``, what it loads first, takes long; it is told to stop by SIGTERM meanwhile."""
    (tmp_path / "click.py").write_text(SLOW.replace("sys.argv[2]", "'SIGTERM'"))
    paths = ":".join([str(tmp_path), str(ROOT)])
    words = (sys.executable, "-S", *words)
    return subprocess.run(words, env={"PYTHONPATH": paths}, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize("entry", ["script", "streamgp.cli", "consumers"])
def test_who_is_told_to_stop_before_anything_is_loaded_ends_with_0_too(entry: str, tmp_path: Path) -> None:
    """The handler is there before the first import that costs anything, by whichever way a role is started."""
    found = re.search(r'^streamgp = "(.+):(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert found is not None
    script = f"from {found[1]} import {found[2]}; {found[2]}()"
    for name in sorted(ROLES):
        words = {
            "script": ("-c", script, name),
            "streamgp.cli": ("-m", "streamgp.cli", name),
            "consumers": ("-m", f"consumers.{name}"),
        }[entry]
        done = started(*words, tmp_path=tmp_path)
        assert (done.returncode, done.stderr) == (0, "stopped before it had begun\n"), name
    if entry != "consumers":
        assert started(*words[:2], "replay", tmp_path=tmp_path).returncode == -15


def test_until_its_handler_stands_a_role_loads_next_to_nothing() -> None:
    """Neither typing nor enum nor click: on a busy machine each is a tenth of a second, with the signal's default."""
    ask = "import sys; there = set(sys.modules); import streamgp.start; print(*sorted(set(sys.modules) - there))"
    words = [sys.executable, "-c", ask]
    done = subprocess.run(words, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"__future__", "streamgp", "streamgp.start"}
