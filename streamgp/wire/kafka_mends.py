"""Where kafka-python 3.0.12 stands still for ever, and how it is helped on; looks into its private parts."""

from __future__ import annotations

from typing import Any, final

__all__ = ["finish_rebalance", "give_out_parked"]


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
