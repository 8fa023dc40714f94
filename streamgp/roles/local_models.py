"""What a station believes, by the name that the settings give it: the model is imported when it is chosen.

Importing all of them costs a second of processor time and more at every start of an agent (scikit-learn and SciPy stand
behind some); an agent has one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from streamgp.errors import KeptSettingsError
from streamgp.models.contract import LocalModel, State
from streamgp.roles.plain import REMEDY

if TYPE_CHECKING:
    from streamgp.roles.settings import ModelKind, ModelSettings

#: most rows that a hierarchical model keeps
HIERARCHICAL_POINTS = 2000


def make_model(settings: ModelSettings, *, fit: bool) -> LocalModel:
    """A fresh model of the settings' kind; ``fit`` says whether hyperparameters are fitted to the first rows."""
    return _MAKES[settings.kind](settings, fit)


def load_model(kind: ModelKind, state: State) -> LocalModel:
    """The model of that kind whose :meth:`state` was taken.

    Raises
    ------
    KeptSettingsError
        If it is the state of a model of another kind: what it has learned is of no use to this one.
    CheckpointError
        If the state is of another version, or damaged.
    """
    found = _kind_of(state)
    if found not in (None, kind):
        raise KeptSettingsError(f"model.kind is {kind}, and the state is that of a model of kind {found}: {REMEDY}")
    return _LOADS[kind](state)


def _kind_of(state: State) -> ModelKind | None:
    """Whose state it is, by what only that kind keeps; none if it is damaged beyond telling."""
    named: ModelKind | None = _ESTIMATORS.get(str(state.get("estimator")))
    marked: dict[str, ModelKind] = {"prior_variance": "constant", "sizes": "hierarchical"}
    return named or next((kind for key, kind in marked.items() if key in state), None)


def kept_values(kind: ModelKind, state: State) -> dict[str, object]:
    """By their names in the settings, the parameters with which the model of this (whole) state goes on."""
    if _kind_of(state) != kind or kind == "constant":
        return {}
    if kind == "hierarchical":
        n_global, n_local, max_points = state["sizes"]
        own: dict[str, object] = {"max_points": max_points, "seed": state["seed"]}
        return own if state["global"] is not None else {"n_global": n_global, "n_local": n_local, **own}
    inner = state["inner"]
    kept = inner if kind == "nearest" else inner["arguments"]
    return {**{key: kept[key] for key in _PARAMETERS[kind]}, "seed": kept["random_state"] or 0}


def wanted_values(settings: ModelSettings) -> dict[str, object]:
    """The same by the settings, as :func:`make_model` takes them."""
    wanted = {key: getattr(settings, key) for key in settings.__struct_fields__}
    return {**wanted, "max_points": _most(settings)} if settings.kind == "hierarchical" else wanted


def _nearest(m: ModelSettings, fit: bool) -> LocalModel:
    from streamgp.models.local import EstimatorModel
    from streamgp.models.nearest_stream import NearestParameters, NearestStream

    parameters = NearestParameters(
        n_neighbors=m.n_neighbors,
        max_points=m.max_points,
        optimizer="lbfgs" if fit else None,
        random_state=m.seed,
    )
    return EstimatorModel(NearestStream(parameters))


def _experts(m: ModelSettings, fit: bool) -> LocalModel:
    from streamgp.models.experts import CPoERegressor
    from streamgp.models.local import EstimatorModel

    return EstimatorModel(
        CPoERegressor(
            expert_size=m.expert_size,
            correlation=m.correlation,
            max_experts=m.max_experts,
            n_predict_experts=3,  # all regions of a series are no better, and cost more
            optimizer="lbfgs" if fit else None,
            random_state=m.seed,
        )
    )


def _most(m: ModelSettings) -> int:
    return min(m.max_points or HIERARCHICAL_POINTS, HIERARCHICAL_POINTS)


def _hierarchical(m: ModelSettings, fit: bool) -> LocalModel:
    from streamgp.models.hierarchical_model import HierarchicalModel

    return HierarchicalModel(
        n_global=m.n_global,
        n_local=m.n_local,
        max_points=_most(m),
        fit=fit,
        seed=m.seed,
    )


def _constant(m: ModelSettings, fit: bool) -> LocalModel:
    from streamgp.models.constant import ConstantModel

    return ConstantModel()


def _load_estimator(state: State) -> LocalModel:
    from streamgp.models.local import EstimatorModel

    return EstimatorModel.from_state(state)


def _load_hierarchical(state: State) -> LocalModel:
    from streamgp.models.hierarchical_model import HierarchicalModel

    return HierarchicalModel.from_state(state)


def _load_constant(state: State) -> LocalModel:
    from streamgp.models.constant import ConstantModel

    return ConstantModel.from_state(state)


_MAKES: dict[ModelKind, Callable[[ModelSettings, bool], LocalModel]] = {
    "nearest": _nearest,
    "cpoe": _experts,
    "hierarchical": _hierarchical,
    "constant": _constant,
}
_PARAMETERS = {"nearest": ("n_neighbors", "max_points"), "cpoe": ("expert_size", "correlation", "max_experts")}
_ESTIMATORS: dict[str, ModelKind] = {"NearestNeighborGP": "nearest", "CPoERegressor": "cpoe"}
_LOADS: dict[ModelKind, Callable[[State], LocalModel]] = {
    "nearest": _load_estimator,
    "cpoe": _load_estimator,
    "hierarchical": _load_hierarchical,
    "constant": _load_constant,
}
