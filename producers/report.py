"""What a replay shows: progress while it runs, and in the end a summary, for people or for programs."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from producers.sending import Outcome

#: seconds between two lines of progress where there is no terminal
_EVERY_S = 10.0


@contextmanager
def progress(total: int, *, label: str) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, else a plain line every ten seconds; yields what is told of each step."""
    console = Console(stderr=True)
    if console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(label, total=total)
            yield lambda count: bar.update(task, advance=count)
        return
    done, told = 0, time.monotonic()

    def plain(count: int) -> None:
        nonlocal done, told
        done += count
        if time.monotonic() - told >= _EVERY_S:
            told = time.monotonic()
            print(f"{label}: {done} of {total}", file=sys.stderr, flush=True)

    yield plain


def as_object(outcome: Outcome, *, skipped: Counter[str], missing: Counter[str], dead_letters: int) -> dict[str, Any]:
    """The summary for programs."""
    return {
        "sent": outcome.sent,
        "acknowledged": outcome.acknowledged,
        "failed": outcome.failed,
        "skipped": dict(skipped),
        "missing": dict(missing),
        "dead_letters": dead_letters,
        "reasons": dict(outcome.reasons),
        "left": len(outcome.left),
        "stopped": outcome.stopped,
    }


def as_text(outcome: Outcome, *, skipped: Counter[str], missing: Counter[str], dead_letters: int) -> str:
    """The summary for people.

    Examples
    --------
    >>> outcome = Outcome(sent=100, acknowledged=0, failed=100, reasons=Counter({"no broker": 100}))
    >>> print(as_text(outcome, skipped=Counter(missing=3, sentinel=1), missing=Counter(pm25=3), dead_letters=0))
    sent 100, acknowledged 0, failed 100, skipped 4 (missing 3, sentinel 1)
      failed: no broker (100)
      missing: pm25 3
    """
    skips = f" ({_counts(skipped)})" if skipped else ""
    lines = [
        f"sent {outcome.sent}, acknowledged {outcome.acknowledged}, failed {outcome.failed}, "
        f"skipped {skipped.total()}{skips}"
    ]
    lines += [f"  failed: {reason} ({count})" for reason, count in outcome.reasons.most_common(5)]
    if missing:
        lines.append(f"  missing: {_counts(missing)}")
    if dead_letters:
        lines.append(f"  dead letters: {dead_letters}")
    if outcome.stopped:
        lines.append(f"  stopped; {len(outcome.left)} records left")
    return "\n".join(lines)


def _counts(counter: Counter[str]) -> str:
    shown = [f"{name} {count}" for name, count in counter.most_common(12)]
    return ", ".join(shown) + (f" and {len(counter) - 12} more" if len(counter) > 12 else "")
