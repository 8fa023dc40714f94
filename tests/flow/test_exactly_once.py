"""Kills at every place: each observation is learned once, each question answered once, models are equal to the bit."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from streamgp.wire.codec import decode
from streamgp.wire.records import Forecast, Prediction
from tests.flow.network import STATIONS, Killer, Network, observations, settings_of

SENT = observations(48)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Network:
    network = Network(tmp_path_factory.mktemp("undisturbed"), settings_of())
    network.send(SENT)
    network.run()
    network.check(SENT)
    return network


def told(network: Network) -> dict[str, bytes]:
    """Query id -> its forecast as bytes."""
    return {decode(m.value, Forecast).query_id: m.value or b"" for m in network.read("forecasts")}


def corrected(network: Network) -> list[bool]:
    """For each forecast whether the network's is another than what the asker said itself."""
    answers = (decode(m.value, Prediction) for m in network.read("predictions"))
    own = {p.query_id: p.mean for p in answers if p.query_id.startswith(f"{p.agent}:")}
    forecasts = (decode(m.value, Forecast) for m in network.read("forecasts"))
    return [f.network_mean != own[f.query_id] for f in forecasts]


@pytest.mark.parametrize("seed", range(4))
def test_kills_at_random_change_nothing(seed: int, tmp_path: Path, undisturbed: Network) -> None:
    """C17, R22, R25: between steps, within a transaction, after it; snapshots are rare and the journal bridges them."""
    rng = random.Random(seed)
    network = Network(tmp_path, settings_of(snapshot_every_s=rng.choice([0.1, 0.5, 3.0])))
    network.send(SENT)
    killer = Killer(network, rng, share=0.3)
    network.run(killer)
    assert killer.kills >= 15
    network.check(SENT)
    for station in STATIONS:
        assert network.model(station) == undisturbed.model(station)
    forecasts = told(network)
    assert forecasts == told(undisturbed)  # the network's corrections too, which the cloud learns on its way
    assert sum(corrected(network)) > len(forecasts) // 3
    assert not any(kept.differs for kept in network.kept.values())
