"""The partitioner agrees with Kafka's own."""

from __future__ import annotations

import pytest
from kafka.partitioner.default import murmur2 as client_murmur2

from streamgp.wire.partitioner import murmur2, partition_of


@pytest.mark.parametrize(
    ("data", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_known_values_of_the_java_client(data: bytes, signed: int) -> None:
    assert murmur2(data) == signed & 0xFFFFFFFF


def test_every_length_agrees_with_the_python_client() -> None:
    data = bytes((i * 37 + 11) % 256 for i in range(70))
    assert all(murmur2(data[:n]) == client_murmur2(data[:n]) for n in range(71))


def test_keys_spread_over_all_partitions() -> None:
    assert {partition_of(f"query-{i}", 12) for i in range(300)} == set(range(12))
