"""Who wrote this record: everything that is not by whom it says is refused, and says why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from streamgp.cli import main
from streamgp.errors import DecodeError, SettingsError
from streamgp.wire.clock import ManualClock
from streamgp.wire.codec import decode_topic, encode
from streamgp.wire.deadletter import read_dead_letter
from streamgp.wire.keys import (
    LIST,
    Allowed,
    AllowList,
    make_key,
    read_list,
    read_private,
    write_list,
    write_private,
)
from streamgp.wire.log import Message, Outgoing
from streamgp.wire.records import Forecast, Prediction, Progress, Query, Record, StationForecast, Update
from streamgp.wire.signing import SPEAKERS, Signer, SigningGate, Verifier

NOW_MS = 1_790_000_000_000
ROLES = ("agent.A", "agent.B", "cloud", "asker")


def prediction(agent: str = "A") -> Prediction:
    return Prediction(
        query_id="q", agent=agent, time_ms=0, mean=(1.0,), variance=(1.0,), noise_variance=(0.1,), learned=3
    )


class Keys:
    """A key for each role, and a verifier that knows them all."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock(NOW_MS)
        self.allowed: list[Allowed] = []
        self.signers: dict[str, Signer] = {}
        for role in ROLES:
            pem, entry = make_key(role)
            write_private(folder / f"{role}.pem", pem)
            key = read_private(folder / f"{role}.pem")
            self.signers[role] = Signer(key, clock_ns=lambda: self.clock.now_ms() * 1_000_000)
            self.allowed.append(entry)
        self.verifier = Verifier(AllowList.of(self.allowed), prefix="p")

    def message(self, role: str, suffix: str, record: Record, *, key: str = "q", at: int = 0) -> Message:
        signed = self.signers[role].sign(Outgoing(f"p.{suffix}", key, encode(record)))
        return Message(signed.topic, at, 0, signed.key, signed.value, self.clock.now_ms(), signed.headers)

    def why(self, message: Message) -> str | None:
        return self.verifier.why_not(message)


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path)


def test_what_a_role_says_for_itself_is_believed(keys: Keys) -> None:
    assert keys.why(keys.message("agent.A", "predictions", prediction("A"))) is None
    assert keys.why(keys.message("agent.A", "progress", Progress(station="A", time_ms=1), key="A")) is None
    ask = Query(id="q", time_ms=0, target_ms=1, points=((0.0,),))
    assert keys.why(keys.message("agent.A", "queries", replace(ask, station="A"))) is None
    assert keys.why(keys.message("asker", "queries", ask)) is None
    assert keys.why(Message("p.observations", 0, 0, "A", b"{}", NOW_MS)) is None  # those are the broker's to guard


def test_a_claim_without_a_signature_or_with_anothers_is_refused(keys: Keys) -> None:
    """C41, R63: unsigned; signed with B's key; by a key that nobody knows."""
    good = keys.message("agent.A", "predictions", prediction("A"))
    assert keys.why(replace(good, headers=())) == "unsigned"
    assert keys.why(keys.message("agent.B", "predictions", prediction("A"))) == "foreign"
    assert keys.why(keys.message("agent.B", "progress", Progress(station="A", time_ms=1))) == "foreign"
    forecast = {"query_id": "q", "station": "A", "time_ms": 0, "target_ms": 1, "mean": None, "variance": None}
    by_agent = Forecast(**forecast, noise_variance=None, kept=(0,), trimmed=(), missing=(), status="no_quorum")
    assert keys.why(keys.message("agent.A", "forecasts", by_agent)) == "foreign"
    keys.verifier.allowed = AllowList.of(e for e in keys.allowed if e.role != "agent.A")
    assert keys.why(good) == "unknown key"


def test_a_record_is_believed_once_and_only_where_it_was_sent(keys: Keys) -> None:
    """C41: the replay of a valid record of an earlier round."""
    early = keys.message("agent.A", "predictions", prediction())
    assert keys.why(early) is None
    assert keys.why(early) == "replayed"
    for _ in range(6):
        assert keys.why(keys.message("agent.A", "predictions", prediction())) is None
    assert keys.why(early) == "replayed"
    assert keys.why(replace(early, key="other")) == "re-addressed"
    assert keys.why(replace(early, topic="p.updates")) == "re-addressed"
    keys.clock.advance(601.0)
    late = replace(keys.message("agent.A", "predictions", prediction()), timestamp_ms=NOW_MS)
    assert keys.why(late) == "stale"


def test_partitions_have_no_common_order(keys: Keys) -> None:
    first = keys.message("agent.A", "predictions", prediction(), at=0)
    second = keys.message("agent.A", "predictions", prediction(), at=1)
    assert [keys.why(second), keys.why(first)] == [None, None]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64])
def test_records_that_are_signed_together_are_believed_each_for_itself(count: int, keys: Keys) -> None:
    """In any order of partitions, any of them missing; and no path leads from one to another."""
    records = [
        Outgoing("p.predictions", f"q{i}", encode(replace(prediction(), query_id=f"q{i}"))) for i in range(count)
    ]
    signed = keys.signers["agent.A"].sign_all(records)
    messages = [Message(s.topic, i, 0, s.key, s.value, NOW_MS, s.headers) for i, s in enumerate(signed)]
    assert [keys.why(m) for m in messages[::2]] == [None] * len(messages[::2])
    assert len({m.headers[0][1][41:105] for m in messages}) == 1
    if count > 2:
        header = messages[1].headers[0][1]
        assert keys.why(replace(messages[1], headers=(("signature", header[:-33]),))) == "bad signature"
        assert keys.why(replace(messages[1], headers=(("signature", header + header[-33:]),))) == "bad signature"
        swapped = replace(messages[1], value=messages[0].value)
        assert keys.why(swapped) == "bad signature"
        assert keys.why(messages[1]) is None


def test_what_was_seen_is_kept_over_a_restart(keys: Keys) -> None:
    early = keys.message("agent.A", "predictions", prediction())
    keys.why(early)
    twin = Verifier(AllowList.of(keys.allowed), prefix="p")
    twin.restore(json.loads(json.dumps(keys.verifier.state())))
    assert twin.why_not(early) == "replayed"
    other = Verifier(AllowList.of(keys.allowed), prefix="p")
    other.note(early)
    assert other.state() == twin.state()


def test_the_number_grows_though_the_clock_steps_back(keys: Keys) -> None:
    signer = keys.signers["agent.A"]
    numbers = []
    for _ in range(3):
        signer.sign(Outgoing("p.queries", "q", b"{}"))
        numbers.append(signer.sequence)
        keys.clock = ManualClock(NOW_MS - 10_000)
    assert numbers == sorted(set(numbers))


def test_old_keys_end_and_revoked_ones_count_for_nothing(keys: Keys) -> None:
    entry = keys.allowed[0]
    ended = replace(entry, until="2026-01-01T00:00:00")
    soon = replace(entry, until="2026-12-01T00:00:00+00:00")
    for changed, reason in ((ended, "expired key"), (soon, None), (replace(entry, revoked=True), "revoked key")):
        keys.verifier.allowed = AllowList.of([changed])
        assert keys.why(keys.message("agent.A", "predictions", prediction())) == reason


@pytest.mark.parametrize("at", [0, 1])
def test_a_key_that_is_revoked_once_is_revoked_whatever_else_its_list_says(at: int, keys: Keys) -> None:
    entry = keys.allowed[0]
    entries = [entry, entry]
    entries[at] = replace(entry, revoked=True)
    keys.verifier.allowed = AllowList.of(entries)
    assert keys.why(keys.message("agent.A", "predictions", prediction())) == "revoked key"


def test_a_second_rotation_may_end_the_old_keys_sooner_and_not_later(tmp_path: Path) -> None:
    def rotated(hours: str) -> list[float]:
        words = ["keys", "rotate", "--role", "cloud", "--overlap-hours", hours, "--keys", str(tmp_path)]
        assert CliRunner().invoke(main, words).exit_code == 0
        return [e.until_ms for e in read_list(tmp_path / LIST)]

    assert CliRunner().invoke(main, ["keys", "make", "--role", "cloud", "--keys", str(tmp_path)]).exit_code == 0
    first = rotated("24")
    assert first[1] == float("inf")
    sooner = rotated("1")
    assert sooner[0] == sooner[1] < first[0]
    assert rotated("48")[:2] == sooner[:2]


def test_a_thief_who_counts_to_the_end_silences_the_key_and_not_the_role(keys: Keys) -> None:
    """Its number is the highest there is: once the key is revoked the role's next key is heard."""
    keys.signers["agent.A"].sequence = 2**64 - 9
    assert keys.why(keys.message("agent.A", "predictions", prediction())) is None
    state = keys.verifier.state()
    pem, entry = make_key("agent.A")
    old = next(e for e in keys.allowed if e.role == "agent.A")
    keys.verifier = Verifier(AllowList.of([replace(old, revoked=True), entry]), prefix="p")
    keys.verifier.restore(state)
    assert keys.why(keys.message("agent.A", "predictions", prediction())) == "revoked key"
    own = load_pem_private_key(pem, None)
    assert isinstance(own, Ed25519PrivateKey)
    keys.signers["agent.A"] = Signer(own, clock_ns=lambda: keys.clock.now_ms() * 1_000_000)
    good = keys.message("agent.A", "predictions", prediction())
    assert keys.why(good) is None
    assert keys.why(good) == "replayed"


def test_numbers_that_a_state_holds_by_the_role_still_count(keys: Keys) -> None:
    early = keys.message("agent.A", "predictions", prediction())
    late = keys.message("agent.A", "predictions", prediction())
    assert keys.why(late) is None
    keys.verifier.restore([["agent.A", topic, index, number] for _, topic, index, number in keys.verifier.state()])
    assert keys.why(early) == keys.why(late) == "replayed"
    keys.verifier.note(late)
    assert keys.why(keys.message("agent.A", "predictions", prediction())) is None


FORECAST = StationForecast(
    query_id="q",
    station="A",
    time_ms=0,
    target_ms=1,
    mean=(1.0,),
    variance=(1.0,),
    noise_variance=(1.0,),
    kept=(1,),
    trimmed=(),
    missing=(),
    status="ok",
    source=("cloud",),
)


@pytest.mark.parametrize("suffix", ["queries", "progress", "predictions", "station-forecasts", "updates"])
@pytest.mark.parametrize("more", ['"client":5', '"agent":5', '"station":5', '"other":' + "[" * 5000 + "]" * 5000])
def test_what_else_a_record_holds_does_not_hide_who_speaks(keys: Keys, suffix: str, more: str) -> None:
    """C41: A's name under B's key, with fields that the record does not have or that are of another type."""
    field = SPEAKERS[suffix][0]
    known = {
        "queries": Query(id="q", station="A", time_ms=0, target_ms=1, points=((0.0,),)),
        "progress": Progress(station="A", time_ms=1),
        "predictions": prediction("A"),
        "station-forecasts": FORECAST,
        "updates": Update(run="r", round=1, client="A", time_ms=0, arrays={}, shapes={}),
    }[suffix]
    value = encode(known)[:-1] + b"," + more.encode() + b"}"
    signed = keys.signers["agent.B"].sign(Outgoing(f"p.{suffix}", "q", value))
    why = keys.why(Message(signed.topic, 0, 0, signed.key, value, NOW_MS, signed.headers))
    try:
        decode_topic(value, suffix)
    except DecodeError:  # the field itself, or too deep: whoever decodes it refuses it
        assert more.startswith((f'"{field}"', '"other"'))
        assert why is None
    else:
        assert why == "foreign"


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_no_changed_byte_is_believed(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    keys = Keys(tmp_path_factory.mktemp("keys"))
    good = keys.message("agent.A", "predictions", prediction())
    assert good.value is not None
    header = good.headers[0][1]
    what = data.draw(st.sampled_from(["value", "header"]))
    raw = good.value if what == "value" else header
    at, xor = data.draw(st.integers(0, len(raw) - 1)), data.draw(st.integers(1, 255))
    changed = raw[:at] + bytes([raw[at] ^ xor]) + raw[at + 1 :]
    bad = replace(good, value=changed) if what == "value" else replace(good, headers=(("signature", changed),))
    assert keys.why(bad) is not None
    assert keys.why(replace(good, headers=(("signature", raw[:at]),))) is not None
    assert keys.why(good) is None  # and nothing that was refused leaves a trace


def test_a_gate_refuses_to_the_dead_letter_and_follows_its_list(keys: Keys, tmp_path: Path) -> None:
    write_list(tmp_path / LIST, keys.allowed)
    clock = ManualClock(NOW_MS)
    gate = SigningGate("cloud", read_private(tmp_path / "cloud.pem"), tmp_path, prefix="p", clock=clock)
    good = keys.message("agent.A", "predictions", prediction())
    assert gate.check(good) is None
    letter = gate.check(good)
    assert letter is not None
    read = read_dead_letter(Message(letter.topic, 0, 0, letter.key, letter.value, 0, letter.headers))
    assert (read.reason, read.field, read.topic) == ("refused: replayed", "signature", "p.predictions")
    write_list(tmp_path / LIST, [replace(e, revoked=e.role == "agent.A") for e in keys.allowed])
    clock.advance(2.0)
    assert gate.check(keys.message("agent.A", "predictions", prediction())) is not None
    assert gate.counts == {"replayed": 1, "revoked key": 1}
    (tmp_path / LIST).write_text("no list")
    clock.advance(2.0)
    assert gate.check(keys.message("agent.B", "predictions", prediction("B"))) is None


def test_a_gate_signs_what_readers_verify_and_nothing_else(keys: Keys, tmp_path: Path) -> None:
    write_list(tmp_path / LIST, keys.allowed)
    clock = ManualClock(NOW_MS)
    gate = SigningGate("agent.A", read_private(tmp_path / "agent.A.pem"), tmp_path, prefix="p", clock=clock)
    out = gate.signed([Outgoing("p.predictions", "q", encode(prediction())), Outgoing("p.dead-letter", "A", b"x")])
    assert [len(record.headers) for record in out] == [1, 0]
    assert keys.why(Message(out[0].topic, 0, 0, "q", out[0].value, NOW_MS, out[0].headers)) is None
    with pytest.raises(SettingsError, match="does not allow the key of cloud"):
        SigningGate("cloud", read_private(tmp_path / "agent.A.pem"), tmp_path, prefix="p", clock=clock)


def test_keys_on_the_command_line(tmp_path: Path) -> None:
    folder = tmp_path / "keys"

    def run(*words: str) -> dict[str, list[dict[str, object]]]:
        done = CliRunner().invoke(main, ["keys", *words, "--keys", str(folder), "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)  # type: ignore[no-any-return]  # an object, by --json's promise

    made = run("make", "--station", "Malin Head", "--role", "cloud")["made"]
    assert [row["role"] for row in made] == ["agent.Malin Head", "cloud"]
    assert run("make", "--station", "Malin Head", "--role", "cloud")["made"] == []
    private = folder / "agent.Malin_20Head.pem"
    assert private.stat().st_mode & 0o777 == 0o600
    old = read_private(private)
    run("rotate", "--station", "Malin Head", "--overlap-hours", "1")
    rows = run("list")["keys"]
    assert [(row["role"], row["until"] is not None) for row in rows] == [
        ("agent.Malin Head", True),
        ("cloud", False),
        ("agent.Malin Head", False),
    ]
    assert read_private(private).private_bytes_raw() != old.private_bytes_raw()
    run("revoke", str(rows[0]["id"]))
    assert [e.revoked for e in read_list(folder / LIST)] == [True, False, False]
    done = CliRunner().invoke(main, ["keys", "revoke", "nobody", "--keys", str(folder)])
    assert (done.exit_code, "no such key: nobody" in done.output) == (3, True)


def test_a_key_that_others_can_read_is_no_key(tmp_path: Path) -> None:
    pem, _ = make_key("cloud")
    path = tmp_path / "cloud.pem"
    write_private(path, pem)
    path.chmod(0o644)
    with pytest.raises(SettingsError, match="others can read"):
        read_private(path)
    with pytest.raises(SettingsError, match="streamgp keys make"):
        read_private(tmp_path / "none.pem")
    with pytest.raises(SettingsError, match="already"):
        write_private(path, pem)
    path.chmod(0o600)
    path.write_text("no key")
    with pytest.raises(SettingsError, match="no private key"):
        read_private(path)
