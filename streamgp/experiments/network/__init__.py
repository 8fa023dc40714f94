"""The studies of the network layer."""

from streamgp.experiments.network import gain
from streamgp.experiments.registry import Study

STUDIES = (
    Study(
        gain.NAME,
        "what the other stations' last surprises add to a forecast, on five real networks and under attack",
        run=gain.run,
    ),
)
