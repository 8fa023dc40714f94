"""Federated training over the embedded log: equal to one process, and steady whatever the clients do."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from streamgp.errors import SettingsError
from streamgp.fusion.federation import server_step
from streamgp.gp.hierarchy.data import client_data
from streamgp.gp.hierarchy.shared_step import Ascent, SharedState
from streamgp.models.hgp.client import client_step
from streamgp.models.hgp.rounds import client_start, run_rounds, server_start
from streamgp.roles.training_client import FixedRows
from streamgp.roles.training_records import flat, state_of, units_from
from streamgp.wire.codec import encode
from streamgp.wire.log import Message, Outgoing
from streamgp.wire.records import Update
from tests.roles.training import SETTINGS, Federation, changed, rows_of


def update(client: str, summary: dict, *, run: str = "default", round_: int = 0) -> Outgoing:
    arrays, shapes = flat(summary)
    record = Update(run=run, round=round_, client=client, time_ms=0, arrays=arrays, shapes=shapes)
    return Outgoing("t.updates", client, encode(record))


def test_over_topics_equals_in_process() -> None:
    data = rows_of(3)
    federation = Federation(changed(expected=3))
    clients = {name: federation.client(name, X, Y) for name, (X, Y) in data.items()}
    server = federation.server()
    federation.run(server, clients)
    assert server.outcome == "done"
    assert all(client.finished for client in clients.values())
    plan, schedule, units = SETTINGS.plan(), SETTINGS.schedule(), units_from(SETTINGS)
    state = server_start(plan, schedule, low=np.array([-5.0]), high=np.array([5.0]))
    rows = {name: client_data(units.inputs(X), Y) for name, (X, Y) in data.items()}
    state, owns = run_rounds(rows, state, plan, schedule)
    for name, a in state.block.items():
        np.testing.assert_allclose(server.shared.block[name], a, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(server.shared.precision, state.precision, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(server.shared.mean, state.mean, rtol=1e-10, atol=1e-10)
    for name, client in clients.items():
        for key, a in owns[name].items():
            np.testing.assert_allclose(client.saved.own[key], a, rtol=1e-10, atol=1e-10)


def test_training_over_topics_makes_a_station_forecast_well() -> None:
    data = rows_of(3)
    federation = Federation(changed(rounds=20, expected=3))
    clients = {name: federation.client(name, X, Y) for name, (X, Y) in data.items()}
    federation.run(federation.server(), clients)
    belief, settings = clients["station-1"].posterior()
    X = np.linspace(0.5, 9.5, 30)[:, None]
    mean, cov = belief.predict(units_from(settings).inputs(X))
    assert np.sqrt(np.mean((mean - np.hstack([np.sin(X) + 0.3, np.cos(X)])) ** 2)) < 0.15
    assert (np.diagonal(cov, axis1=1, axis2=2) > 0.0).all()


def test_an_update_holds_no_row() -> None:
    """The paper's promise: the bytes that leave hold (23), and no number of the client's data."""
    data = rows_of(2)
    federation = Federation(changed(expected=2, rounds=2))
    federation.run(federation.server(), {n: federation.client(n, X, Y) for n, (X, Y) in data.items()})
    sent = federation.records("t.updates")
    assert len(sent) == 4
    shapes = {name: a.shape for name, a in state_of(federation.states()[0]).block.items()}
    for value in sent:
        record = msgspec.json.decode(value)
        assert set(record) == {"v", "run", "round", "client", "time_ms", "arrays", "shapes"}
        # as many numbers as the shared block and q(u_g) have, whatever the client's rows
        assert {k: tuple(s) for k, s in record["shapes"].items()} == {**shapes, "mean": (6,), "covariance": (21,)}
        numbers = {x for row in record["arrays"].values() for x in row}
        for X, Y in data.values():
            for secret in (*X.ravel(), *Y.ravel(), *(X.ravel() - 5.0)):
                assert repr(float(secret)).encode() not in value
                assert float(secret) not in numbers


def test_c38_empty_rounds_and_a_nan() -> None:
    """C38, R58: all report nothing: parameters byte-identical, status empty; one NaN: refused by name."""
    federation = Federation(changed(rounds=3, expected=3))
    nothing = (np.zeros((0, 1)), np.zeros((0, 2)))
    clients = {name: federation.client(name, *nothing) for name in "abc"}
    server = federation.server()
    pairs = federation.parts(server, clients)
    writer = federation.log.writer()
    writer.write(server.start(0.0))
    for client, reader, out in pairs[1:]:
        client.feed(reader.poll(0.0), 0.0)
        out.write(client.drain(0.0))
    server.feed(pairs[0][1].poll(0.0), 0.0)
    assert server.drain(0.0) == []
    writer.write(server.drain(10.0))
    first, second = federation.states()[0], federation.states()[-1]
    assert (second.status, second.round) == ("empty", 1)
    assert msgspec.json.encode(second.arrays) == msgspec.json.encode(first.arrays)
    # next round: a, b with rows, c with a NaN that JSON cannot even carry, and one with a NaN's neighbour, 1e308
    for name, (X, Y) in zip("ab", rows_of(2).values(), strict=True):
        clients[name].rows = FixedRows(X, Y)
    for client, reader, out in pairs[1:3]:
        client.feed(reader.poll(0.0), 0.0)
        out.write(client.drain(0.0))
    good = server.shared
    huge = {n: np.full(a.shape, 1e308) for n, a in good.block.items()}
    huge |= {"mean": np.full(6, 1e308), "covariance": np.full((6, 6), 1e308)}
    bad = update("c", huge, round_=1).value.replace(b"1e+308", b"NaN").replace(b"1e308", b"NaN")
    writer.write([Outgoing("t.updates", "c", bad), update("d", {"mean": np.zeros(3)}, round_=1)])
    server.feed(pairs[0][1].poll(0.0), 11.0)
    writer.write(server.drain(30.0))
    last = federation.states()[-1]
    assert (last.status, last.round, last.clients) == ("ok", 2, ("a", "b"))
    assert "d" in last.refused
    assert server.ignored["unreadable"] == 1
    assert len(federation.records("t.dead-letter")) == 1
    assert all(np.isfinite(row).all() for row in last.arrays.values())


def test_c40_too_few_clients_are_visible_and_end_the_wait() -> None:
    """C40, R59: one of three: "waiting 1/3" in the records, an outcome of its own after the limit."""
    federation = Federation(changed(min_clients=3, round_s=4.0, wait_s=10.0))
    X, Y = rows_of(1)["station-0"]
    server = federation.server()
    federation.run(server, {"a": federation.client("a", X, Y)})
    assert server.outcome == "gave_up"
    assert 10.0 <= federation.clock.monotonic_s() <= 12.0
    last = federation.states()[-1]
    assert (last.status, last.present, last.needed, last.round) == ("waiting", 1, 3, 0)


def test_c40_a_fourth_client_joins_and_the_end_of_all_leaves_the_state_intact() -> None:
    """C40, R60: a client that comes in round 2 takes part at once; with all killed the round fails at its deadline."""
    data = rows_of(4)
    federation = Federation(changed(min_clients=3, rounds=6, expected=3))
    server = federation.server()
    pairs = federation.parts(server, {n: federation.client(n, *data[n]) for n in list(data)[:3]})
    writer = federation.log.writer()
    writer.write(server.start(0.0))

    def step(now_s: float, pairs: list) -> None:
        for role, reader, out in [*pairs[1:], pairs[0]]:
            role.feed(reader.poll(0.0), now_s)
            out.write(role.drain(now_s))

    while server.round < 2:
        step(1.0, pairs)
    late = federation.parts(None, {"station-3": federation.client("station-3", *data["station-3"])})
    step(2.0, [pairs[0], *late, *pairs[1:]])
    assert server.round == 3
    assert "station-3" in server.last.used
    state, opened = server.shared, server.round
    writer.write(server.drain(100.0))
    assert federation.states()[-1].status == "failed"
    assert server.shared is state
    assert server.round == opened
    successor = federation.server(resume=federation.states()[-1])
    assert successor.round == opened
    np.testing.assert_array_equal(successor.shared.precision, state.precision)


def test_late_repeated_and_foreign_updates_count_for_nothing() -> None:
    """R60: run ids keep runs apart; no client counts twice, and none in a round that is over."""
    federation = Federation(changed(min_clients=2))
    server = federation.server()
    server.start(0.0)
    writer = federation.log.writer()
    writer.write(
        [
            update("a", {}),
            update("a", {}),
            update("b", {}, run="yesterday"),
            update("b", {}, round_=7),
            Outgoing("t.updates", "mallory", update("b", {}).value),
        ]
    )
    ((_, inputs, _),) = federation.parts(server, {})
    server.feed(inputs.poll(0.0), 0.0)
    assert server.ignored == {"repeated": 1, "another run": 1, "ahead": 1, "unreadable": 1}
    assert list(server._answers) == ["a"]


def test_a_client_that_vanishes_is_waited_for_only_a_while() -> None:
    data = rows_of(3)
    federation = Federation(changed(rounds=8, expected=3, patience=2))
    clients = {n: federation.client(n, *rows) for n, rows in data.items()}
    server = federation.server()
    pairs = federation.parts(server, clients)
    federation.log.writer().write(server.start(0.0))
    ends = []
    for _ in range(200):
        now_s = federation.clock.monotonic_s()
        alive = pairs if server.round < 2 else pairs[:3]
        before = server.round
        for role, reader, out in [*alive[1:], alive[0]]:
            role.feed(reader.poll(0.0), now_s)
            out.write(role.drain(now_s))
        if server.round > before:
            ends.append(now_s)
        federation.clock.advance(1.0)
        if server.outcome:
            break
    assert server.outcome == "done"
    # two rounds at once, two that wait to their deadline of 10 s, and the rest without it
    assert np.diff(ends)[1:].max() == pytest.approx(10.0)
    assert (np.diff(ends) >= 9.0).sum() == 2


def test_a_round_without_a_client_does_not_forget_it() -> None:
    """q(u_g) moves by the fraction that answered: one of four alike leaves q where all four had brought it."""
    plan, ascent, units = SETTINGS.plan(), SETTINGS.schedule().ascent, units_from(SETTINGS)
    X, Y = rows_of(1)["station-0"]
    rows = client_data(units.inputs(X), Y)
    state = server_start(plan, SETTINGS.schedule(), low=np.array([-5.0]), high=np.array([5.0]))
    own = client_start("a", rows, state, plan, seed=0)
    held = Ascent(hold=tuple(state.block))

    def answer(state: SharedState) -> dict:
        return client_step(state, rows, own, layout=plan.layout, factors="structured", iterations=0).summary

    four = server_step(state, dict.fromkeys("abcd", answer(state)), layout=plan.layout, ascent=held).state
    one = {"a": answer(four)}
    kept = server_step(four, one, layout=plan.layout, ascent=held, known="abcd").state
    lost = server_step(four, one, layout=plan.layout, ascent=held).state
    np.testing.assert_allclose(kept.precision, four.precision, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(kept.mean, four.mean, rtol=1e-8, atol=1e-10)
    assert np.trace(lost.precision - np.eye(6)) < 0.3 * np.trace(four.precision - np.eye(6))
    assert ascent.hold == ()


def test_in_a_training_without_end_new_rows_enter_and_quiet_clients_fall_silent() -> None:
    data = rows_of(2)
    federation = Federation(changed(rounds=0, expected=2, quiet_rounds=2))
    clients = {n: federation.client(n, X[:6], Y[:6]) for n, (X, Y) in data.items()}
    server = federation.server()
    pairs = federation.parts(server, clients)
    federation.log.writer().write(server.start(0.0))

    def until(round_: int, now_s: float) -> None:
        for _ in range(20):
            for role, reader, out in [*pairs[1:], pairs[0]]:
                role.feed(reader.poll(0.0), now_s)
                out.write(role.drain(now_s))
            if server.round >= round_:
                return

    until(2, 0.0)
    assert server.round == 2
    until(3, 5.0)
    assert server.round == 2  # nobody has anything new to say, so the round waits for its deadline
    until(3, 11.0)
    assert server.last.status == "empty"
    steps = server.shared.steps
    for name, (X, Y) in data.items():
        clients[name].rows = FixedRows(X, Y)
    until(5, 22.0)  # they had already said that they had nothing; from the next round on they speak
    assert server.last.status == "ok"
    assert server.shared.steps == steps + 2
    assert len(server.last.used) == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"low": (1.0,), "high": (0.0,)},
        {"clip": 1.0},
        {"beta": 0.5},
        {"rounds": -1},
        {"factors": "other"},
        {"scale": 0.0},
        {"clip": -1.0, "noise": 1.0},
        {"clip": float("inf"), "noise": 1.0},
        {"clip": 1.0, "noise": 1e-200},
        {"clip": 1.0, "noise": 1e200},
        {"scale": float("nan")},
        {"rate": float("inf")},
        {"wait_s": float("nan")},
        {"low": (float("nan"),)},
        {"low": (), "high": ()},
        {"max_rows": 0},
        {"expected": 0},
        {"rule": "median"},
        {"n_global": 2000, "rank_global": 2000},
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict) -> None:
    with pytest.raises(SettingsError):
        changed(**changes).checked()


def test_a_client_serves_the_newest_global_model_and_says_which() -> None:
    """R33: model v1, predict, model v2, predict: the second prediction uses v2; updates and health tell the version."""
    X, Y = rows_of(1)["station-0"]
    federation = Federation(changed(expected=1, rounds=3))
    client, server = federation.client("a", X, Y), federation.server()
    pairs = federation.parts(server, {"a": client})
    writer = federation.log.writer()
    writer.write(server.start(0.0))
    told: list[tuple[float, np.ndarray]] = []
    at = units_from(SETTINGS).inputs(np.linspace(0.5, 9.5, 9)[:, None])
    for _ in range(2):
        client.feed(pairs[1][1].poll(0.0), 0.0)
        (answer,) = client.drain(0.0)
        writer.write([answer])
        assert msgspec.json.decode(answer.value)["round"] == client.vitals()["round"]
        belief, _ = client.posterior()
        told.append((client.vitals()["round"], belief.predict(at)[0]))
        server.feed(pairs[0][1].poll(0.0), 0.0)
        writer.write(server.drain(0.0))
    assert [version for version, _ in told] == [0.0, 1.0]
    assert np.abs(told[0][1] - told[1][1]).max() > 1e-6
    fresh = federation.client("a", X, Y)  # nothing of v1 is left in what serves v2
    fresh.restore(client.state())
    belief, _ = fresh.posterior()
    np.testing.assert_array_equal(belief.predict(at)[0], told[1][1])


@pytest.mark.parametrize(
    ("spoil", "field"),
    [
        (lambda r: r["settings"].update(rank_global=2), "arrays.block"),
        (lambda r: r["settings"].update(n_global=2**40), "settings"),
        (lambda r: r["settings"].update(local_iterations=10**9), "settings"),
        (lambda r: r["arrays"].update({"units.low": [-1e308], "units.high": [1e308]}), "arrays.units.high"),
        (lambda r: r["arrays"].update({"q.precision": [-1.0] * 21}), "arrays.q.precision"),
        (lambda r: r["arrays"].update({"block.eta_variance": [1e308]}), "arrays"),
        (lambda r: r["settings"].update(scale=-1.0), "settings"),
        (lambda r: r["settings"].update(n_global=2000, rank_deviation=2000), "settings"),
    ],
)
def test_a_global_record_that_no_station_can_work_with_is_a_dead_letter(spoil: Callable, field: str) -> None:
    """R58, C43: it stops nobody, and the good one before it is what counts."""
    X, Y = rows_of(1)["station-0"]
    federation = Federation(changed(expected=1, rounds=3))
    client, server = federation.client("a", X, Y), federation.server()
    (good,) = server.start(0.0)
    record = msgspec.json.decode(good.value)
    record["round"] = 1
    spoil(record)
    false = Outgoing(good.topic, good.key, msgspec.json.encode(record))
    federation.log.writer().write([good, false])
    reader = federation.parts(None, {"a": client})[0][1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        client.feed(reader.poll(0.0, 1), 0.0)
        (first,) = client.drain(0.0)
        client.feed(reader.poll(0.0), 0.0)
        (letter,) = client.drain(0.0)
    assert first.topic == "t.updates"
    assert letter.topic == "t.dead-letter"
    assert dict(letter.headers)["field"] == field.encode()
    assert client.drain(1.0) == []
    assert client.posterior() is not None
    server.feed([Message("t.updates", 0, 0, "a", first.value)], 0.0)
    federation.log.writer().write(server.drain(0.0))
    client.feed(reader.poll(0.0), 2.0)
    (second,) = client.drain(2.0)
    assert msgspec.json.decode(second.value)["round"] == 1
