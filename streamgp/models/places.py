"""The rows that a model has seen, each once: how often, with what mean, and until when.

Observations at the very same row are one place with a count: for a Gaussian process with independent noise the
mean of c of them is one observation with the noise variance divided by c, exactly. So a thousand readings of one
row cost one neighbour, and never a singular matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from streamgp.gp.gaussian import Array

Ints = NDArray[np.int64]
_FIRST = 64


class Added(NamedTuple):
    """Where an observation went: its slot, whether the place is new, and the slot and serial given up for it.

    ``gone`` is -1 where nothing was given up; it may be the same slot, used again.
    """

    slot: int
    new: bool
    gone: int
    gone_serial: int


@final
class Places:
    """Distinct rows in slots that are used again once their last observation is forgotten.

    Parameters
    ----------
    d, q
        Columns of a row, and of a target.
    max_points
        Observations kept (repeats counted); when one more comes, the oldest leaves, exactly as if it had
        never been. None keeps all.

    Attributes
    ----------
    rows : (capacity, d)
    count : (capacity,)
        Observations there now; 0 marks a free slot.
    mean : (capacity, q)
        Mean of their targets.
    within : (capacity,)
        Sum of squared deviations from that mean, over all outputs.
    serial : (capacity,)
        Rank in which the place came; -1 marks a free slot. A slot that is used again has another serial.

    Examples
    --------
    >>> import numpy as np
    >>> places = Places(2, 1)
    >>> for y in (1.0, 3.0):
    ...     added = places.add(np.array([0.5, 0.5]), np.array([y]))
    >>> added.slot, added.new, places.count[0], places.mean[0]
    (0, False, np.float64(2.0), array([2.]))
    """

    def __init__(self, d: int, q: int, max_points: int | None = None) -> None:
        self.max_points = max_points
        self.rows: Array = np.zeros((_FIRST, d))
        self.count: Array = np.zeros(_FIRST)
        self.mean: Array = np.zeros((_FIRST, q))
        self.within: Array = np.zeros(_FIRST)
        self.serial: Ints = np.full(_FIRST, -1, dtype=np.int64)
        self.next_serial = 0
        self.learned = 0
        self._slot_of: dict[bytes, int] = {}
        self._free: list[int] = []
        self._used = 0
        # what to forget, and when: slots and targets of the observations kept, a ring once it is full
        self._ring_slot: Ints = np.zeros(0, dtype=np.int64)
        self._ring_y: Array = np.zeros((0, q))

    def __len__(self) -> int:
        return len(self._slot_of)

    @property
    def d(self) -> int:
        return int(self.rows.shape[1])

    @property
    def q(self) -> int:
        return int(self.mean.shape[1])

    @property
    def kept(self) -> int:
        """Observations behind the places now."""
        return self.learned if self.max_points is None else min(self.learned, self.max_points)

    def find(self, z: Array) -> int:
        """Slot of a row, or -1."""
        return self._slot_of.get((z + 0.0).tobytes(), -1)

    def add(self, z: Array, y: Array) -> Added:
        """Take in one observation, z (d,) and y (q,)."""
        gone, gone_serial = -1, -1
        if self.max_points is not None and self.learned >= self.max_points:
            gone, gone_serial = self._forget()
        key = (z + 0.0).tobytes()  # + 0.0 makes one zero of the two
        slot = self._slot_of.get(key, -1)
        new = slot < 0
        if new:
            slot = self._take_slot()
            self._slot_of[key] = slot
            self.rows[slot] = z + 0.0
            self.count[slot], self.mean[slot], self.within[slot] = 1.0, y, 0.0
            self.serial[slot] = self.next_serial
            self.next_serial += 1
        else:
            self.count[slot] += 1.0
            before = y - self.mean[slot]
            self.mean[slot] += before / self.count[slot]
            self.within[slot] += float(before @ (y - self.mean[slot]))
        if self.max_points is not None:
            self._remember(slot, y)
        self.learned += 1
        return Added(slot, new, gone, gone_serial)

    def _take_slot(self) -> int:
        if self._free:
            return self._free.pop()
        if self._used == len(self.count):
            self._grow(2 * self._used)
        self._used += 1
        return self._used - 1

    def _grow(self, capacity: int) -> None:
        def longer(a: NDArray[np.generic], fill: int) -> NDArray[np.generic]:
            out = np.full((capacity, *a.shape[1:]), fill, dtype=a.dtype)
            out[: len(a)] = a
            return out

        self.rows = longer(self.rows, 0).astype(np.float64, copy=False)
        self.count = longer(self.count, 0).astype(np.float64, copy=False)
        self.mean = longer(self.mean, 0).astype(np.float64, copy=False)
        self.within = longer(self.within, 0).astype(np.float64, copy=False)
        self.serial = longer(self.serial, -1).astype(np.int64, copy=False)

    def _remember(self, slot: int, y: Array) -> None:
        assert self.max_points is not None
        at = self.learned % self.max_points
        if at >= len(self._ring_slot):
            size = min(self.max_points, max(_FIRST, 2 * len(self._ring_slot)))
            extra = size - len(self._ring_slot)
            self._ring_slot = np.concatenate([self._ring_slot, np.zeros(extra, dtype=np.int64)])
            self._ring_y = np.concatenate([self._ring_y, np.zeros((extra, self.q))])
        self._ring_slot[at] = slot
        self._ring_y[at] = y

    def _forget(self) -> tuple[int, int]:
        """Take back the oldest observation; slot and serial of the place it empties, or -1."""
        assert self.max_points is not None
        at = self.learned % self.max_points
        slot, y = int(self._ring_slot[at]), self._ring_y[at]
        left = self.count[slot] - 1.0
        if left > 0:
            after = y - self.mean[slot]
            self.mean[slot] -= after / left
            self.within[slot] = max(0.0, self.within[slot] - float(after @ (y - self.mean[slot])))
            if left == 1.0:
                self.within[slot] = 0.0
            self.count[slot] = left
            return -1, -1
        del self._slot_of[self.rows[slot].tobytes()]
        serial = int(self.serial[slot])
        self.count[slot], self.serial[slot] = 0.0, -1
        self._free.append(slot)
        return slot, serial

    def live(self) -> Ints:
        """Slots in use, in the order in which their places came."""
        slots = np.flatnonzero(self.serial[: self._used] >= 0)
        return slots[np.argsort(self.serial[slots], kind="stable")]

    def state(self) -> dict[str, object]:
        """All of it, as numbers and arrays."""
        used = self._used
        ring = min(self.learned, len(self._ring_slot))
        return {
            "rows": self.rows[:used].copy(),
            "count": self.count[:used].copy(),
            "mean": self.mean[:used].copy(),
            "within": self.within[:used].copy(),
            "serial": self.serial[:used].copy(),
            "free": np.array(self._free, dtype=np.int64),
            "ring_slot": self._ring_slot[:ring].copy(),
            "ring_y": self._ring_y[:ring].copy(),
            "next_serial": self.next_serial,
            "learned": self.learned,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], max_points: int | None) -> Places:
        """The twin that ``state`` describes; KeyError, TypeError or ValueError if it is damaged."""
        rows, mean = np.asarray(state["rows"], dtype=np.float64), np.asarray(state["mean"], dtype=np.float64)
        used = len(rows)
        new = cls(rows.shape[1], mean.shape[1], max_points)
        if used > _FIRST:
            new._grow(used)
        new.rows[:used], new.mean[:used] = rows, mean
        new.count[:used], new.within[:used] = state["count"], state["within"]
        new.serial[:used] = state["serial"]
        new._used, new._free = used, [int(s) for s in state["free"]]
        new._ring_slot = np.array(state["ring_slot"], dtype=np.int64)
        new._ring_y = np.array(state["ring_y"], dtype=np.float64).reshape(-1, new.q)
        new.next_serial, new.learned = int(state["next_serial"]), int(state["learned"])
        new._slot_of = {new.rows[s].tobytes(): int(s) for s in new.live()}
        return new
