"""Writes to a Kafka broker that may be away, and knows what became of each record."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import final

from streamgp.errors import BrokerUnavailableError, FencedError, LogError, StreamGPError
from streamgp.wire.clock import Deadline, SystemClock
from streamgp.wire.connector import Connector
from streamgp.wire.delivery import Delivery
from streamgp.wire.kafka_client import ProducerClient
from streamgp.wire.log import Outgoing, Partition, WriterStats

log = logging.getLogger("streamgp.wire.kafka")

SLICE_S = 0.25  # longest single wait
CLOSE_S = 3.0  # what a close spends on records that are still on the way
CONNECT_S = 2.0  # how long a transaction waits for a client that does not stand yet
MAX_PENDING = 50_000  # unconfirmed records after which a writer waits


@final
class KafkaTransaction:
    """An open transaction; its offsets are sent after its records."""

    def __init__(self) -> None:
        self.offsets: dict[str, dict[Partition, int]] = {}

    def commit_offsets(self, group: str, offsets: dict[Partition, int]) -> None:
        self.offsets.setdefault(group, {}).update(offsets)


@final
class KafkaWriter:
    """Made by :meth:`streamgp.wire.kafka.KafkaLog.writer`; see :class:`streamgp.wire.log.Writer`.

    The producer is idempotent and waits for all replicas; the receipt of every record is looked at. Records
    written before the broker is there wait for it, each no longer than ``delivery_timeout_s``. No more than
    50,000 records wait for their confirmation: then ``write`` waits too.

    Parameters
    ----------
    make
        Makes a client, in a thread of its own; raises BrokerUnavailableError while nobody answers.
    transactional_id
        Whether the client writes in transactions, and as whom.
    delivery_timeout_s, transaction_timeout_s
        How long a record may be on its way, how long a transaction may be open.

    Examples
    --------
    >>> from streamgp.wire.kafka import KafkaLog
    >>> writer = KafkaLog("127.0.0.1:1", {"producer": {"delivery_timeout_ms": 50}}).writer()
    >>> writer.write([Outgoing("streamgp.scores", "Dublin", b"{}")])
    >>> writer.flush(5.0)
    Traceback (most recent call last):
    streamgp.errors.DeliveryError: 1 record was not confirmed: no broker answered in time
    >>> writer.close()
    """

    def __init__(
        self,
        make: Callable[[], ProducerClient],
        *,
        transactional_id: str | None,
        delivery_timeout_s: float,
        transaction_timeout_s: float,
    ) -> None:
        self._id = transactional_id
        self._clock = SystemClock()
        self._delivery = Delivery(self._clock, delivery_timeout_s)
        self._transaction_timeout_s = transaction_timeout_s
        self._lock = threading.RLock()  # the connector's thread sends what waited when the broker comes
        self._connector: Connector[ProducerClient] = Connector(
            make, dispose=lambda client: client.close(), ready=self._send_first, log=log
        )
        self._transaction: KafkaTransaction | None = None
        self.closed = False

    @property
    def stats(self) -> WriterStats:
        return self._delivery.stats

    def write(self, records: list[Outgoing]) -> None:
        self._check_open()
        if self._id is not None and self._transaction is None:
            raise LogError("a transactional writer writes within transaction()")
        with self._lock:
            self._delivery.accept(records)
        self._send_waiting(0.0)
        while self._delivery.pending > MAX_PENDING:  # ends, for each record has a deadline
            self._delivery.wait_for_oldest(SLICE_S)
            self._send_waiting(SLICE_S)
        self._delivery.sweep()

    def flush(self, timeout_s: float) -> None:
        self._flush(Deadline(self._clock, timeout_s))
        self._delivery.report()

    @contextmanager
    def transaction(self) -> Iterator[KafkaTransaction]:
        self._check_open()
        if self._id is None:
            raise LogError("this writer was made without a transactional id")
        if self._transaction is not None:
            raise LogError("a transaction is open already")
        client = self._connector.get(CONNECT_S)
        if client is None:
            raise BrokerUnavailableError("not connected")
        self.stats.connected = True
        client.begin()
        self._transaction = KafkaTransaction()
        try:
            yield self._transaction
            self._flush(Deadline(self._clock, self._transaction_timeout_s))
            self._delivery.report()  # if one record failed none is committed
            client.commit(self._transaction.offsets)
        except BaseException as error:
            self._delivery.forget("the transaction was aborted")
            try:
                client.abort()
            except FencedError as fence:  # and so the records failed
                raise fence from error
            except LogError:
                pass  # the first error is the one to tell
            raise
        finally:
            self._transaction = None

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        with suppress(StreamGPError):  # whoever wanted to know has flushed
            self._flush(Deadline(self._clock, CLOSE_S))
        if self._delivery.pending:
            log.error("%d records were not confirmed when the writer was closed", self._delivery.pending)
        client = self._connector.close()
        if client is not None:
            client.close()
        self.stats.connected = False

    def _check_open(self) -> None:
        if self.closed:
            raise LogError("this writer is closed")

    def _flush(self, deadline: Deadline) -> None:
        while self._delivery.waiting and not deadline.passed():
            self._send_waiting(min(SLICE_S, deadline.left_s()))
        self._delivery.wait(deadline)

    def _send_first(self) -> None:
        with suppress(StreamGPError):  # it comes up again where somebody can handle it
            self._send_waiting(0.0)

    def _send_waiting(self, timeout_s: float) -> None:
        waiting = self._delivery.waiting
        client = self._connector.get(timeout_s) if waiting else None
        with self._lock:
            if client is not None:
                self.stats.connected = True
                with suppress(BrokerUnavailableError):  # the records wait on
                    client.expect({one.record.topic for one in waiting})
                    while waiting:
                        self._send(client, waiting[0].record)
            self._delivery.expire("no broker answered in time")

    def _send(self, client: ProducerClient, record: Outgoing) -> None:
        try:
            self._delivery.sent(client.send(record))
        except (BrokerUnavailableError, FencedError):
            raise
        except LogError as error:
            self._delivery.fail_first(str(error))
