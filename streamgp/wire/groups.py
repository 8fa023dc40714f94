"""Consumer groups of the embedded log: committed offsets, and partitions shared out among members."""

from __future__ import annotations

from typing import final

from streamgp.wire.log import Partition


@final
class Group:
    """What the group has committed, and who of its members reads which partition.

    ``generation`` grows with every change of members; a member that has not seen the newest one may not commit.

    Examples
    --------
    >>> group = Group()
    >>> group.join(1, [("t", 0), ("t", 1)])
    >>> group.join(2, [("t", 0), ("t", 1)])
    >>> group.assigned(1), group.assigned(2)
    ((('t', 0),), (('t', 1),))
    >>> group.leave(1)
    >>> group.assigned(2)
    (('t', 0), ('t', 1))
    """

    def __init__(self) -> None:
        self.committed: dict[Partition, int] = {}
        self.generation = 0
        self._members: dict[int, frozenset[Partition]] = {}
        self._assigned: dict[int, tuple[Partition, ...]] = {}

    @property
    def empty(self) -> bool:
        """Whether nobody shares partitions out in this group."""
        return not self._members

    def join(self, member: int, partitions: list[Partition]) -> None:
        """Add a member that wants its share of ``partitions``; the group rebalances."""
        self._members[member] = frozenset(partitions)
        self._rebalance()

    def leave(self, member: int) -> None:
        """Remove a member; its partitions go to the others."""
        if self._members.pop(member, None) is not None:
            self._rebalance()

    def assigned(self, member: int) -> tuple[Partition, ...]:
        """The partitions that this member reads now."""
        return self._assigned.get(member, ())

    def _rebalance(self) -> None:
        self.generation += 1
        shares: dict[int, list[Partition]] = {member: [] for member in self._members}
        for partition in sorted(frozenset().union(*self._members.values())):
            wanting = [m for m, wanted in self._members.items() if partition in wanted]
            # the least loaded of those who asked for it; at equal load the one who joined first
            chosen = min(wanting, key=lambda m: len(shares[m]))
            shares[chosen].append(partition)
        self._assigned = {member: tuple(share) for member, share in shares.items()}
