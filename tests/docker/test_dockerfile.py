"""docker/Dockerfile without an engine: rules like hadolint's, and an installation from the files that it copies."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docker"


def instructions() -> list[tuple[str, str]]:
    """(INSTRUCTION, rest) of every line, continuations joined, comments dropped."""
    text = re.sub(r"\\\n", " ", (FOLDER / "Dockerfile").read_text())
    lines = [line.strip() for line in text.splitlines()]
    return [(w[0].upper(), w[1]) for line in lines if line and not line.startswith("#") for w in [line.split(None, 1)]]


LINES = instructions()
LAST_STAGE = LINES[max(i for i, (word, _) in enumerate(LINES) if word == "FROM") :]


def copied() -> list[str]:
    """What is copied from the repository."""
    found = []
    for word, rest in LINES:
        if word == "COPY" and "--from=" not in rest:
            found += [source.removeprefix("./") for source in rest.split()[:-1]]
    return found


def test_instructions_are_known_and_begin_with_a_base() -> None:
    known = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
    assert {word for word, _ in LINES} <= known  # no ADD, no MAINTAINER, no VOLUME over what was copied
    assert LINES[0][0] == "FROM"


def test_base_images_are_pinned_small_and_of_a_supported_python() -> None:
    supported = re.search(r'requires-python = ">=3\.(\d+)"', (ROOT / "pyproject.toml").read_text())
    assert supported is not None
    for word, rest in LINES:
        if word == "FROM":
            base = re.match(r"python:3\.(\d+)-slim(?: AS \w+)?$", rest)
            assert base is not None, rest
            assert int(base.group(1)) >= int(supported.group(1))


def test_nothing_runs_as_root() -> None:
    users = [rest for word, rest in LAST_STAGE if word == "USER"]
    assert users == ["streamgp"]
    made = [rest for word, rest in LAST_STAGE if word == "RUN" and "useradd" in rest]
    assert len(made) == 1
    after = LAST_STAGE[[word for word, _ in LAST_STAGE].index("USER") :]
    assert not any(word in ("RUN", "COPY") for word, _ in after)


def test_the_command_chooses_the_role_and_signals_reach_it() -> None:
    """The exec form: no shell stands between the engine's SIGTERM and the role."""
    last = dict(LAST_STAGE)
    assert json.loads(last["ENTRYPOINT"]) == ["streamgp"]
    assert json.loads(last["CMD"]) == ["--help"]
    assert last["STOPSIGNAL"] == "SIGTERM"


def test_installing_leaves_no_cache_and_no_compiler() -> None:
    for word, rest in LINES:
        if word == "RUN":
            assert "apt" not in rest
            assert "pip install" not in rest or "--no-cache-dir" in rest
            assert not re.search(r"(^|&& )cd ", rest)
    assert not any("pip install" in rest for word, rest in LAST_STAGE if word == "RUN")


def test_what_is_copied_is_there_and_not_ignored() -> None:
    ignored = [s.strip() for s in (FOLDER / "Dockerfile.dockerignore").read_text().splitlines() if s.strip()]
    rules = [rule for rule in ignored if not rule.startswith("#")]
    assert rules[0] == "*"
    for source in copied():
        assert (ROOT / source).exists()
        assert f"!{source}" in rules
    assert {rule[1:] for rule in rules if rule.startswith("!")} == set(copied())


def test_the_package_installs_from_what_is_copied_and_nothing_else(tmp_path: Path) -> None:
    """The build step of the image, with the dependencies of this environment instead of fetched ones."""
    if subprocess.run([sys.executable, "-c", "import setuptools"], check=False, capture_output=True).returncode:
        pytest.skip("setuptools is not installed here, and no network is used for this")
    source, target = tmp_path / "src", tmp_path / "site"
    source.mkdir()
    for name in copied():
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, source / name)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--target", str(target), str(source)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    program = "import sys; from streamgp.cli import main; sys.argv = ['streamgp', '--version']; main()"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": str(target), "PATH": ""},
    )
    assert ran.returncode == 0, ran.stderr
    shipped = {path.name for path in (target / "producers" / "datasets").iterdir()}
    assert {"irish_wind.csv.gz", "irish_wind_stations.csv", "de_pm10.csv.gz"} <= shipped
