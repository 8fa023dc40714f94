"""Somebody writes to the topics who should not: nothing of it is believed, all of it is counted."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from streamgp.cli import main
from streamgp.errors import SettingsError
from streamgp.roles.health import Health
from streamgp.roles.identity import key_path, make_gate, signs
from streamgp.roles.settings import HealthSettings, Settings, SigningSettings
from streamgp.wire.clock import SystemClock
from streamgp.wire.codec import encode
from streamgp.wire.deadletter import read_dead_letter
from streamgp.wire.gate import OpenGate
from streamgp.wire.keys import key_id, raw_public, read_private
from streamgp.wire.log import Outgoing
from streamgp.wire.records import Prediction, Progress
from streamgp.wire.signing import Signer
from tests.flow.network import STATIONS, Network, observations, settings_of

SENT = observations(24)


@pytest.fixture
def signed(tmp_path: Path) -> Settings:
    words = [w for s in STATIONS for w in ("--station", s)]
    made = ["keys", "make", *words, "--role", "cloud", "--role", "scorer", "--keys", str(tmp_path / "keys")]
    assert CliRunner().invoke(main, made).exit_code == 0
    return replace(settings_of(), signing=SigningSettings(enabled=True, keys=str(tmp_path / "keys")))


def test_a_network_that_signs_works_and_one_that_is_attacked_as_well(tmp_path: Path, signed: Settings) -> None:
    """C41, R63: an unsigned answer, one with another's key, and replays in the middle of the run."""
    calm = Network(tmp_path / "calm", signed)
    calm.send(SENT)
    calm.run()
    calm.check(SENT)

    network = Network(tmp_path / "attacked", signed)
    network.send(SENT)
    b_key = read_private(key_path(Path(signed.signing.keys), "agent.B"))
    sent = Counter[str]()

    def intrude(round_: int) -> None:
        writer = network.log.writer()
        if round_ in (6, 9):
            lie = Prediction(
                query_id="A:3600000:1",
                agent="A",
                time_ms=0,
                mean=(9e9,),
                variance=(1e-9,),
                noise_variance=(1.0,),
                learned=1,
            )
            unsigned = Outgoing("streamgp.predictions", lie.query_id, encode(lie))
            gone = Outgoing("streamgp.progress", "A", encode(Progress(station="A", time_ms=None, state="gone")))
            writer.write([unsigned, Signer(b_key).sign(unsigned), gone])
            sent.update({"unsigned": 2, "foreign": 1})
        if round_ == 20:
            again = network.read("predictions")[:5]
            writer.write([Outgoing(m.topic, m.key or "", m.value, m.headers, m.partition) for m in again])
            sent["replayed"] += len(again)

    network.run(intrude)
    answers = [m for m in network.read("predictions") if b"9e9" not in (m.value or b"")]
    assert len(answers) > len(calm.read("predictions")) - 5
    assert [m.value for m in network.read("forecasts")] == [m.value for m in calm.read("forecasts")]
    for station in STATIONS:
        assert network.model(station) == calm.model(station)
    cloud = network.kept["cloud"].gate
    assert {k: n for k, n in cloud.counts.items() if k != "unsigned"} == {"foreign": 2, "replayed": 5}  # type: ignore[attr-defined]  # SigningGate
    letters = Counter(
        (read_dead_letter(m).reason, read_dead_letter(m).topic) for m in network.read("dead-letter") if m.key == "cloud"
    )
    assert letters == {
        ("refused: unsigned", "streamgp.predictions"): 2,
        ("refused: unsigned", "streamgp.progress"): 2,
        ("refused: foreign", "streamgp.predictions"): 2,
        ("refused: replayed", "streamgp.predictions"): 5,
    }


@pytest.mark.parametrize(
    ("broker", "enabled", "expected"),
    [
        (None, None, False),
        ("127.0.0.1:9092", None, False),
        ("localhost:9092,[::1]:9093", None, False),
        ("10.0.0.5:9092", None, True),
        ("127.0.0.1:9092,kafka.example:9092", None, True),
        ("kafka:9092", False, False),
        ("127.0.0.1:9092", True, True),
    ],
)
def test_signing_is_on_where_the_broker_is_not_this_machine(
    broker: str | None, enabled: bool | None, expected: bool, tmp_path: Path
) -> None:
    settings = Settings(broker=broker, signing=SigningSettings(enabled=enabled, keys=str(tmp_path)))
    assert signs(settings) is expected
    if expected:
        with pytest.raises(SettingsError, match="streamgp keys make"):
            make_gate(settings, "agent.A", SystemClock())
    else:
        assert isinstance(make_gate(settings, "agent.A", SystemClock()), OpenGate)


@pytest.mark.parametrize("fresh", [False, True])
def test_a_clock_that_was_set_back_makes_nobody_a_replay(fresh: bool, tmp_path: Path, signed: Settings) -> None:
    """C41: an agent is killed, its clock set back by an hour, and it starts again, with its state or without."""
    network = Network(tmp_path, signed)
    network.send(SENT[:36])
    network.run()
    network.kill("agent.A")
    network.clock._start_ms -= 3_600_000
    if fresh:
        shutil.rmtree(tmp_path / "agent.A")
        network.fresh.add("agent.A")
    network.send(SENT[36:])
    network.run()
    assert [dict(m.headers)["reason"] for m in network.read("dead-letter")] == []
    assert not any("replayed" in kept.gate.counts for kept in network.kept.values())
    assert {network.roles[f"agent.{s}"].counts["learned"] for s in STATIONS} == {24}


def test_keys_are_rotated_while_the_network_runs_and_nothing_is_lost(tmp_path: Path, signed: Settings) -> None:
    """Two agents and the cloud take their new keys by themselves, and one of them is killed at that moment."""
    calm = Network(tmp_path / "calm", signed)
    calm.send(SENT)
    calm.run()
    keys = Path(signed.signing.keys)
    before = {role: read_private(key_path(keys, role)) for role in ("agent.A", "agent.B", "cloud")}
    network = Network(tmp_path / "rotated", signed)
    network.send(SENT)

    def rotate(round_: int) -> None:
        if round_ == 8:
            words = ["--station", "A", "--station", "B", "--role", "cloud", "--overlap-hours", "1", "--keys", str(keys)]
            assert CliRunner().invoke(main, ["keys", "rotate", *words]).exit_code == 0
        if round_ == 9:
            network.kill("agent.B")
        network.clock.advance(0.2)

    network.run(rotate)
    network.check(SENT)
    assert [network.model(s) for s in STATIONS] == [calm.model(s) for s in STATIONS]
    assert sum(kept.differs for kept in network.kept.values()) == 0
    assert not any(kept.gate.counts for kept in network.kept.values())
    told = [m for suffix in ("predictions", "forecasts") for m in network.read(suffix)]
    signers = {dict(m.headers)["signature"][1:9] for m in told}
    for role, old in before.items():
        now = read_private(key_path(keys, role))
        assert {key_id(raw_public(old)), key_id(raw_public(now))} < signers


def test_a_role_whose_key_was_revoked_is_unhealthy_and_what_is_refused_is_told(
    tmp_path: Path, signed: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """While it runs, also where nothing comes in; it does not start again, and refusals are a few lines."""
    network = Network(tmp_path, signed)
    network.send(SENT[:6])
    network.run()
    health = Health(network.kept["agent.A"], HealthSettings(), network.clock)
    assert health.verdict() == ("ok", True)
    folder = Path(signed.signing.keys)
    assert CliRunner().invoke(main, ["keys", "revoke", "agent.A", "--keys", str(folder)]).exit_code == 0
    network.clock.advance(2.0)
    network.step("agent.A")
    report = health.report()
    assert (report["status"], report["healthy"], report["barred"]) == ("barred", False, "revoked key")
    network.send(SENT[6:12])
    network.run()
    told = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert len([line for line in told if line.startswith("agent.A: others refuse all it says (revoked key)")]) == 1
    refused = [line for line in told if line.startswith("cloud: refused from streamgp.predictions, key ")]
    assert refused[0].endswith("'refused: revoked key', 1 so far")
    assert len(refused) <= network.kept["cloud"].gate.counts["revoked key"].bit_length()
    with pytest.raises(SettingsError, match="revoked"):
        make_gate(signed, "agent.A", SystemClock())
