"""A question sent to the agents, what the cloud answers, and what the agents say who have nothing to answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import final

import msgspec

from streamgp.errors import DecodeError, SettingsError
from streamgp.models.features import DAY_MS
from streamgp.roles.identity import ASKER, make_gate
from streamgp.roles.refusals import Refusals
from streamgp.roles.settings import RowSettings, Settings
from streamgp.wire.clock import Deadline, SystemClock
from streamgp.wire.codec import decode, encode
from streamgp.wire.gate import Gate
from streamgp.wire.log import Log, Outgoing, Reader, Subscription
from streamgp.wire.records import Forecast, Prediction, Query
from streamgp.wire.topics import preflight, topic_name

_SEND_S = 30.0
#: newest records of the queries topic that are looked at for the stations' own rows, and for how long at most
_LOOK, _LOOK_S = 500, 5.0
#: how long an agent's reason may come after the forecast that it is the reason of
_REASONS_S = 1.0


@final
@dataclass(slots=True)
class Answers:
    """What came back: the forecast of each query, and for each reason to abstain the agents that gave it."""

    forecasts: dict[str, Forecast] = field(default_factory=dict)
    abstained: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def unanswered(self) -> list[str]:
        """Queries whose forecast has no numbers."""
        return [name for name, forecast in self.forecasts.items() if forecast.mean is None]

    def reasons(self) -> dict[str, list[str]]:
        """Reason -> agents that gave it, of the queries without numbers."""
        told: dict[str, list[str]] = {}
        for query_id in self.unanswered:
            for agent, reason in self.abstained.get(query_id, {}).items():
                if agent not in told.setdefault(reason, []):
                    told[reason].append(agent)
        return {reason: sorted(agents) for reason, agents in sorted(told.items())}


def check_columns(columns: Sequence[str], log: Log, settings: Settings) -> None:
    """See that points are as wide as the stations' rows, where that can be known before asking.

    The stations' own questions show it; where there are none, features that the settings name do.

    Raises
    ------
    SettingsError
        If no station's rows are as wide, or the columns have the names of the model's in another order.
    """
    widths = _widths_asked(log, topic_name(settings.prefix, "queries"))
    named = _named_columns(settings.features)
    for made in named:
        if sorted(made) == sorted(columns) and made != tuple(columns):
            raise SettingsError(f"the model has these columns in another order: {','.join(made)}")
    whose = "the stations' own questions have"
    if not widths and settings.features != RowSettings():
        widths, whose = Counter(map(len, named)), "the settings' features make"
    if not widths or len(columns) in widths:
        return
    usual = widths.most_common(1)[0][0]
    names = next((f": {', '.join(made)}" for made in named if len(made) == usual), "")
    raise SettingsError(
        f"points of {len(columns)} columns ({', '.join(columns)}), but {whose} "
        f"{' or '.join(map(str, sorted(widths)))}{names}"
    )


def _named_columns(features: RowSettings) -> list[tuple[str, ...]]:
    """The columns that these settings can make: the calendar's go by the cadence, unless it is named."""
    made = features.made()
    return list(dict.fromkeys((made.columns, replace(made, cadence_ms=DAY_MS // 24).columns)))


def _widths_asked(log: Log, topic: str) -> Counter[int]:
    """How wide the rows of the newest questions are that stations asked themselves."""
    reader = log.reader([Subscription(topic)])
    widths: Counter[int] = Counter()
    try:
        ends = reader.ends()
        reader.seek({place: max(0, end - _LOOK) for place, end in ends.items()})
        deadline = Deadline(SystemClock(), _LOOK_S)
        while not deadline.passed():
            messages = reader.poll(min(0.2, deadline.left_s()))
            for message in messages:
                try:
                    query = decode(message.value, Query)
                except DecodeError:  # the agents' business
                    continue
                if query.station is not None:
                    widths.update({len(row) for row in query.points})
            if not messages and reader.stats.behind == 0:
                break
    finally:
        reader.close()
    return widths


def ask(queries: Sequence[Query], log: Log, settings: Settings, wait_s: float | None) -> Answers:
    """Send the queries, and read what is answered from where the topics ended before."""
    topics = {suffix: topic_name(settings.prefix, suffix) for suffix in ("queries", "forecasts", "predictions")}
    preflight(log, [topics["queries"]] if wait_s is None else list(topics.values()))
    reader = None
    if wait_s is not None:
        reader = log.reader([Subscription(topics["forecasts"]), Subscription(topics["predictions"])])
    try:
        if reader is not None:
            reader.seek(reader.ends())
        gate = make_gate(settings, ASKER, SystemClock())
        writer = log.writer()
        try:
            writer.write(gate.signed([Outgoing(topics["queries"], query.id, encode(query)) for query in queries]))
            writer.flush(_SEND_S)
        finally:
            writer.close()
        if reader is None or wait_s is None:
            return Answers()
        return _collect({query.id for query in queries}, reader, wait_s, gate=gate, prefix=settings.prefix)
    finally:
        if reader is not None:
            reader.close()


def _collect(ids: set[str], reader: Reader, wait_s: float, *, gate: Gate, prefix: str) -> Answers:
    """The forecasts of these queries that come within the time, the first of each, and why agents abstained.

    What is not signed as it should be, or cannot be read, is left out and told as roles tell it.
    """
    found = Answers()
    refusals = Refusals(ASKER, topic_name(prefix, "dead-letter"))
    predictions = topic_name(prefix, "predictions")
    deadline = Deadline(SystemClock(), wait_s)
    ended = False
    while not ended:
        messages = reader.poll(min(1.0, deadline.left_s()))
        for message in messages:
            if message.key not in ids or not refusals.passes(gate, message):
                continue
            try:
                if message.topic == predictions:
                    prediction = decode(message.value, Prediction)
                    if prediction.abstained is not msgspec.UNSET:
                        found.abstained.setdefault(prediction.query_id, {})[prediction.agent] = prediction.abstained
                else:
                    forecast = decode(message.value, Forecast)
                    found.forecasts.setdefault(forecast.query_id, forecast)
            except DecodeError as error:
                refusals.unreadable(message, error)
        ended = not messages and deadline.passed()
        if len(found.forecasts) == len(ids):
            told = all(found.abstained.get(query_id) for query_id in found.unanswered)
            ended = ended or told
            if not told and deadline.left_s() > _REASONS_S:
                deadline = Deadline(SystemClock(), _REASONS_S)
    return found
