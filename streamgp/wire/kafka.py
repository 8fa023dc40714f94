"""Kafka as a log, over kafka-python: the only file that imports it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, final

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors

from streamgp.errors import BrokerUnavailableError, FencedError, LogError, SettingsError
from streamgp.wire.delivery import Receipt
from streamgp.wire.kafka_client import NoOffsetError, OffsetGoneError, TruncatedError
from streamgp.wire.kafka_mends import (
    ask_to_abort,
    finish_rebalance,
    give_out_parked,
    learn_of,
    read_strange_records,
    unanswered_s,
)
from streamgp.wire.kafka_reach import diagnose, reachable
from streamgp.wire.kafka_reader import ANSWER_S, KafkaReader, missing_topic
from streamgp.wire.kafka_settings import KafkaSettings, Kind, kafka_settings
from streamgp.wire.kafka_writer import KafkaWriter
from streamgp.wire.log import Message, Outgoing, Partition, Start, Subscription, TopicSpec

__all__ = ["KNOWN", "KafkaLog", "KafkaReader", "KafkaWriter"]

_CLIENTS: dict[Kind, Any] = {"consumer": KafkaConsumer, "producer": KafkaProducer, "admin": KafkaAdminClient}
#: every setting that kafka-python knows, of each kind of client, with its default
KNOWN: dict[Kind, Mapping[str, Any]] = {kind: client.DEFAULT_CONFIG for kind, client in _CLIENTS.items()}

# kafka-python tells of every attempt that is refused, several a second as long as an outage lasts; what matters of
# it reaches our own loggers, a few lines in all. A level that somebody has set stays.
if logging.getLogger("kafka").level == logging.NOTSET:
    logging.getLogger("kafka").setLevel(logging.CRITICAL)

_DENIED = (
    kafka_errors.AuthorizationError,
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.UnsupportedSaslMechanismError,
    kafka_errors.UnsupportedVersionError,
)
_FENCED = (kafka_errors.ProducerFencedError, kafka_errors.InvalidProducerEpochError)
_ABSENT = (kafka_errors.UnknownTopicOrPartitionError, kafka_errors.LeaderNotAvailableError)
_WRONG = (kafka_errors.KafkaConfigurationError, ValueError, TypeError, RuntimeError)


class _ClosedAtLoginError(kafka_errors.SaslAuthenticationFailedError):  # type: ignore[misc]  # kafka-python has no types
    """The broker closed a connection after it had told its version and before the login was accepted."""


@final
class KafkaLog:
    """Topics of a Kafka broker.

    Parameters
    ----------
    broker
        ``host:port``, several separated by commas. Nothing is connected before it is needed.
    settings
        Any of kafka-python's settings (TLS, SASL, compression, timeouts): plain keys go to every client that
        knows them, the tables ``consumer``, ``producer`` and ``admin`` to that client alone.

    Raises
    ------
    SettingsError
        If a setting is unknown, or broker is no address.

    Examples
    --------
    >>> KafkaLog("localhost:9092", {"consumer": {"groupid": "g"}})
    Traceback (most recent call last):
    streamgp.errors.SettingsError: kafka.consumer: unknown setting 'groupid', did you mean 'group_id'?
    """

    def __init__(self, broker: str, settings: Mapping[str, Any] | None = None) -> None:
        self.settings = kafka_settings(broker, settings or {}, KNOWN)
        self._made: list[KafkaReader | KafkaWriter] = []

    def reader(
        self,
        subscriptions: Sequence[Subscription],
        *,
        group: str | None = None,
        balanced: bool = False,
        start: Start = "earliest",
    ) -> KafkaReader:
        if balanced and group is None:
            raise ValueError("balanced reading needs a group")
        group = group and self.settings.consumer.get("group_id", group)
        reader = KafkaReader(
            lambda: _Consumer(self.settings, group),
            subscriptions,
            group=group,
            balanced=balanced,
            start=self.settings.start or start,
        )
        self._keep(reader)
        return reader

    def writer(self, *, transactional_id: str | None = None) -> KafkaWriter:
        config = {**KafkaProducer.DEFAULT_CONFIG, **self.settings.of("producer")}
        writer = KafkaWriter(
            lambda: _Producer(self.settings, transactional_id),
            transactional_id=transactional_id,
            delivery_timeout_s=config["delivery_timeout_ms"] / 1000,
            transaction_timeout_s=config["transaction_timeout_ms"] / 1000,
        )
        self._keep(writer)
        return writer

    def create_topics(self, specs: Iterable[TopicSpec]) -> list[str]:
        wanted = {spec.name: _topic_request(spec) for spec in specs}
        with self._admin() as admin:
            there = set(admin.list_topics())
            new = {name: request for name, request in wanted.items() if name not in there}
            if not new:
                return []
            told = admin.create_topics(new, raise_errors=False, timeout_ms=30_000)["topics"]
            failed = {t["name"]: kafka_errors.for_code(t["error_code"]) for t in told if t["error_code"]}
            for name, kind in failed.items():
                if kind is not kafka_errors.TopicAlreadyExistsError:
                    reason = next(t.get("error_message") for t in told if t["name"] == name)
                    raise LogError(f"topic {name!r} cannot be made: {kind.__name__}: {reason}")
            admin.wait_for_topics(list(new), timeout_ms=30_000)
            return [name for name in new if name not in failed]

    def topics(self) -> dict[str, int]:
        with self._admin() as admin:
            return {topic["name"]: len(topic["partitions"]) for topic in admin.describe_topics()}

    def topic_id(self, topic: str) -> str:
        return self.topic_ids([topic])[topic]

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        with self._admin() as admin:
            told = admin.describe_topics(sorted(set(topics)))
        for topic in told:
            if topic["error_code"]:
                raise missing_topic(topic["name"])
        return {topic["name"]: str(topic["topic_id"]) for topic in told}

    def delete_records(self, offsets: dict[Partition, int]) -> None:
        with self._admin() as admin:
            admin.delete_records({TopicPartition(*place): offset for place, offset in offsets.items()})

    def close(self) -> None:
        """Close those readers and writers that are still open."""
        made, self._made = self._made, []
        for client in made:
            client.close()

    def _keep(self, client: KafkaReader | KafkaWriter) -> None:
        self._made = [kept for kept in self._made if not kept.closed] + [client]

    @contextmanager
    def _admin(self) -> Iterator[Any]:
        admin = _build("admin", self.settings)
        try:
            with _translated(self.settings):
                yield admin
        finally:
            admin.close()


@final
class _Consumer:
    """kafka-python's consumer as a :class:`streamgp.wire.kafka_client.ConsumerClient`."""

    def __init__(self, settings: KafkaSettings, group: str | None) -> None:
        self._settings = settings
        self._client = _build("consumer", settings, auto_offset_reset="none", group_id=group)
        read_strange_records(self._client)

    def poll(self, timeout_s: float, max_records: int) -> dict[Partition, list[Message]]:
        give_out_parked(self._client)
        finish_rebalance(self._client)
        try:
            batches = self._client.poll(timeout_ms=timeout_s * 1000, max_records=max_records)
        except kafka_errors.NoOffsetForPartitionError as error:
            raise NoOffsetError(tuple(tp) for tp in error.args[0]) from error
        except kafka_errors.OffsetOutOfRangeError as error:
            raise OffsetGoneError({tuple(tp): offset for tp, offset in error.args[0].items()}) from error
        except kafka_errors.LogTruncationError as error:
            places = {tuple(tp): at and at.offset for tp, at in error.divergent_offsets.items()}
            raise TruncatedError(places) from error
        except (kafka_errors.KafkaError, OSError) as error:
            raise _ours(error, self._settings) from error
        return {tuple(tp): [_message(record) for record in records] for tp, records in batches.items()}

    def assign(self, partitions: list[Partition]) -> None:
        self._client.assign([TopicPartition(*place) for place in partitions])

    def subscribe(self, topics: list[str]) -> None:
        self._client.subscribe(topics)

    def assigned(self) -> list[Partition]:
        return [(tp.topic, tp.partition) for tp in self._client.assignment() or ()]

    def expect(self, topics: set[str]) -> None:
        for topic in sorted(topics):
            with suppress(TypeError, ValueError):  # the name of no topic: its size tells
                self._client._cluster.add_topic(topic)

    def size(self, topic: str) -> int:
        """Asks for this topic alone; kafka-python's own way fetches the metadata of every topic there is."""
        cluster = self._client._cluster
        with _translated(self._settings):
            if cluster.partitions_for_topic(topic) is None:
                cluster.add_topic(topic)
                with suppress(*_ABSENT):
                    self._client._net.run(self._client._manager.wait_for, cluster.request_update(), ANSWER_S * 1000)
            return len(cluster.partitions_for_topic(topic) or ())

    def seek(self, partition: Partition, offset: int) -> None:
        with suppress(ValueError):  # taken away by a rebalance a moment ago
            self._client.seek(TopicPartition(*partition), offset)

    def pause(self, topics: frozenset[str]) -> None:
        paused = self._client.paused()
        if topics or paused:
            wanted = {tp for tp in self._client.assignment() or () if tp.topic in topics}
            self._client.resume(*(paused - wanted))
            self._client.pause(*(wanted - paused))

    def commit(self, offsets: Mapping[Partition, int], timeout_s: float) -> None:
        with _translated(self._settings):
            self._client.commit(_offsets(offsets), timeout_ms=timeout_s * 1000)

    def bounds(self, partitions: list[Partition], which: Start, timeout_s: float) -> dict[Partition, int]:
        ask: Callable[..., Any] = self._client.beginning_offsets if which == "earliest" else self._client.end_offsets
        with _translated(self._settings):
            found = ask([TopicPartition(*place) for place in partitions], timeout_ms=timeout_s * 1000)
        return {(tp.topic, tp.partition): offset for tp, offset in found.items()}

    def place(self, partition: Partition) -> tuple[int, int] | None:
        tp = TopicPartition(*partition)
        try:
            position, end = self._client.position(tp, timeout_ms=0), self._client.highwater(tp)
        except kafka_errors.KafkaError:
            return None
        return None if position is None or end is None else (position, end)

    @property
    def unanswered_s(self) -> float | None:
        return unanswered_s(self._client)

    def close(self) -> None:
        with suppress(kafka_errors.KafkaError, RuntimeError):
            self._client.close(autocommit=False, timeout_ms=2_000)


@final
class _Producer:
    """kafka-python's producer as a :class:`streamgp.wire.kafka_client.ProducerClient`."""

    def __init__(self, settings: KafkaSettings, transactional_id: str | None) -> None:
        self._settings = settings
        self._topics: set[str] = set()
        self._abort: Any = None  # asked for, and not answered
        self._client = _build("producer", settings, transactional_id=transactional_id)
        if transactional_id is not None:
            try:
                with _translated(settings):
                    self._client.init_transactions()
            except BaseException:
                self.close()
                raise

    def expect(self, topics: set[str]) -> None:
        new = topics - self._topics
        if len(new) > 1:
            learn_of(self._client, new)

    def send(self, record: Outgoing) -> Receipt:
        if record.topic not in self._topics:
            self._find(record.topic)
        try:
            receipt: Receipt = self._client.send(
                record.topic,
                value=record.value,
                key=record.key.encode(),
                headers=list(record.headers),
                partition=record.partition,
            )
        except (kafka_errors.KafkaError, ValueError, TypeError) as error:
            raise _ours(error, self._settings, final="not sent") from error
        return receipt

    def begin(self) -> None:
        self._await_abort()
        with _translated(self._settings, final="no transaction"):
            self._client.begin_transaction()

    def commit(self, offsets: Mapping[str, Mapping[Partition, int]]) -> None:
        with _translated(self._settings, final="not committed"):
            for group, places in offsets.items():
                self._client.send_offsets_to_transaction(_offsets(places), group)
            self._client.commit_transaction()

    def abort(self) -> None:
        with _translated(self._settings, final="not aborted"):
            self._abort = ask_to_abort(self._client)
        self._await_abort()

    def close(self) -> None:
        try:
            self._client.close(timeout=1.0)
        except (kafka_errors.KafkaError, RuntimeError):
            self._client._sender.force_close()  # close() gives up before that if records are left

    def _await_abort(self) -> None:
        """The next transaction begins after it; who has been told so far tries again, or makes a new client."""
        if self._abort is not None:
            with _translated(self._settings, final="not aborted"):
                if not self._abort.wait(self._client.config["max_block_ms"]):
                    raise BrokerUnavailableError(diagnose(self._settings))
                self._abort = None

    def _find(self, topic: str) -> None:
        """Learn of a topic before the first record to it, and tell a missing one from a missing broker."""
        with _translated(self._settings):
            try:
                self._client.partitions_for(topic)
            except kafka_errors.KafkaTimeoutError as error:
                if reachable(self._settings):
                    raise missing_topic(topic) from error
                raise
        self._topics.add(topic)


def _build(kind: Kind, settings: KafkaSettings, **more: Any) -> Any:
    """A client; if it cannot be made nothing of it is left behind."""
    if not reachable(settings):  # kafka-python would try for long, and leave a socket behind at each try
        raise BrokerUnavailableError(diagnose(settings))
    made: list[Any] = []
    failures: list[Exception] = []

    def network(**configs: Any) -> Any:
        made.append(_CLIENTS[kind].DEFAULT_CONFIG["kafka_client"](**configs))
        _overhear(made[-1], failures)
        return made[-1]

    try:
        client = _CLIENTS[kind](**{**settings.of(kind), **more}, kafka_client=network)
    except BaseException as error:
        for left in made:
            left.close()
        denied = [failure for failure in failures if isinstance(failure, _DENIED)]
        if denied and (len(denied) >= 3 or not isinstance(denied[-1], _ClosedAtLoginError)):
            raise _ours(denied[-1], settings) from error
        if isinstance(error, _WRONG):
            raise SettingsError(f"kafka-python refuses its settings: {error}") from error
        if failures:
            raise BrokerUnavailableError(f"{diagnose(settings)} ({failures[-1]})") from error
        if isinstance(error, kafka_errors.KafkaError):
            raise _ours(error, settings) from error
        raise
    for one in made:
        del one._manager.get_connection
    return client


def _overhear(network: Any, failures: list[Exception]) -> None:
    """Learn why a connection cannot be set up: kafka-python logs it, tries on, and reports a timeout in the end."""
    connect = network._manager.get_connection

    def get_connection(*args: Any, **options: Any) -> Any:
        connection = connect(*args, **options)

        def failed(error: Exception) -> None:
            login = network._manager.config["sasl_mechanism"] and connection.broker_version_data
            if login and isinstance(error, kafka_errors.KafkaConnectionError):
                # over TLS the broker's refusal and the end of the connection arrive together, and only the end is seen
                error = _ClosedAtLoginError("the connection was closed at the login; are user and password right?")
            failures.append(error)

        connection.init_future.add_errback(failed)
        return connection

    network._manager.get_connection = get_connection


@contextmanager
def _translated(settings: KafkaSettings, *, final: str | None = None) -> Iterator[None]:
    """Errors of kafka-python become ours."""
    try:
        yield
    except kafka_errors.KafkaError as error:
        raise _ours(error, settings, final=final) from error


def _ours(error: Exception, settings: KafkaSettings, *, final: str | None = None) -> LogError:
    """An error of kafka-python in our tree: BrokerUnavailableError if trying again may help.

    With ``final`` those that kafka-python does not call retriable are a plain LogError that begins with it.
    """
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, _FENCED) or any(kind.__name__ in text for kind in _FENCED):  # later errors quote the first
        return FencedError(
            "another process writes with the same transactional id, or this one stood still for longer than the broker "
            f"keeps a transaction open; this one must stop ({text})"
        )
    if isinstance(error, _DENIED):
        return LogError(f"the broker denies access: {text}")
    if isinstance(error, kafka_errors.UnsupportedCodecError):
        return LogError(f"records are compressed in a way that is not known here: {error}")
    if isinstance(error, kafka_errors.CorruptRecordError):
        return BrokerUnavailableError(f"records at {settings.broker} cannot be read: {error}")
    if isinstance(error, kafka_errors.KafkaTimeoutError | kafka_errors.KafkaConnectionError):
        return BrokerUnavailableError(diagnose(settings))
    if final is None or isinstance(error, kafka_errors.RetriableError):
        return BrokerUnavailableError(f"the broker at {settings.broker} refuses for now: {text}")
    return LogError(f"{final}: {text}")


def _topic_request(spec: TopicSpec) -> dict[str, Any]:
    forever = "-1" if spec.retention_ms is None else str(spec.retention_ms)
    policy = {"cleanup.policy": "compact"} if spec.compacted else {"retention.ms": forever}
    return {"num_partitions": spec.partitions, "replication_factor": -1, "configs": {**policy, **spec.config}}


def _offsets(offsets: Mapping[Partition, int]) -> dict[Any, Any]:
    return {TopicPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()}


def _message(record: Any) -> Message:
    return Message(
        record.topic,
        record.partition,
        record.offset,
        None if record.key is None else record.key.decode("utf-8", "replace"),
        record.value,
        record.timestamp,
        tuple((name, value or b"") for name, value in record.headers) if record.headers else (),
    )
