"""The studies of the hierarchical model."""

from streamgp.experiments.hierarchical import faults, waveforms, zones
from streamgp.experiments.hierarchical.scenarios import scenario_study
from streamgp.experiments.hierarchical.simulate import Scenario
from streamgp.experiments.registry import Study

_TITLES: dict[Scenario, str] = {
    "A": "matched hierarchy: every model beside the exact Bayes predictor (Table 2, Figs. 2 and 4)",
    "B": "deviation kernel with a periodic part that no model has (40)",
    "C": "a product of the global and the deviation part on top (41)",
    "D": "residual correlated with the deviation (42)",
}
STUDIES = (
    *(scenario_study(s, title) for s, title in _TITLES.items()),
    Study("faults", "robot failures told by maximum evidence, beside scikit-learn's SVC (5.1)", run=faults.study),
    Study("waveforms", "generated press strokes of the paper's size and split (5.1, Fig. 6)", run=waveforms.study),
    Study("zones", "Beijing's zones from what was fitted of twelve stations (5.2, Figs. 7 and 8)", run=zones.study),
)
