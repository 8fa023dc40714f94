"""Where kafka-python 3.0.12 stands still or does not tell, and how it is helped on; looks into its private parts."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import cache
from typing import Any, final

__all__ = [
    "ask_to_abort",
    "finish_rebalance",
    "give_out_parked",
    "learn_of",
    "read_strange_records",
    "unanswered_s",
]


def give_out_parked(consumer: Any) -> None:
    """Let a consumer give out what it set aside of partitions that were paused with records fetched.

    It looks there only while nothing is in line, and takes an emptied batch of another partition for something in
    line: those partitions would then never be read again.
    """
    fetcher = consumer._fetcher
    if fetcher._paused_partition_records and not fetcher._next_partition_records:
        fetcher._next_partition_records = None


def finish_rebalance(consumer: Any) -> None:
    """Let a consumer finish a rebalance that outlasted the poll in which it began.

    At each poll it asks anew whether a rebalance is needed, and asks the group to be joined again if the attempt on its
    way has been answered since the last poll. A rebalance that began because partitions were added is not needed any
    more as soon as this member, as the leader, has dealt them out: its answer would never be looked at, the heartbeat
    stays off, and neither this member nor any other of the group gets further. With short polls the answer always comes
    between two of them, and the group would be joined again and again.
    """
    coordinator = consumer._coordinator
    if coordinator.rejoining:
        coordinator.request_rejoin()
        if coordinator._join_task is not None and not isinstance(coordinator._join_task, _Attempt):
            coordinator._join_task = _Attempt(coordinator._join_task)


def ask_to_abort(producer: Any) -> Any:
    """Abort a producer's transaction without waiting for the broker: what is returned has ``wait(timeout_ms)``.

    kafka-python's own way waits for as long as nobody answers.
    """
    asked = producer._transaction_manager.begin_abort()
    producer._sender.wakeup()
    return asked


def unanswered_s(consumer: Any) -> float | None:
    """How long the brokers have left a request without a byte of an answer; 0 if none waits, None without a connection.

    kafka-python calls a connection open until a request has waited for ``request_timeout_ms``, which is 30 s. A fetch
    is answered within ``fetch_max_wait_ms`` whether or not there is anything; that time is the broker's. While a group
    is joined the broker may keep silent for as long as its members take.

    May be called from any thread: the consumer's own reads answers whether or not somebody polls.
    """
    now_s, ages = time.monotonic(), []
    for connection in list(consumer._manager._conns.values()):
        transport = connection.transport
        if not connection.connected or transport is None:
            continue
        age_s = 0.0
        with suppress(IndexError):  # answered a moment ago
            age_s = now_s - max(connection.in_flight_requests[0][2], transport.last_read)
        ages.append(age_s - consumer.config["fetch_max_wait_ms"] / 1000)
    if not ages:
        return None
    return 0.0 if consumer._coordinator.rejoining else max(0.0, *ages)


@final
class _Attempt:
    """An attempt to join a group that is looked at once more, though it has been answered."""

    is_done = False

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.add_callback = answer.add_callback
        self.add_errback = answer.add_errback

    def __await__(self) -> Any:
        return self._answer.__await__()


def learn_of(producer: Any, topics: set[str]) -> None:
    """Let a producer ask for these topics in one request: for one at a time it waits a tenth of a second each.

    A name that cannot be one of a topic is told when a record is sent there.
    """
    for topic in sorted(topics):
        with suppress(TypeError, ValueError):
            producer._sender.add_topic(topic)


def read_strange_records(consumer: Any) -> None:
    """Let a consumer read records whose header names are no UTF-8, and let no batch hold it for ever.

    The broker takes any bytes as a name; what is no text in them becomes U+FFFD. A batch that cannot be read (damaged,
    or compressed in an unknown way) is an error of one poll and is fetched again for the next: it would be asked for
    its records again and again within one poll, which never came back.
    """
    fetcher = consumer._fetcher
    kind = fetcher.PartitionRecords

    class PartitionRecords(kind):  # type: ignore[misc,valid-type]  # kafka-python has no types
        def take(self, n: int | None = None) -> Any:
            try:
                return super().take(n)
            except Exception:
                self.drain()
                raise

        def _unpack_records(self, tp: Any, records: Any, *deserializers: Any) -> Any:
            return super()._unpack_records(tp, _Batches(records), *deserializers)

    fetcher.PartitionRecords = PartitionRecords


@final
class _Batches:
    """The batches of records that were fetched, each lenient."""

    def __init__(self, records: Any) -> None:
        self._records = records

    def next_batch(self) -> Any:
        batch = self._records.next_batch()
        kind: Any = type(batch)
        if hasattr(kind, "_read_msg"):
            batch.__class__ = _lenient(kind)
        return batch


@cache
def _lenient(kind: Any) -> Any:
    def read(batch: Any) -> Any:
        try:
            return kind._read_msg(batch)
        except UnicodeDecodeError:
            batch._buffer = _Bytes(batch._buffer)
            return kind._read_msg(batch)

    return type("Batch", (kind,), {"__slots__": (), "_read_msg": read})


@final
class _Bytes(bytes):
    """Bytes whose pieces are text in any case."""

    def __getitem__(self, place: Any) -> Any:
        piece = super().__getitem__(place)
        return _Bytes(piece) if isinstance(place, slice) else piece

    def decode(self, encoding: str = "utf-8", errors: str = "replace") -> str:
        return super().decode(encoding, errors)
