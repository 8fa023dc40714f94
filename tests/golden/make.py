"""Writes the snapshots of this release beside this file: ``python -m tests.golden.make``, when a form changes.

A file is never overwritten: a new form has a new version, and the release that brings it reads the old one as well.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from streamgp.roles.station import AgentRole
from streamgp.wire.checkpoint import unpack
from tests.flow.network import Network, observations, settings_of

HERE = Path(__file__).parent
COUNT = 24


def made(folder: Path) -> dict[str, bytes]:
    """The newest snapshot of each role after a small network has run, by the role's name and its state's version."""
    network = Network(folder, settings_of())
    network.send(observations(COUNT))
    network.run()
    found: dict[str, bytes] = {}
    for name in ("agent.A", "cloud", "scorer"):
        network.kept[name].finish()
        (_, data), *_ = network.stores[name].load()
        found[f"{name}-v{unpack(data)['state']['v']}"] = data
    return found


def learned(role: AgentRole) -> dict[str, float]:
    """What tells one agent from another, in numbers that another machine's BLAS rounds a little differently."""
    row = role.agent.model.ask(COUNT * 3_600_000)
    assert row is not None
    belief = role.agent.model.answer(row[0][None])
    told = {"mean": belief.mean[0], "variance": belief.variance[0], "noise_variance": belief.noise_variance[0]}
    return {name: float(value) for name, value in told.items()} | {"learned": float(role.counts["learned"])}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, data in made(Path(folder)).items():
            path = HERE / f"{name}.sgp"
            if path.exists():
                print(f"{path.name} is there")
                continue
            path.write_bytes(data)
            print(f"{path.name}: {len(data)} bytes")


if __name__ == "__main__":
    main()
