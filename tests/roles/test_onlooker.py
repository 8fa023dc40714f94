"""Who looks on believes no more than the roles do."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from msgspec.structs import replace

from streamgp.roles.onlooker import Believed, believed
from streamgp.roles.settings import Settings
from streamgp.wire.codec import encode
from streamgp.wire.keys import LIST, make_key, write_list
from streamgp.wire.log import Log, Outgoing, Subscription
from streamgp.wire.memory import MemoryLog
from streamgp.wire.records import Trust
from streamgp.wire.signing import Signer
from streamgp.wire.topics import topic_plan

TRUST = Trust(
    agent="A", time_ms=0, answered=1, missing=0, refused={}, trimmed=0.0, mean_low=0.0, mean_high=0.0, variance_low=0.0,
    variance_high=0.0, outlying=0.0, scored=0.0, z2=1.0, coverage=0.9, nlpd=1.0, factor=1.0, standing="good", beta=0.1,
)  # fmt: skip
FORGED = replace(TRUST, standing="forged")


def signing(folder: Path, *, enabled: bool = True) -> Settings:
    settings = Settings(prefix="p")
    return replace(settings, signing=replace(settings.signing, enabled=enabled, keys=str(folder)))


@pytest.fixture
def log() -> Log:
    log = MemoryLog()
    log.create_topics(topic_plan("p"))
    return log


def write(log: Log, record: Outgoing) -> None:
    writer = log.writer()
    writer.write([record])
    writer.flush(1.0)
    writer.close()


def seen(log: Log, settings: Settings) -> list[bytes | None]:
    reader = believed(log.reader([Subscription("p.trust")]), settings)
    found = [m.value for m in reader.poll(0.1)]
    reader.close()
    return found


def test_what_is_not_signed_by_whom_it_says_is_left_out(
    log: Log, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pem, cloud = make_key("cloud")
    thief_pem, agent = make_key("agent.A")
    write_list(tmp_path / LIST, [cloud, agent])
    keys = [load_pem_private_key(p, None) for p in (pem, thief_pem)]
    assert all(isinstance(key, Ed25519PrivateKey) for key in keys)
    good, thief = (Signer(key) for key in keys if isinstance(key, Ed25519PrivateKey))
    write(log, good.sign(Outgoing("p.trust", "A", encode(TRUST))))
    write(log, Outgoing("p.trust", "A", encode(FORGED)))
    write(log, thief.sign(Outgoing("p.trust", "A", encode(FORGED))))
    assert seen(log, signing(tmp_path)) == [encode(TRUST)]
    assert "left out: unsigned on p.trust, 1 so far" in caplog.text
    assert "left out: foreign on p.trust, 1 so far" in caplog.text
    assert len(seen(log, signing(tmp_path, enabled=False))) == 3


def test_without_a_list_a_warning_says_that_nobody_can_tell(
    log: Log, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(log, Outgoing("p.trust", "A", encode(FORGED)))
    with caplog.at_level(logging.WARNING):
        assert seen(log, signing(tmp_path)) == [encode(FORGED)]
    assert "not verified" in caplog.text


def test_the_list_is_followed_while_it_looks(log: Log, tmp_path: Path) -> None:
    pem, entry = make_key("cloud")
    write_list(tmp_path / LIST, [entry])
    key = load_pem_private_key(pem, None)
    assert isinstance(key, Ed25519PrivateKey)
    reader = believed(log.reader([Subscription("p.trust")]), signing(tmp_path))
    assert isinstance(reader, Believed)
    write_list(tmp_path / LIST, [replace(entry, revoked=True)])
    write(log, Signer(key).sign(Outgoing("p.trust", "A", encode(TRUST))))
    assert reader.poll(0.1) == []
    assert reader.counts == {"revoked key": 1}
    for damaged in ("no list", '[[keys]]\nrole = "cloud"\npublic = "no key"\n', ""):
        (tmp_path / LIST).write_text(damaged)
        write(log, Signer(key).sign(Outgoing("p.trust", "A", encode(TRUST))))
        assert reader.poll(0.1) == []
    assert reader.stats.messages == 4
    assert reader.counts == {"revoked key": 4}
    reader.close()
