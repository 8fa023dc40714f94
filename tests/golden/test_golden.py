"""C46: what a release wrote stays readable, by the roles, and by whoever has docs/snapshots.md alone."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgp.errors import CheckpointError
from streamgp.roles.cloud import CloudRole
from streamgp.roles.place import KeptRole
from streamgp.roles.scorer import ScorerRole
from streamgp.roles.station import AgentRole
from streamgp.roles.wiring import agent_role
from streamgp.wire.checkpoint import pack, unpack
from streamgp.wire.codec import encode
from streamgp.wire.log import Message
from streamgp.wire.records import Observation
from tests.flow.network import HOUR, settings_of
from tests.golden.make import COUNT, learned, made

HERE = Path(__file__).parent
FILES = sorted(path.name for path in HERE.glob("*.sgp"))
#: what the agents of the files believe of the hour after their last reading
BELIEF = {"mean": -1.9094297785529672, "variance": 0.13838549163209302, "noise_variance": 0.1, "learned": 24.0}


def role_of(name: str) -> KeptRole:
    settings = settings_of()
    kinds = {"agent": lambda: agent_role(settings, "A"), "cloud": lambda: CloudRole(settings)}
    return kinds.get(name.partition(".")[0].partition("-")[0], lambda: ScorerRole(settings))()


def base_of(name: str) -> dict[str, Any]:
    return unpack((HERE / name).read_bytes())


@pytest.mark.parametrize("name", FILES)
def test_a_role_goes_on_from_what_is_kept_here(name: str) -> None:
    role, state = role_of(name), base_of(name)["state"]
    role.restore(state)
    if isinstance(role, AgentRole):
        assert learned(role) == pytest.approx(BELIEF, rel=1e-6)
        reading = Observation(station="A", time_ms=COUNT * HOUR, y=math.sin(0.3 * COUNT))
        role.feed([Message("streamgp.observations", 0, 1_000, "A", encode(reading), 1_790_000_000_000)], 1e6)
        role.feed([], 2e6)
        out = role.drain(2e6)
        assert role.counts["learned"] == COUNT + 1
        assert {o.topic for o in out} >= {"streamgp.queries", "streamgp.predictions"}
    else:
        role.feed([], 1e6)
        role.drain(1e6)


@pytest.mark.parametrize("name", FILES)
def test_the_form_has_not_changed_without_a_new_version(name: str) -> None:
    """A state that was read is written as it was; who changes the form writes another version, and keeps this file."""
    role, state = role_of(name), base_of(name)["state"]
    role.restore(state)
    now = role.state()
    if now["v"] == state["v"]:
        assert pack({"state": now}) == pack({"state": state})
    else:
        assert now["v"] > state["v"]
        assert name.rpartition("-v")[0] + f"-v{now['v']}.sgp" in FILES


def test_this_release_writes_what_is_kept_here(tmp_path: Path) -> None:
    """Its own forms are here; a snapshot of today has the keys, at every depth, of the kept one."""
    for name, data in made(tmp_path).items():
        assert _keys(unpack(data)) == _keys(base_of(f"{name}.sgp"))


def _keys(value: Any) -> Any:
    return {key: _keys(item) for key, item in value.items()} if isinstance(value, dict) else None


def test_the_program_of_the_docs_reads_them_all() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (HERE.parents[1] / "docs" / "snapshots.md").read_text(), re.DOTALL)
    program: dict[str, Any] = {}
    exec(code, program)  # the reader that the docs print, as a stranger would run it
    assert len(FILES) >= 4
    for name in FILES:
        _same(program["read"](HERE / name), base_of(name), name)


def _same(read: Any, kept: Any, where: str) -> None:
    if isinstance(kept, np.ndarray):
        assert read["shape"] == kept.shape, where
        assert np.array_equal(np.array(read["values"], dtype=kept.dtype).reshape(kept.shape), kept, equal_nan=True), (
            where
        )
    elif isinstance(kept, dict):
        assert list(read) == list(kept), where
        for key, item in kept.items():
            _same(read[key], item, f"{where}.{key}")
    elif isinstance(kept, list):
        assert len(read) == len(kept), where
        for i, item in enumerate(kept):
            _same(read[i], item, f"{where}[{i}]")
    else:
        assert read == kept or (read != read and kept != kept), where


@pytest.mark.parametrize(
    ("name", "part", "says"),
    [
        ("agent.A-v2.sgp", (), "agent A: version 99, this release reads"),
        ("agent.A-v2.sgp", ("agent",), "version 99"),
        ("agent.A-v2.sgp", ("merge",), "merge: version 99"),
        ("agent.A-v2.sgp", ("door",), "door state of version 99"),
        ("cloud-v1.sgp", ("windows",), "windows: version 99"),
        ("cloud-v1.sgp", ("fusing",), "fusing: version 99"),
        ("scorer-v1.sgp", (), "scorer: version 99"),
    ],
)
def test_a_part_of_a_newer_form_is_refused_by_name(name: str, part: tuple[str, ...], says: str) -> None:
    state = base_of(name)["state"]
    place = state
    for key in part:
        place = place[key]
    place["v"] = 99
    with pytest.raises(CheckpointError, match=says):
        role_of(name).restore(state)
