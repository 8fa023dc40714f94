"""The global layer of a training, as an agent takes it from the topic ``globals``."""

from __future__ import annotations

from streamgp.models.hgp.globals import GlobalModel
from streamgp.roles.training_records import believable, units_from
from streamgp.wire.records import GlobalState


def global_model(record: GlobalState) -> GlobalModel | None:
    """What a station can stand on; None while nothing was trained yet.

    Raises
    ------
    DecodeError
        If arrays or settings are missing, do not fit each other, or make no Gaussian.
    """
    if record.steps == 0:
        return None
    settings, state = believable(record)
    plan = settings.plan()
    return GlobalModel(
        record.run,
        record.round,
        plan.layout,
        plan.factors,
        plan.n_local,
        settings.local_iterations,
        units_from(settings),
        state,
    )
