"""The cloud's records over a whole network: who lies is told, who is only cut is not accused."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from streamgp.demo.run import run_embedded
from streamgp.fusion.trust import TrustLedger
from streamgp.wire.memory import MemoryLog
from streamgp.wire.records import Forecast, Trust
from tests.flow.networks import DAY_MS, plan_of, quick_settings, records


def settings_with(**cloud: object) -> object:
    settings = quick_settings()
    return msgspec.structs.replace(settings, cloud=msgspec.structs.replace(settings.cloud, report_every=60, **cloud))


@pytest.mark.parametrize("rule", ["trimmed_poe", "calibrated_poe"])
def test_the_report_names_the_liar_and_not_those_who_are_only_cut(rule: str) -> None:
    plan = plan_of(days=110, liars=1, attack="same-value", attack_from=0.0, settings=settings_with(rule=rule))
    log = MemoryLog()
    result = run_embedded(plan, lambda tally: None, log=log)
    last = {t.agent: t for t in records(log, "streamgp", "trust", Trust)}
    (liar,) = result.liars
    assert last[liar].standing == "barred"
    assert {t.standing for name, t in last.items() if name != liar} <= {
        "new",
        "sound",
        "overconfident",
        "underconfident",
    }
    assert max(t.z2 for name, t in last.items() if name != liar) < 2.0  # its own questions tell nothing of the others
    forecasts = records(log, "streamgp", "forecasts", Forecast)
    assert {f.rule for f in forecasts} == {rule}
    assert result.methods["cloud_trimmed"]["rmse"] is not None
    assert result.methods["cloud_trimmed"]["rmse"] < 1.3


def test_the_truth_that_the_cloud_puts_together_is_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    settled: dict[str, float] = {}
    true_settle = TrustLedger.settle

    def settle(ledger: TrustLedger, query_id: str, y: np.ndarray) -> bool:
        settled[query_id] = float(y[0])
        return true_settle(ledger, query_id, y)

    monkeypatch.setattr(TrustLedger, "settle", settle)
    plan = plan_of(days=60)
    run_embedded(plan, lambda tally: None)
    readings = {(o.station, o.time_ms): o.y for o in plan.observations}
    assert len(settled) > 250
    for query_id, y in settled.items():
        station, asked_ms, _ = query_id.split(":")
        assert y == pytest.approx(readings[station, int(asked_ms) + DAY_MS], rel=1e-9)


def test_beta_follows_the_report_between_its_bounds() -> None:
    plan = plan_of(days=110, liars=1, attack="nan", attack_from=0.0, settings=settings_with(beta_bounds=(0.05, 0.2)))
    log = MemoryLog()
    run_embedded(plan, lambda tally: None, log=log)
    betas = [f.beta for f in records(log, "streamgp", "forecasts", Forecast) if f.status != "no_quorum"]
    assert set(betas) <= {0.05, 1 / 6, 0.2}
    assert betas[-1] < 0.21
