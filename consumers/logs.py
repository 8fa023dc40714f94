"""Log lines to standard error: text or JSON, and no line again and again without bound."""

from __future__ import annotations

import json
import logging
import sys
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import final

#: how often a line is written before only its 8th, 16th, 32nd ... repetition is
FREELY = 5
#: kinds of line remembered, and after how long of silence one is new again
REMEMBERED, FORGOTTEN_S = 1_000, 600.0


@final
class Bounded(logging.Filter):
    """Lets a line pass a few times, then at every doubling, saying how often it came.

    Lines are of one kind if logger, level and text before its arguments are the same.

    Examples
    --------
    >>> bounded = Bounded()
    >>> line = logging.LogRecord("a", logging.WARNING, "", 0, "away: %s", ("now",), None)
    >>> sum(bounded.filter(logging.makeLogRecord(dict(line.__dict__))) for _ in range(1000))
    12
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: OrderedDict[tuple[str, int, str], tuple[int, float]] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        key, now_s = (record.name, record.levelno, str(record.msg)), self._clock()
        count, last_s = self._seen.pop(key, (0, now_s))
        count = 1 if now_s - last_s > FORGOTTEN_S else count + 1
        self._seen[key] = (count, now_s)
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        if count <= FREELY:
            return True
        if count & (count - 1):
            return False
        record.msg, record.args = f"{record.getMessage()} (no. {count} of its kind)", ()
        return True


@final
class AsJson(logging.Formatter):
    """A JSON object a line: time, level, logger, message, and the error where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def log_to_stderr(level: str = "INFO", *, form: str = "text") -> None:
    """Log lines to standard error; standard output is for results."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(AsJson() if form == "json" else text)
    handler.addFilter(Bounded())
    logging.basicConfig(level=level, handlers=[handler], force=True)
