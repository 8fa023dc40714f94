"""Fixtures for all tests: a real broker, started once, or the one that STREAMGP_TEST_BROKER names.

At a desk without Java, Maven or a network the tests that use it skip and say which is missing; with CI=true they fail.
"""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator

import hypothesis
import pytest

from tests.brokers import SCRIPT, OwnBroker, unavailable

# how long an example takes is the machine's matter, and no property of the code
hypothesis.settings.register_profile("streamgp", deadline=None)
hypothesis.settings.load_profile("streamgp")

# assertions in the conformance suite explain themselves as those of test modules do
pytest.register_assert_rewrite("tests.wire.conformance")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if {"broker", "own_broker"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.broker)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real broker, for the whole session. Whoever stops it must use one of his own."""
    given = os.environ.get("STREAMGP_TEST_BROKER")
    if given:
        yield given
        return
    folder = tmp_path_factory.mktemp("broker")
    command = [sys.executable, str(SCRIPT), "run", "--dir", str(folder), "--json", "--until-stdin-closes"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        if not line:
            unavailable(process.stderr.read().decode().strip())
        yield json.loads(line)["bootstrap"]
        process.stdin.close()  # the script stops the broker then, and also if this process is killed
        process.wait(30)


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """A fresh topic prefix for each test."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-")[:40]
    return f"{name}-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnBroker]:
    """A broker for one module, not yet started."""
    own = OwnBroker(tmp_path_factory.mktemp("own"))
    yield own
    own.stop(keep=False)


@pytest.fixture
def garbage_collected() -> Iterator[None]:
    """What a test leaves to the garbage collector is collected within it, so that no other test is blamed."""
    yield
    gc.collect()


@pytest.fixture(autouse=True, scope="session")
def _state_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Roles that are started without --state keep theirs here, not in the home of whoever runs the tests."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))
