"""Settings: a role runs on the defaults; what is wrong is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamgp.errors import SettingsError
from streamgp.roles.settings import Settings, load_settings, parse_settings


def test_the_defaults_are_valid_and_topics_carry_the_prefix() -> None:
    assert load_settings(None) == Settings()
    assert Settings(prefix="p").topic("queries") == "p.queries"


def test_a_file_sets_and_options_override(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(
        'prefix = "net"\nstations = ["A", "B"]\n[model]\nn_neighbors = 8\n[cloud]\nbeta = 0.1\n'
        '[door]\nsentinels = [-1.0]\n[kafka]\nsecurity_protocol = "SSL"\n[kafka.consumer]\nfetch_max_wait_ms = 100\n'
    )
    settings = load_settings(path, prefix="other", broker=None)
    assert (settings.prefix, settings.stations, settings.broker) == ("other", ("A", "B"), None)
    assert (settings.model.n_neighbors, settings.cloud.beta) == (8, 0.1)
    assert settings.door_settings().sentinels == (-1.0,)
    assert settings.kafka == {"security_protocol": "SSL", "consumer": {"fetch_max_wait_ms": 100}}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("groupid = 'x'", "groupid"),
        ("[cloud]\nbetta = 0.1", "betta"),
        ("[cloud]\nbeta = 0.25", "cloud.beta"),
        ("[cloud]\nbeta = 'much'", "beta"),
        ("[model]\nn_neighbors = 0", "n_neighbors"),
        ("[model]\nseed = -1", "model.seed"),
        ("[model]\nkind = 'magic'", "kind"),
        ("[model]\nmax_points = 3", "max_points"),
        ("[features]\nlags = [0]", "lags"),
        ("[features]\nlags = [1, 1]", "lags"),
        ("[agent]\nhorizons = [0]", "horizons"),
        ("[agent]\nmax_wait_s = -1", "wait"),
        ("[door]\nsentinel = [1.0]", "sentinel"),
        ("[door]\ny_range = [2.0, 1.0]", "y_range"),
        ("[scorer]\nband = 1.0", "band"),
        ("prefix = ''", "prefix"),
        ("no toml at all", "TOML"),
        ("[network]\nplaces = {DUB = [inf, 1.0]}", "network: the place of 'DUB'"),
        ("[network]\nplaces = {DUB = [999.0, 1.0]}", "network: the place of 'DUB'"),
        ("[network]\ncandidates = 10000000000", "n_candidates at most"),
        ("[health]\nlisten = 'foo'", "health.listen must be HOST:PORT, not 'foo'"),
        ("[health]\nlisten = 'foo:'", "health.listen"),
        ("[health]\nlisten = ':9464'", "health.listen"),
        ("[health]\nlisten = '9464'", "health.listen"),
        ("[health]\nlisten = 'localhost:http'", "health.listen"),
        ("[health]\nlisten = 'localhost:-1'", "health.listen"),
        ("[health]\nlisten = 'localhost:\u00b2'", "health.listen"),
        ("[health]\nlisten = 'localhost:65536'", "health.listen.*at most 65535"),
        ("[health]\nlisten = 'http://localhost:9464'", "health.listen"),
        ("[health]\nlisten = '::1:9464'", "health.listen"),
        ("[health]\nlisten = ' :9464'", "health.listen"),
    ],
)
def test_what_is_wrong_is_named(text: str, named: str) -> None:
    """R11, C19: an unknown key is an error that names it."""
    with pytest.raises(SettingsError, match=named):
        parse_settings(text)


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    "line",
    [
        "agent.max_wait_s",
        "agent.idle_wait_s",
        "cloud.deadline_s",
        "keep.commit_interval_s",
        "keep.snapshot_every_s",
        "keep.end_within_s",
        "health.stalled_s",
        "training.round_s",
    ],
)
def test_no_number_passes_that_is_not_finite(line: str, number: str) -> None:
    """A NaN is neither below a bound nor above it."""
    with pytest.raises(SettingsError, match=f"{line} must be a finite number"):
        parse_settings(f"{line} = {number}")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"gone\.toml"):
        load_settings(tmp_path / "gone.toml")


def test_the_lateness_of_the_agent_is_the_doors() -> None:
    assert parse_settings("[agent]\nlateness_ms = 60000").door_settings().max_late_s == 60.0
    assert parse_settings("[door]\nmax_late_s = 5.0").door_settings().max_late_s == 5.0


def test_a_file_that_is_not_utf8_is_named_and_a_byte_order_mark_is_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_bytes("# Zürich\nprefix = 'net'\n".encode("latin-1"))
    with pytest.raises(SettingsError, match=r"s\.toml: not UTF-8"):
        load_settings(path)
    path.write_bytes("# Zürich\nprefix = 'net'\n".encode("utf-8-sig"))
    assert load_settings(path).prefix == "net"


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("[0.0, 0.0]", "null island"),
        ("[144.96, -37.81]", "latitude out of range: swapped"),
        ("[47.72, 87.41]", "outside region: sign"),
        ("[47.72, -87.41]", None),
        ("[nan, nan]", None),
    ],
)
def test_a_place_that_cannot_be_is_a_wrong_setting(place: str, reason: str | None) -> None:
    """C10, R78: refused where stations are registered, with its own reason; who runs already is not disturbed."""
    text = f"[network]\nregion = [-90.0, 90.0, -100.0, -70.0]\nplaces = {{ good = [40.0, -75.0], A = {place} }}"
    if reason is None:
        assert set(parse_settings(text).network.places) == {"good", "A"}
        return
    with pytest.raises(SettingsError, match=f"network: the place of 'A'.*{reason}"):
        parse_settings(text)


def test_where_health_is_served() -> None:
    for listen, address in (
        ("0.0.0.0:9464", ("0.0.0.0", 9464)),
        ("agent_1.local:0", ("agent_1.local", 0)),
        ("[fe80::1%eth0]:80", ("fe80::1%eth0", 80)),
    ):
        assert parse_settings(f"health.listen = {listen!r}").health.address() == address
    assert Settings().health.address() is None
