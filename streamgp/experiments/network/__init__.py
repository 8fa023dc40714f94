"""The studies of the network layer."""

from functools import partial

from streamgp.experiments.network import gain
from streamgp.experiments.registry import Study

STUDIES = (
    Study(
        gain.NAME,
        "what the other stations' last surprises add to a forecast, on real networks and under attack",
        run=gain.run,
        parts={name: partial(gain.run, networks=(name,), name=f"{gain.NAME}-{name}") for name in gain.CASES},
    ),
)
