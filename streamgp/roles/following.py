"""The global layer of a training, as an agent takes it from the topic ``globals``."""

from __future__ import annotations

from streamgp.errors import DecodeError, SettingsError, StreamGPError
from streamgp.models.hgp.globals import GlobalModel
from streamgp.roles.training_records import settings_of, state_of, units_from
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
    state = state_of(record)
    try:
        settings = settings_of(record)
        plan = settings.plan()
        size = plan.layout.rank_global * len(state.block["inducing"])
        if state.mean.shape != (size,) or state.precision.shape != (size, size):
            raise DecodeError(f"q(u_g) has shape {state.precision.shape}, not {(size, size)}", "arrays.q.precision")
        if state.block["inducing"].shape[1] != len(settings.low):
            raise DecodeError("inducing inputs and units have other columns", "arrays.block.inducing")
        state.q.divergence()  # raises where the precision is none
    except DecodeError:
        raise
    except (SettingsError, StreamGPError, KeyError, IndexError, ValueError) as error:
        raise DecodeError(str(error), "arrays") from error
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
