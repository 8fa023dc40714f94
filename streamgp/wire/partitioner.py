"""The partition of a key, as every Kafka client computes it, so that the embedded log agrees with a broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from streamgp.wire.log import Partition, Subscription

_SEED, _M, _MASK = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """MurmurHash2 (A. Appleby), 32 bits, with the seed that Kafka's default partitioner uses.

    Examples
    --------
    >>> hex(murmur2(b"21"))
    '0xc5f2f8ec'
    """
    h = _SEED ^ len(data)
    whole = len(data) & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * _M & _MASK
        h = (h * _M & _MASK) ^ ((k ^ k >> 24) * _M & _MASK)
    if whole < len(data):
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


@lru_cache(maxsize=65_536)
def partition_of(key: str, partitions: int) -> int:
    """The partition of ``key`` in a topic of so many partitions.

    Examples
    --------
    >>> partition_of("Malin Head", 12) == partition_of("Malin Head", 12)
    True
    """
    return (murmur2(key.encode()) & 0x7FFFFFFF) % partitions


def wanted_partitions(subscriptions: Sequence[Subscription], sizes: Mapping[str, int]) -> list[Partition]:
    """The partitions that the subscriptions ask for, of topics of these sizes; each once, in order.

    Examples
    --------
    >>> wanted_partitions([Subscription("a"), Subscription("b", key="Dublin")], {"a": 2, "b": 3})
    [('a', 0), ('a', 1), ('b', 1)]
    """
    wanted: dict[Partition, None] = {}
    for subscription in subscriptions:
        size = sizes[subscription.topic]
        chosen = range(size) if subscription.key is None else [partition_of(subscription.key, size)]
        wanted.update(((subscription.topic, index), None) for index in chosen)
    return list(wanted)
