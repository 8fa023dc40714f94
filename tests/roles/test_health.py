"""Healthy is what does its work; alive and doing nothing is not."""

from __future__ import annotations

import json
import math
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from consumers.options import with_state
from consumers.processes import serve
from streamgp.errors import SettingsError
from streamgp.roles.cloud import CloudRole
from streamgp.roles.health import Health, HealthServer, Waiting
from streamgp.roles.settings import HealthSettings, Settings
from streamgp.roles.station import AgentRole
from streamgp.wire.codec import decode, encode
from streamgp.wire.log import Outgoing
from streamgp.wire.memory import MemoryLog
from streamgp.wire.records import Observation, Progress, StationForecast
from tests.flow.network import HOUR, Network, observations, settings_of

LIMITS = HealthSettings(stuck_s=30.0, stalled_s=120.0, behind=1_000)
SENT = observations(20)


@pytest.fixture
def network(tmp_path: Path) -> Network:
    network = Network(tmp_path, settings_of())
    network.send(SENT)
    network.run()
    return network


def health_of(network: Network, name: str) -> Health:
    return Health(network.kept[name], LIMITS, network.clock)


def test_a_role_that_has_done_its_work_is_well(network: Network) -> None:
    for name in network.names():
        health = health_of(network, name)
        assert health.verdict() == ("ok", True)
        assert health.gauges()["lag"] == 0
    agent = health_of(network, "agent.A").gauges()
    assert agent["last_learned_s"] == 19 * HOUR / 1000
    assert agent["data_age_s"] == network.clock.now_ms() / 1000 - 19 * HOUR / 1000
    assert agent["snapshot_age_s"] < 5.0
    assert agent["commits"] > 3
    assert health_of(network, "cloud").gauges()["windows_open"] == 0


def test_a_loop_that_does_not_turn_is_stuck(network: Network) -> None:
    """R04."""
    health = health_of(network, "agent.A")
    network.clock.advance(29.0)
    assert health.verdict() == ("ok", True)
    network.clock.advance(2.0)
    assert health.verdict() == ("stuck", False)
    assert health.gauges()["step_age_s"] >= 31.0


def test_an_agent_far_behind_says_so_and_is_well_while_it_works(network: Network) -> None:
    """R32, C47: lag and the age of its data; 10,000 behind."""
    now_ms = network.clock.now_ms()
    far = [Observation(station="A", time_ms=t * HOUR, y=math.sin(t)) for t in range(20, 10_020)]
    network.send(far)
    role = network.roles["agent.A"]
    before = role.counts["learned"]
    while role.counts["learned"] == before:
        network.step("agent.A")
        network.clock.advance(1.0)
    health, gauges = health_of(network, "agent.A"), health_of(network, "agent.A").gauges()
    learned = role.counts["learned"] - before
    assert health.verdict() == ("behind", True)
    assert gauges["lag"] == 10_000 - learned
    assert learned < 1_000
    last_ms = (19 + learned) * HOUR
    assert gauges["last_learned_s"] == last_ms / 1000
    assert gauges["data_age_s"] == pytest.approx((now_ms - last_ms) / 1000, abs=120)


def test_forecasts_say_how_old_the_last_reading_behind_them_is(network: Network) -> None:
    """C47, R32: whoever reads a forecast sees that its station is behind."""
    found = [decode(m.value, StationForecast) for m in network.read("station-forecasts")]
    assert {f.learned_ms == f.time_ms for f in found} == {True}
    assert max(f.learned_ms or 0 for f in found if f.station == "A") == 19 * HOUR


def test_work_that_waits_and_is_not_done_is_a_stall(network: Network) -> None:
    """R04, R32: the reader reads nothing though there is something: alive and doing nothing."""
    health = health_of(network, "agent.A")
    kept = network.kept["agent.A"]
    kept.reader.stats.behind = 7
    assert health.verdict() == ("ok", True)
    for _ in range(5):
        network.clock.advance(25.0)
        kept.stepped_s = network.clock.monotonic_s()
        verdict = health.verdict()
    assert verdict == ("stalled", False)
    assert health.gauges()["lag"] == 7


def test_a_reader_that_cannot_tell_whether_anything_waits_is_no_idle_one(network: Network) -> None:
    """R04: connected, and nothing to read for it, or an end that nobody knows: not well for ever."""
    health, kept = health_of(network, "cloud"), network.kept["cloud"]
    assert health.verdict() == ("ok", True)
    kept.reader.stats.behind = None
    for _ in range(5):
        network.clock.advance(25.0)
        kept.stepped_s = network.clock.monotonic_s()
        verdict = health.verdict()
    assert verdict == ("stalled", False)
    assert "lag" not in health.gauges()
    kept.reader.stats.behind = 0
    assert health.verdict() == ("ok", True)


@pytest.mark.parametrize("name", ["agent.A", "cloud"])
def test_who_reads_on_and_never_does_what_it_holds_is_stalled(
    network: Network, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R04: promises of others come all the time and are read, and the role's own work stands still for ever."""
    health, role = health_of(network, name), network.roles[name]
    if isinstance(role, AgentRole):
        monkeypatch.setattr(role._merge, "next", lambda now_s: None)
        limit_s = 120.0 + 3 * 30.0 + 1.0
    else:
        assert isinstance(role, CloudRole)
        monkeypatch.setattr(role.windows, "close", lambda now_s: [])
        limit_s = 120.0 + 20.0
    network.send(observations(22)[-6:])
    for _ in range(3):
        for each in network.names():
            network.step(each)
    began_s = network.clock.monotonic_s()
    while health.verdict() == ("ok", True):
        word = Outgoing(network.settings.topic("progress"), "B", encode(Progress(station="B", time_ms=0)))
        network.log.writer().write([word])
        network.clock.advance(5.0)
        network.step(name)
        assert network.clock.monotonic_s() - began_s < 400.0
    assert health.verdict() == ("stalled", False)
    assert limit_s - 10.0 < network.clock.monotonic_s() - began_s < limit_s + 10.0
    assert health.gauges()["wait_s"] > limit_s - 10.0


def test_a_restore_that_does_not_end_is_told(network: Network) -> None:
    """R20: starting is healthy, for a time."""
    network.kept["cloud"].started_s = None
    health = health_of(network, "cloud")
    network.clock.advance(299.0)
    assert health.verdict() == ("starting", True)
    network.clock.advance(2.0)
    assert health.verdict() == ("starting", False)


def test_a_broker_that_is_away_is_told(network: Network) -> None:
    health = health_of(network, "cloud")
    assert isinstance(network.log, MemoryLog)
    network.log.available = False
    for _ in range(4):
        network.clock.advance(10.0)
        network.step("cloud")
        verdict = health.verdict()
    assert verdict == ("disconnected", False)
    network.log.available = True
    network.step("cloud")
    assert health.verdict() == ("ok", True)


@pytest.mark.parametrize(("asked_every_s", "turns"), [(5.0, True), (5.0, False), (60.0, True)])
def test_a_broker_that_does_not_answer_is_told_by_its_last_answer(
    network: Network, asked_every_s: float, turns: bool
) -> None:
    """R04, R14: whether the loop turns or stands in a commit, and however rarely somebody asks."""
    health, kept, clock = health_of(network, "cloud"), network.kept["cloud"], network.clock
    assert health.verdict() == ("ok", True)
    clock.advance(60.0)
    kept.stepped_s = answered_s = clock.monotonic_s()
    kept.reader.stats.connected = False
    for second in range(1, 91):
        clock.advance(1.0)
        kept.reader.stats.silent_s = clock.monotonic_s() - answered_s
        if turns:
            kept.stepped_s = clock.monotonic_s()
        if second % asked_every_s == 1.0:
            assert health.verdict() == (("disconnected", False) if second >= 30 else ("ok", True)), second
            assert health.gauges()["connected"] == 0.0
    kept.reader.stats.connected = True
    kept.stepped_s = clock.monotonic_s()
    assert health.verdict() == ("ok", True)


def get(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_metrics_and_health_over_http(network: Network) -> None:
    network.roles["cloud"].counts.update({"refused: not finite": 3, "trimmed: B": 2})
    server = HealthServer(health_of(network, "cloud"), "127.0.0.1:0")
    try:
        code, body = get(f"http://{server.address}/healthz")
        assert (code, json.loads(body)["status"]) == (200, "ok")
        _, text = get(f"http://{server.address}/metrics")
        assert 'streamgp_dead_letters_total{role="cloud",what="not finite"} 3.0' in text
        assert 'streamgp_trims_total{role="cloud",what="B"} 2.0' in text
        assert 'streamgp_lag{role="cloud"} 0.0' in text
        assert 'streamgp_healthy{role="cloud",status="ok"} 1.0' in text
        assert get(f"http://{server.address}/")[0] == 404
        network.clock.advance(60.0)
        code, body = get(f"http://{server.address}/healthz")
        assert (code, json.loads(body)["status"]) == (503, "stuck")
        with pytest.raises(SettingsError, match=r"^health\.listen: cannot listen on 127\.0\.0\.1:\d+: .*in use"):
            HealthServer(health_of(network, "cloud"), server.address)
    finally:
        server.close()


def test_every_metric_says_what_it_is(network: Network) -> None:
    for name in network.names():
        for metric in health_of(network, name).collect():
            assert metric.documentation.count(" ") > 1, f"{name}: {metric.name} says only {metric.documentation!r}"


def test_an_address_that_is_none_is_refused(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    for listen, said in (
        ("9464", "HOST:PORT"),
        (f"{'a' * 70}:9464", r"health\.listen: cannot listen on aaa"),  # no name of a host may be that long
        ("192.0.2.1:9464", r"health\.listen: cannot listen on 192\.0\.2\.1:9464: "),  # not of this machine
    ):
        with pytest.raises(SettingsError, match=said):
            HealthServer(health_of(network, "cloud"), listen)

    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", unknown)
    with pytest.raises(SettingsError, match=r"cannot listen on nobody\.invalid:9464: Name or service not known"):
        HealthServer(health_of(network, "cloud"), "nobody.invalid:9464")


def test_health_is_served_while_the_broker_is_waited_for(network: Network) -> None:
    """Starting, as long as that may take; then what the role is."""
    server = HealthServer(Waiting("cloud", LIMITS, network.clock), "localhost:0")
    try:
        told = {"role": "cloud", "status": "starting"}
        code, body = get(f"http://{server.address}/healthz")
        assert (code, json.loads(body)) == (200, {**told, "healthy": True})
        network.clock.advance(301.0)
        code, body = get(f"http://{server.address}/healthz")
        assert (code, json.loads(body)) == (503, {**told, "healthy": False})
        assert 'streamgp_healthy{role="cloud",status="starting"} 0.0' in get(f"http://{server.address}/metrics")[1]
        network.step("cloud")
        server.health = health_of(network, "cloud")
        code, body = get(f"http://{server.address}/healthz")
        assert (code, json.loads(body)["status"]) == (200, "ok")
        assert 'streamgp_lag{role="cloud"} 0.0' in get(f"http://{server.address}/metrics")[1]
    finally:
        server.close()


def test_health_is_served_over_ipv6(network: Network) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"this machine has no IPv6: {error}")
    server = HealthServer(health_of(network, "cloud"), "[::1]:0")
    try:
        assert get(f"http://{server.address}/healthz")[0] == 200
    finally:
        server.close()


def test_a_port_in_use_is_told_before_the_broker_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def preflight(*_: object, **__: object) -> None:
        raise AssertionError("the broker was waited for")

    monkeypatch.setattr("consumers.processes.preflight", preflight)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        settings = Settings(broker="127.0.0.1:1", health=HealthSettings(listen=listen))
        with pytest.raises(SystemExit) as ended:
            serve("cloud", CloudRole(settings), settings)
    assert ended.value.code == 3
    assert capsys.readouterr().err == f"error: health.listen: cannot listen on {listen}: Address already in use\n"


def test_an_option_that_is_no_address_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        with_state(Settings(), None, None, "foo")
    assert (ended.value.code, capsys.readouterr().err) == (3, "error: health.listen must be HOST:PORT, not 'foo'\n")


def test_when_it_last_answered_is_not_known_before_it_has(tmp_path: Path) -> None:
    """Neither hellos and promises nor questions nor refusals are answers."""
    network = Network(tmp_path, settings_of())
    writer = network.log.writer()
    for _ in range(60):
        network.step("agent.A")
        network.step("cloud")
        network.clock.advance(0.02)
    writer.write([Outgoing(network.settings.topic("queries"), "q", b"no query")])
    for _ in range(60):
        network.step("agent.A")
        network.step("cloud")
        network.clock.advance(0.02)
    assert len(network.read("progress")) >= 2
    assert len(network.read("dead-letter")) == 2
    for name in ("agent.A", "cloud"):
        health = health_of(network, name)
        assert health.report()["last_answered_s"] is None
        assert "last_answered_s" not in health.gauges()
        assert not [m for m in health.collect() if "last_answered" in m.name]
    network.send(SENT)
    network.run()
    for name in ("agent.A", "cloud"):
        health, now_s = health_of(network, name), network.clock.now_ms() / 1000
        assert now_s - 60.0 < health.report()["last_answered_s"] <= now_s
        assert [m.samples[0].value for m in health.collect() if m.name == "streamgp_last_answered_seconds"] == [
            health.gauges()["last_answered_s"]
        ]
