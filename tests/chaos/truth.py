"""What a run must end with: the models and the questions of the same observations when nothing disturbs them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from threadpoolctl import threadpool_limits

from producers.datasets import observations
from streamgp.roles.loop import together
from streamgp.roles.settings import load_settings
from streamgp.roles.wiring import agent_role, subscriptions
from streamgp.wire.checkpoint import pack
from streamgp.wire.clock import ManualClock
from streamgp.wire.codec import encode
from streamgp.wire.log import Outgoing, Subscription
from streamgp.wire.memory import MemoryLog
from streamgp.wire.records import Observation, Query
from streamgp.wire.topics import topic_plan
from tests.chaos.reading import read

SETTINGS = """
[model]
warm_up = 20
n_neighbors = 8
[agent]
max_wait_s = 120.0
settle_s = 2.0
[cloud]
deadline_s = 5.0
[keep]
snapshot_every_s = 3.0
end_within_s = 60.0
"""


@dataclass(frozen=True)
class Truth:
    """Models and questions by station of a run that nothing disturbed."""

    models: dict[str, bytes]
    asked: dict[str, frozenset[str]]


@lru_cache(maxsize=1)
def sent_of(stations: int, count: int) -> tuple[Observation, ...]:
    """The observations of a run: the same for every seed, which decides what is done to the processes."""
    every = list(observations("irish-wind", limit=count * 12 // stations))
    names = sorted({o.station for o in every[:12]})[:stations]
    return tuple(o for o in every if o.station in names)


@lru_cache(maxsize=1)
def undisturbed(stations: int, count: int) -> Truth:
    """The same observations in one process, without a broker; the same for every seed, and computed once."""
    sent = sent_of(stations, count)
    names = sorted({o.station for o in sent})
    with TemporaryDirectory() as folder:
        file = Path(folder) / "settings.toml"
        file.write_text(SETTINGS)
        settings = msgspec.structs.replace(load_settings(file), stations=tuple(names))
    log = MemoryLog()
    log.create_topics(topic_plan(settings.prefix))
    topic = settings.topic("observations")
    log.writer().write([Outgoing(topic, o.station, encode(o)) for o in sent])
    agents = {s: agent_role(settings, s) for s in names}
    pairs = [(a, log.reader(subscriptions("agent", settings, station=s)), log.writer()) for s, a in agents.items()]
    with threadpool_limits(1):  # as the processes: sums of several threads round otherwise
        together(pairs, ManualClock())
    asked: dict[str, set[str]] = {s: set() for s in names}
    for q in read(log.reader([Subscription(settings.topic("queries"))]), Query):
        asked[q.station].add(q.id)
    models = {s: pack(a.agent.model.state()) for s, a in agents.items()}
    return Truth(models, {s: frozenset(ids) for s, ids in asked.items()})
