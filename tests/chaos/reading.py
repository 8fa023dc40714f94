"""What stands in a topic, and what should."""

from __future__ import annotations

from collections import Counter
from typing import Any

from streamgp.wire.codec import decode
from streamgp.wire.log import Reader
from streamgp.wire.records import Record


def read(reader: Reader, kind: type[Record]) -> list[Any]:
    """All that a reader has not read yet."""
    found = []
    while (messages := reader.poll(1.0, 5_000)) or reader.stats.behind != 0:
        found += [decode(m.value, kind) for m in messages]
    return found


def same(what: str, got: Counter[Any], wanted: Counter[Any]) -> None:
    """Each record that is wanted, once, and no other."""
    missing, more = wanted - got, got - wanted
    some = [*missing][:3], [*more][:3]
    assert got == wanted, f"{what}: {missing.total()} missing, {more.total()} too many, such as {some}"
