"""The cloud's records: what they count, whom they bar, what a false truth can do, and how they are restored."""

from __future__ import annotations

import json

import numpy as np
import pytest

from streamgp.errors import CheckpointError, SettingsError
from streamgp.fusion import AgentTrust, TrustLedger, follow_beta

NAMES = tuple("ABCDEFGHIJKL")


def replay(ledger: TrustLedger, days: range, *, lie=None, false_truth=(), askers=NAMES[:4], seed: int = 0) -> None:
    """Twelve agents asked by some; ``lie(day, M, V)`` changes the answers of a day."""
    for day in days:
        for asker in askers:
            rng = np.random.default_rng([seed, day, ord(asker)])
            truth = rng.normal(size=2)
            V = np.full((12, 2), 0.5)
            M = truth + np.sqrt(V) * rng.normal(size=(12, 2))
            if lie is not None:
                lie(day, M, V)
            query = f"{day}-{asker}"
            ledger.note(query, NAMES, M, V, np.full((12, 2), 0.25), n_trim=2, asker=asker)
            y = truth + 0.5 * rng.normal(size=2)
            assert ledger.settle(query, y + 1000.0 if asker in false_truth else y)


def test_honest_agents_are_sound() -> None:
    ledger = TrustLedger()
    replay(ledger, range(100))
    for agent in ledger.report():
        assert agent.standing == "sound"
        assert agent.z2 == pytest.approx(1.0, abs=0.35)
        assert agent.coverage == pytest.approx(0.9, abs=0.08)
        assert not agent.proof
        sides = (agent.mean_low, agent.mean_high, agent.variance_low, agent.variance_high)
        assert max(sides) <= agent.trimmed <= sum(sides)
    assert not ledger.calibration(NAMES, asker="A").barred.any()


def test_being_trimmed_is_no_proof() -> None:
    """A station with the smallest variance at every query is always cut, and its claims are borne out."""

    def sure(day: int, M: np.ndarray, V: np.ndarray) -> None:
        V[:2] = 0.1
        V[2:] += np.linspace(0.0, 0.1, 10)[:, None]
        M[:2] = M[2:].mean(axis=0)

    ledger = TrustLedger()
    replay(ledger, range(60), lie=sure)
    first = ledger.report()[0]
    assert first.trimmed == pytest.approx(1.0)
    assert first.variance_low == pytest.approx(1.0)
    assert first.variance_high == 0.0
    assert first.standing in ("sound", "underconfident", "overconfident")
    assert not first.proof


def test_a_sleeper_is_barred_soon_after_it_wakes() -> None:
    def sleeper(day: int, M: np.ndarray, V: np.ndarray) -> None:
        if day >= 100:
            M[5] += 3.0
            V[5] *= 1e-3

    ledger = TrustLedger(half_life=50.0)
    replay(ledger, range(100), lie=sleeper)
    assert ledger.report()[5].standing == "sound"
    replay(ledger, range(100, 130), lie=sleeper)
    assert ledger.report()[5].standing == "barred"
    assert ledger.calibration(NAMES, asker="Z").barred.tolist() == [name == "F" for name in NAMES]


def test_one_asker_that_lies_about_the_truth_harms_no_ones_name() -> None:
    ledger = TrustLedger()
    replay(ledger, range(100), false_truth=("B",))
    assert not any(a.standing == "barred" for a in ledger.report())
    assert max(a.factor for a in ledger.report()) < 2.0
    assert ledger.calibration(NAMES, asker="A").factor.max() < 2.0


def test_the_report_is_that_of_askers_whose_truth_is_true() -> None:
    """Honest stations look no worse for the questions of one that lies, however much it asks."""
    honest, with_liar = TrustLedger(), TrustLedger()
    replay(honest, range(60))
    replay(with_liar, range(60))
    replay(with_liar, range(60, 120), askers=("Z", "Y"), false_truth=("Z",))
    for before, after in zip(honest.report(), with_liar.report(), strict=True):
        assert after.z2 == pytest.approx(before.z2, abs=0.3)
        assert after.coverage == pytest.approx(before.coverage, abs=0.06)
        assert after.nlpd == pytest.approx(before.nlpd, abs=0.15)
        assert after.standing == "sound"
        assert after.scored > before.scored


def test_an_asker_that_has_seen_little_counts_where_no_other_has_seen_more() -> None:
    ledger = TrustLedger()
    replay(ledger, range(3), askers=("A",), false_truth=("A",))
    assert min(a.z2 for a in ledger.report()) == pytest.approx(50.0)  # all that is known
    replay(ledger, range(40), askers=("B",))
    assert max(a.z2 for a in ledger.report()) < 2.0


def test_when_everybody_is_wrong_nobody_is_barred() -> None:
    ledger = TrustLedger()
    replay(ledger, range(100), false_truth=NAMES)
    assert not any(a.standing == "barred" for a in ledger.report())
    assert ledger.calibration(NAMES, asker="A").factor.min() > 10.0


def test_missing_refused_and_unusable_answers_are_counted_by_reason() -> None:
    """C37, R58: excluded by name, the reason counted."""
    ledger = TrustLedger()
    M, V = np.zeros((3, 1)), np.ones((3, 1))
    M[1], V[2] = np.nan, -1.0
    for query in ("q1", "q2"):
        ledger.note(query, "ABC", M, V, np.zeros((3, 1)), n_trim=0, missing=("D",), refused={"E": "not JSON"})
        ledger.settle(query, [0.5])
    report = {a.agent: a for a in ledger.report()}
    assert report["B"].refused == {"mean is not finite": 2}
    assert report["C"].refused == {"variance is not positive": 2}
    assert report["E"].refused == {"not JSON": 2}
    assert (report["A"].answered, report["D"].missing, report["D"].answered) == (2, 2, 0)
    assert (report["A"].scored, report["B"].scored) == (pytest.approx(2.0, rel=0.02), 0.0)
    assert report["B"].proof
    assert not report["A"].proof


def test_truth_is_used_once_and_only_where_it_is_known() -> None:
    ledger = TrustLedger(max_pending=2)
    answers = np.zeros((2, 2)), np.ones((2, 2)), np.zeros((2, 2))
    for query in ("q1", "q2", "q3"):
        ledger.note(query, "AB", *answers, n_trim=0)
    assert not ledger.settle("q1", [0.0, 0.0])  # forgotten: two may wait
    assert ledger.settle("q2", [np.nan, np.nan])
    assert not ledger.settle("q2", [0.0, 0.0])
    assert ledger.report()[0].scored == 0.0
    assert ledger.settle("q3", [1.0, np.nan])
    assert ledger.report()[0].z2 == pytest.approx(1.0)
    ledger.note("q4", "AB", *answers, n_trim=0)
    with pytest.raises(ValueError, match="shape"):
        ledger.settle("q4", [0.0])


def test_what_the_ledger_cannot_write_down_is_refused() -> None:
    ledger = TrustLedger()
    with pytest.raises(ValueError, match="one answer an agent"):
        ledger.note("q", "AA", [[0.0], [1.0]], [[1.0], [1.0]], 0.0, n_trim=0)
    with pytest.raises(ValueError, match="noise_variances must be real numbers"):
        ledger.note("q", "AB", [[0.0], [1.0]], [[1.0], [1.0]], [["x"], ["y"]], n_trim=0)
    with pytest.raises(ValueError, match="2 agents"):
        ledger.note("q", "AB", [[0.0], [1.0]], [[1.0], [1.0]], [0.0, 0.0], n_trim=0)
    ledger.note("none", "AB", np.zeros((2, 0)), np.zeros((2, 0)), 0.0, n_trim=0)
    assert ledger.settle("none", [])
    ledger.note("q", "AB", [[0.0], [1.0]], [[1.0], [1.0]], 0.0, n_trim=0)
    assert ledger.settle("q", np.ma.masked_array([5.0], mask=[True]))  # a truth behind a mask is none
    assert [(a.answered, a.scored) for a in ledger.report()] == [(2, 0.0), (2, 0.0)]


def test_a_restored_ledger_goes_on_to_the_bit() -> None:
    whole, first = TrustLedger(half_life=30.0), TrustLedger(half_life=30.0)
    replay(whole, range(40))
    replay(first, range(20))
    state = first.state()
    plain = json.loads(json.dumps(state, default=lambda array: array.tolist()))
    second = TrustLedger.from_state(plain)
    replay(second, range(20, 40))
    assert second.report() == whole.report()
    np.testing.assert_array_equal(
        second.calibration(NAMES, asker="C").factor, whole.calibration(NAMES, asker="C").factor
    )


def test_a_snapshot_shares_nothing_with_the_ledger() -> None:
    ledger = TrustLedger()
    replay(ledger, range(3))
    before = json.dumps(ledger.state(), default=lambda array: array.tolist())
    state = ledger.state()
    replay(ledger, range(3, 6))
    assert json.dumps(state, default=lambda array: array.tolist()) == before


@pytest.mark.parametrize(
    "change", [{"version": 99}, {"version": 1}, {"tallies": None}, {"pairs": {}}, {"tallies": {"A": {}}}]
)
def test_foreign_and_damaged_states_are_refused(change: dict) -> None:
    with pytest.raises(CheckpointError):
        TrustLedger.from_state({**TrustLedger().state(), **change})


def test_unknown_agents_have_no_record() -> None:
    ledger = TrustLedger()
    replay(ledger, range(20))
    records = ledger.calibration(("new", "A"), asker="A")
    assert not records.barred.any()
    assert 0.5 < records.factor[0] < 2.0
    empty = TrustLedger().calibration(NAMES)
    np.testing.assert_array_equal(empty.factor, 1.0)


@pytest.mark.parametrize("settings", [{"half_life": 0.0}, {"limit": 1.0}, {"max_pending": -1}])
def test_settings_are_checked(settings: dict) -> None:
    with pytest.raises(SettingsError):
        TrustLedger(**settings)


def test_beta_follows_the_report_between_bounds() -> None:
    honest = [AgentTrust(f"a{i}", answered=9) for i in range(18)]
    liars = [AgentTrust(f"b{i}", answered=9, standing="barred") for i in range(2)]
    assert follow_beta(honest + liars, low=0.0, high=0.2) == pytest.approx(0.1)
    assert follow_beta(honest, low=0.05, high=0.2) == 0.05
    assert follow_beta(liars, low=0.0, high=0.2) == 0.2
    assert follow_beta([], low=0.1, high=0.2) == 0.1
    with pytest.raises(SettingsError):
        follow_beta(honest, low=0.2, high=0.25)
