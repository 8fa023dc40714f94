"""Reads partitions of a Kafka broker that may be away, shrink, grow, and forget."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import final

from streamgp.errors import BrokerUnavailableError, LogError, TopicMissingError
from streamgp.wire.clock import Deadline, SystemClock
from streamgp.wire.connector import Connector
from streamgp.wire.kafka_client import ConsumerClient, NoOffsetError, OffsetGoneError, TruncatedError
from streamgp.wire.log import Message, Partition, ReaderStats, Start, Subscription
from streamgp.wire.partitioner import wanted_partitions

log = logging.getLogger("streamgp.wire.kafka")

SLICE_S = 0.25  # longest wait inside the client, so that a close from elsewhere is seen
LOOK_S = 1.0  # how often the lag is measured while messages keep coming
GROWTH_S = 10.0  # how often the number of partitions is compared
MISSING_S = 3.0  # how long a topic may be missing, for it may just have been made
ANSWER_S = 10.0  # patience with one question to the broker
CLOSE_S = 4.0  # patience with a poll of another thread that does not end, when closing
SILENT_S = 5.0  # unanswered for so long is no connection, though it stands
CONNECT_S = 20.0  # patience with the first connection, where the caller gave no time of his own


def missing_topic(topic: str) -> TopicMissingError:
    """The error that names a missing topic and what makes it."""
    return TopicMissingError(f"topic {topic!r} does not exist: `streamgp topics create` makes the topics")


@final
class KafkaReader:
    """Made by :meth:`streamgp.wire.kafka.KafkaLog.reader`; see :class:`streamgp.wire.log.Reader`.

    Partitions are assigned by hand unless ``balanced``: membership of a group is then no condition of reading,
    so no length of work between two polls can cost the reader its place, and offsets are still committed to the
    group. A balanced reader that was expelled joins again and drops what it had delivered before.

    Nothing is connected before the first poll, which may come before the broker does.

    Parameters
    ----------
    make
        Makes a client, in a thread of its own; raises BrokerUnavailableError while nobody answers.

    Examples
    --------
    Nobody is there yet, and that is no error:

    >>> from streamgp.wire.kafka import KafkaLog
    >>> reader = KafkaLog("127.0.0.1:1").reader([Subscription("streamgp.queries")], group="g")
    >>> reader.poll(0.0), reader.stats.connected, reader.stats.behind
    ([], False, None)
    >>> reader.close()
    """

    def __init__(
        self,
        make: Callable[[], ConsumerClient],
        subscriptions: Sequence[Subscription],
        *,
        group: str | None,
        balanced: bool,
        start: Start,
    ) -> None:
        self._stats = ReaderStats()
        self._make = make
        self._subscriptions = tuple(subscriptions)
        self._group = group
        self._balanced = balanced
        self._start: Start = start
        self._clock = SystemClock()
        self._connector: Connector[ConsumerClient] = Connector(
            self._connect, dispose=lambda client: client.close(), log=log
        )
        self._client: ConsumerClient | None = None
        self._sizes: dict[str, int] = {}
        self._sought: dict[Partition, int] = {}
        self._lock = threading.Lock()
        self._poller: int | None = None
        self._closing = threading.Event()
        self._answered_s = self._looked_s = self._grown_s = self._clock.monotonic_s()
        self._troubles = 0

    @property
    def closed(self) -> bool:
        """Whether it was told to close."""
        return self._closing.is_set()

    # -- the Reader protocol

    @property
    def stats(self) -> ReaderStats:
        """As of now, for whoever asks: also while the thread that polls is at something else."""
        stats, client, now_s = self._stats, self._client, self._clock.monotonic_s()
        unanswered_s = None if client is None else client.unanswered_s
        if unanswered_s is not None:
            self._answered_s = max(self._answered_s, now_s - unanswered_s)
        stats.connected = unanswered_s is not None and unanswered_s < SILENT_S
        stats.silent_s = now_s - self._answered_s
        return stats

    def poll(self, timeout_s: float, max_records: int = 500, *, without: frozenset[str] = frozenset()) -> list[Message]:
        with self._polling():
            deadline = Deadline(self._clock, timeout_s)
            self._stats.exhausted = False
            client = self._ready(deadline.left_s())
            if client is None:
                return []
            client.pause(without)
            while True:
                messages = self._poll_once(client, min(SLICE_S, deadline.left_s()), max_records)
                if messages or self._closing.is_set() or deadline.passed():
                    self._note(client, messages, without)
                    return messages

    def seek(self, offsets: dict[Partition, int]) -> None:
        for partition, offset in offsets.items():
            if not isinstance(offset, int) or offset < 0:
                raise ValueError(f"offset of {partition} must be an integer of at least 0, not {offset!r}")
        self._sought.update(offsets)
        if self._client is not None:
            self._go_to_sought(self._client)

    def commit(self, offsets: dict[Partition, int]) -> None:
        if self._group is None or not offsets:
            return
        try:
            if self._client is None or not self.stats.connected:
                raise BrokerUnavailableError("not connected")
            if self._balanced and not set(offsets) <= set(self._client.assigned()):
                raise LogError("a partition belongs to another member now")
            self._client.commit(offsets, ANSWER_S)
        except LogError as error:
            self._stats.refused_commits += 1
            self._tell("offsets of %s were not committed: %s", self._group, error)

    def ends(self) -> dict[Partition, int]:
        client = self._ready(CONNECT_S)
        if client is None:
            raise BrokerUnavailableError("not connected")
        return client.bounds(client.assigned(), "latest", ANSWER_S)

    def close(self) -> None:
        """Within a poll of the same thread (a signal handler) the poll itself does it, at once."""
        self._closing.set()
        if self._poller == threading.get_ident():
            return
        if self._lock.acquire(timeout=CLOSE_S):
            try:
                self._shut()
            finally:
                self._lock.release()

    # -- connecting

    def _connect(self) -> ConsumerClient:
        """Runs in the connector's thread: a client with its partitions."""
        client = self._make()
        try:
            client.expect({s.topic for s in self._subscriptions})
            self._sizes = {s.topic: self._size(client, s.topic) for s in self._subscriptions}
            if self._balanced:
                client.subscribe(list(self._sizes))
            else:
                client.assign(wanted_partitions(self._subscriptions, self._sizes))
        except BaseException:
            client.close()
            raise
        return client

    def _size(self, client: ConsumerClient, topic: str) -> int:
        deadline = Deadline(self._clock, MISSING_S)
        while not deadline.passed() and not self._closing.is_set():
            size = client.size(topic)
            if size:
                return size
            self._closing.wait(0.1)
        raise missing_topic(topic)

    def _ready(self, timeout_s: float) -> ConsumerClient | None:
        """The client, or None if the broker is not there yet."""
        if self._closing.is_set():
            raise LogError("this reader is closed")
        client = self._connector.get(timeout_s)
        if client is not None and self._client is None:
            self._client = client
            self._go_to_sought(client)
        return client

    def _go_to_sought(self, client: ConsumerClient) -> None:
        assigned = client.assigned()
        further = [place for place in self._sought if place not in assigned]
        if further and not self._balanced:
            for topic, index in further:
                if index >= client.size(topic):
                    raise LogError(f"topic {topic!r} has no partition {index}, it has {client.size(topic)}")
            client.assign([*assigned, *further])
        for place, offset in self._sought.items():
            if not self._balanced or place in assigned:
                self._go(client, place, offset)
        self._sought.clear()

    def _go(self, client: ConsumerClient, place: Partition, offset: int) -> None:
        client.seek(place, offset)
        self._stats.positions[place] = offset

    # -- reading

    @contextmanager
    def _polling(self) -> Iterator[None]:
        with self._lock:
            if self._closing.is_set():
                raise LogError("this reader is closed")
            self._poller = threading.get_ident()
            try:
                yield
            finally:
                self._poller = None
                if self._closing.is_set():
                    self._shut()

    def _poll_once(self, client: ConsumerClient, timeout_s: float, max_records: int) -> list[Message]:
        try:
            try:
                return self._take(client.poll(timeout_s, max_records))
            except NoOffsetError as error:
                self._begin(client, error.partitions)
            except OffsetGoneError as error:
                self._out_of_range(client, error.places)
            except TruncatedError as error:
                self._truncated(client, error.places)
        except BrokerUnavailableError as error:
            if not self._closing.is_set():
                self._stats.errors += 1
                self._tell("trying again: %s", error)
                self._closing.wait(timeout_s)  # the client may fail at once, again and again
        return []

    def _take(self, batches: dict[Partition, list[Message]]) -> list[Message]:
        messages: list[Message] = []
        positions = self._stats.positions
        for place, batch in batches.items():
            if self._balanced and batch[0].offset < positions.get(place, 0):
                # expelled and back again, without a commit between: these were delivered before
                batch = [message for message in batch if message.offset >= positions[place]]
            if batch:
                messages += batch
                positions[place] = batch[-1].offset + 1
        return messages

    def _begin(self, client: ConsumerClient, partitions: list[Partition]) -> None:
        """Partitions of which the group has committed nothing."""
        for place, offset in client.bounds(partitions, self._start, ANSWER_S).items():
            delivered = self._stats.positions.get(place, 0) if self._balanced else 0
            self._go(client, place, max(offset, delivered))

    def _out_of_range(self, client: ConsumerClient, places: dict[Partition, int]) -> None:
        """Retention was faster than this reader, or the topic is not the one it was."""
        firsts = client.bounds(list(places), "earliest", ANSWER_S)
        goals = firsts if self._start == "earliest" else client.bounds(list(places), "latest", ANSWER_S)
        for place, position in places.items():
            lost = max(0, firsts[place] - position)
            if lost:
                self._stats.lost[place] += lost
                log.warning("%s[%d]: %d records were removed before they were read", *place, lost)
            else:
                log.warning("%s[%d]: offset %d is beyond the end; was it made anew?", *place, position)
            self._go(client, place, goals[place])

    def _truncated(self, client: ConsumerClient, places: dict[Partition, int | None]) -> None:
        """The broker lost records that were read: go on where its log parts from what is known."""
        ends = client.bounds(list(places), "latest", ANSWER_S)
        for place, parting in places.items():
            goal = ends[place] if parting is None else parting
            log.warning("%s[%d]: the broker lost records that were read; going on at %d", *place, goal)
            self._go(client, place, goal)

    def _tell(self, text: str, *args: object) -> None:
        """Warn at the 1st, 2nd, 4th, 8th ... trouble: a long outage is a few lines."""
        self._troubles += 1
        if self._troubles & (self._troubles - 1) == 0:
            log.warning(text + " (trouble no. %d)", *args, self._troubles)

    # -- looking around

    def _note(self, client: ConsumerClient, messages: list[Message], without: frozenset[str]) -> None:
        self._stats.messages += len(messages)
        now_s = self._clock.monotonic_s()
        if messages and now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        stats = self.stats
        behind = self._lag(client) if stats.connected else {}
        unknown = not behind or None in behind.values()
        stats.behind = None if unknown else sum(n or 0 for n in behind.values())
        waits = any(n != 0 for (topic, _), n in behind.items() if topic not in without)
        stats.exhausted = bool(behind) and not messages and not waits
        if not self._balanced and now_s - self._grown_s >= GROWTH_S:
            self._grown_s = now_s
            self._follow_growth(client)

    def _lag(self, client: ConsumerClient) -> dict[Partition, int | None]:
        """How many messages wait in each partition, where that is known."""
        behind: dict[Partition, int | None] = {}
        for partition in client.assigned():
            place = client.place(partition)
            if place is None:
                behind[partition] = None
                continue
            position, end = place
            # past the markers of transactions as well, which are no messages
            self._stats.positions[partition] = max(position, self._stats.positions.get(partition, 0))
            behind[partition] = max(0, end - position)
        return behind

    def _follow_growth(self, client: ConsumerClient) -> None:
        """Read partitions that were added; refuse if they moved a key, for its order is lost then."""
        sizes = {topic: client.size(topic) or size for topic, size in self._sizes.items()}
        if sizes == self._sizes:
            return
        before = set(wanted_partitions(self._subscriptions, self._sizes))
        added = [place for place in wanted_partitions(self._subscriptions, sizes) if place not in before]
        for subscription in self._subscriptions:
            moved = [index for topic, index in added if topic == subscription.topic and subscription.key is not None]
            if moved:
                raise LogError(
                    f"topic {subscription.topic!r} grew from {self._sizes[subscription.topic]} to "
                    f"{sizes[subscription.topic]} partitions and the records of {subscription.key!r} moved to "
                    f"partition {moved[0]}; stop its producers, let this reader read to the end, start it again"
                )
        if added:
            log.warning("reading %d partitions that were added", len(added))
            client.assign([*client.assigned(), *added])
            for place in added:
                self._go(client, place, 0)
        self._sizes = sizes

    def _shut(self) -> None:
        client = self._connector.close()
        self._client = None
        if client is not None:
            client.close()
