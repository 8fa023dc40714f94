"""Odd federations: nobody waits for ever, nobody counts who has nothing, and no lie comes twice."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from streamgp.models.hgp.rounds import MadeFor
from streamgp.roles.trainer import TrainingServer
from streamgp.roles.training_client import FixedRows
from streamgp.roles.training_records import units_from
from streamgp.roles.training_settings import TrainingSettings
from streamgp.wire.checkpoint import pack, unpack
from streamgp.wire.codec import decode, encode
from streamgp.wire.log import Outgoing
from streamgp.wire.records import GlobalState, Update
from tests.roles.training import SETTINGS, Federation, answers, rows_of, taken


def changed(**changes: object) -> TrainingSettings:
    return msgspec.structs.replace(SETTINGS, **changes)


@pytest.mark.parametrize("rule", ["sum", "trimmed"])
def test_clients_without_rows_change_no_number(rule: str) -> None:
    """They answer that they have nothing; they are no share of those who know something."""
    data = rows_of(4)

    def trained(empty: int) -> TrainingServer:
        federation = Federation(changed(expected=4 + empty, rule=rule, rounds=3))
        clients = {n: federation.client(n, *rows) for n, rows in data.items()}
        nothing = (np.zeros((0, 1)), np.zeros((0, 2)))
        clients |= {f"empty-{i}": federation.client(f"empty-{i}", *nothing) for i in range(empty)}
        server = federation.server()
        federation.run(server, clients)
        assert server.outcome == "done"
        return server

    with_, without = trained(3), trained(0)
    np.testing.assert_array_equal(with_.shared.precision, without.shared.precision)
    for name, a in without.shared.block.items():
        np.testing.assert_array_equal(with_.shared.block[name], a)


def test_two_clients_under_a_robust_rule_wait_for_a_third_and_not_for_ever() -> None:
    """C40: what is needed is told, and the end comes after ``wait_s``."""
    federation = Federation(changed(rule="trimmed", round_s=4.0, wait_s=10.0))
    server = federation.server()
    federation.run(server, {n: federation.client(n, *rows) for n, rows in rows_of(2).items()})
    assert server.outcome == "gave_up"
    assert 10.0 <= federation.clock.monotonic_s() <= 12.0
    last = federation.states()[-1]
    assert (last.status, last.present, last.needed, last.round) == ("waiting", 2, 3, 0)


def test_a_round_that_cannot_succeed_does_not_fail_for_ever() -> None:
    """C40: enough have answered, and none of it can be used; the same answers again would fail again."""
    federation = Federation(changed(min_clients=2, expected=2, round_s=3.0, wait_s=10.0))
    server = federation.server()
    server.start(0.0)
    bad = Update(run="default", round=0, client="", time_ms=0, arrays={"mean": (1.0,)}, shapes={"mean": (1,)})
    lies = [Outgoing("t.updates", c, encode(msgspec.structs.replace(bad, client=c))) for c in "ab"]
    said = [decode(o.value, GlobalState).status for o in taken(server, lies, 0.0)]
    for now_s in np.arange(0.5, 12.0, 0.5):
        said += [decode(o.value, GlobalState).status for o in server.drain(float(now_s))]
        if server.outcome:
            break
    assert server.outcome == "gave_up"
    assert now_s <= 10.5
    assert set(said) == {"failed"}
    assert len(said) <= 5


def test_the_epsilon_told_counts_the_round_that_is_under_way() -> None:
    """Who has answered has spent, whether the round is ever closed or not."""
    pytest.importorskip("dp_accounting", reason="the accountant is the extra `privacy`")
    federation = Federation(changed(clip=1.0, noise=2.0, min_clients=3, round_s=5.0))
    server = federation.server()
    clients = {n: federation.client(n, *rows) for n, rows in rows_of(3).items()}
    (opening,) = server.start(0.0)
    sent = answers(clients, opening, 0.0)
    (waiting,) = taken(server, sent[:2], 1.0)
    (closed,) = taken(server, sent[2:], 5.0)
    told = [decode(o.value, GlobalState) for o in (opening, waiting, closed)]
    assert [(s.status, s.round) for s in told] == [("waiting", 0), ("waiting", 0), ("ok", 1)]
    assert told[0].epsilon == 0.0
    assert told[1].epsilon == told[2].epsilon > 0.0
    assert {s.delta for s in told} == {1e-5}


def test_an_answer_that_is_sent_again_as_that_of_a_later_round_is_refused() -> None:
    """C41's kind: the numbers of round 0 under the name of round 1; and it is not believed for a while after."""
    settings = changed(rounds=8, expected=4, patience=2)
    federation = Federation(settings)
    server = federation.server()
    clients = {n: federation.client(n, *rows) for n, rows in rows_of(4).items()}
    (record,) = server.start(0.0)
    first, refused = {}, []
    for round_ in range(6):
        sent = answers(clients, record, 0.0)
        first = first or {o.key: decode(o.value, Update) for o in sent}
        if round_ in (1, 2):
            again = encode(msgspec.structs.replace(first["station-2"], round=round_))
            sent = [o if o.key != "station-2" else Outgoing(o.topic, o.key, again) for o in sent]
        (record,) = taken(server, sent, 0.0)
        refused.append(decode(record.value, GlobalState).refused)
    assert [set(r) for r in refused] == [set(), *[{"station-2"}] * 4, set()]
    assert "earlier round" in refused[1]["station-2"]
    twin = federation.server()
    twin.restore(server.state())
    assert pack(twin.state()) == pack(server.state())


def test_in_a_full_window_new_rows_wake_a_quiet_client() -> None:
    """``max_rows`` newest rows: as many as before, and yet others."""
    X, Y = rows_of(1)["station-0"]
    federation = Federation(changed(rounds=0, expected=1, quiet_rounds=1))
    client, server = federation.client("a", X[:8], Y[:8]), federation.server()
    (record,) = server.start(0.0)
    lengths = []
    for round_ in range(4):
        if round_ == 2:
            client.rows = FixedRows(X[1:9], Y[1:9])
        (sent,) = answers({"a": client}, record, 100.0 * round_)
        lengths.append(len(decode(sent.value, Update).arrays))
        (record,) = taken(server, [sent], 100.0 * round_ + 50.0)
    assert [bool(n) for n in lengths] == [True, False, True, False]


def test_a_client_that_began_with_a_handful_of_rows_learns_as_if_it_had_had_them_all() -> None:
    """On a stream: its residual's inducing inputs stood where the first rows were, out of reach of the later ones."""
    settings = changed(n_outputs=1, n_local=12, rounds=0, expected=1)

    def truth(X: np.ndarray) -> np.ndarray:
        return np.asarray(np.sin(0.6 * X) + 0.5 * np.sin(5.0 * X))

    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0.0, 10.0, (90, 1)), axis=0)
    Y = truth(X) + 0.05 * rng.standard_normal(X.shape)
    grid = np.linspace(0.3, 9.7, 60)[:, None]
    errors = {}
    for first in (90, 6):
        federation = Federation(settings)
        client, server = federation.client("a", X[:first], Y[:first]), federation.server()
        (record,) = server.start(0.0)
        for round_ in range(7):
            if round_ == 1:
                client.rows = FixedRows(X, Y)
                twin = federation.client("a", X, Y)
                twin.restore(unpack(pack(client.state())))
                client = twin
            (record,) = taken(server, answers({"a": client}, record, 0.0), 0.0)
        answers({"a": client}, record, 0.0)
        belief, told = client.posterior()
        errors[first] = np.sqrt(np.mean((belief.predict(units_from(told).inputs(grid))[0] - truth(grid)) ** 2))
    assert errors[6] < 1.3 * errors[90] < 0.1


def test_a_block_is_made_anew_for_twice_the_rows_or_where_they_have_moved_on() -> None:
    X = np.arange(10.0)[:, None]
    made = MadeFor.of(X)
    assert not made.outgrown(X)
    assert not made.outgrown(X + 5.0)
    assert made.outgrown(X + 6.0)
    assert not made.outgrown(np.vstack([X, X[:9]]))
    assert made.outgrown(np.vstack([X, X]))
