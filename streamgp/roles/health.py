"""How a role is: a verdict for whoever supervises it, and metrics for whoever looks at it."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol, final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from streamgp.errors import SettingsError
from streamgp.roles.kept import Kept
from streamgp.roles.settings import HealthSettings
from streamgp.wire.clock import Clock

_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Condition(Protocol):
    """What is served."""

    def report(self) -> dict[str, Any]:
        """As /healthz tells it."""

    def collect(self) -> Iterator[Metric]:
        """As /metrics tells it."""


@final
class Waiting:
    """A role that waits for its broker before it begins: ``starting``, and healthy for the time that this may take."""

    def __init__(self, role: str, settings: HealthSettings, clock: Clock) -> None:
        self._role = role
        self._settings = settings
        self._clock = clock
        self._born_s = clock.monotonic_s()

    def report(self) -> dict[str, Any]:
        healthy = self._clock.monotonic_s() - self._born_s < self._settings.starting_s
        return {"role": self._role, "status": "starting", "healthy": healthy}

    def collect(self) -> Iterator[Metric]:
        yield _up(self.report())


@final
class Health:
    """Judges a role by what it does, not by whether it lives.

    ``starting``, ``ok`` and ``behind`` are healthy; ``stuck`` (its loop does not turn), ``disconnected`` (no broker
    answers, whether or not the loop turns), ``barred`` (others refuse all that it signs) and ``stalled`` (there is
    work, or nobody can tell whether there is, and none is done) are not.

    Parameters
    ----------
    kept
        The role as it runs in another thread; it is only looked at.
    settings
        After how long which verdict.
    """

    def __init__(self, kept: Kept, settings: HealthSettings, clock: Clock) -> None:
        self._kept = kept
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._moved_s = self._connected_s = self._born_s = clock.monotonic_s()

    def lag(self) -> int | None:
        """Messages that wait at the broker or in the role's own hands; None while it is not known."""
        behind = self._kept.reader.stats.behind
        return None if behind is None else behind + int(self._vitals().get("held", 0))

    def _vitals(self) -> dict[str, float]:
        """Those of the role, which goes on working meanwhile."""
        for _ in range(5):
            try:
                return dict(self._kept.role.vitals())
            except RuntimeError:  # a dict of its changed size
                continue
        return {}

    def verdict(self) -> tuple[str, bool]:
        """A word for it, and whether that is healthy."""
        with self._lock:
            return self._verdict(self._clock.monotonic_s())

    def _verdict(self, now_s: float) -> tuple[str, bool]:
        kept, limits = self._kept, self._settings
        self._look(now_s)
        if kept.started_s is None:
            return "starting", now_s - self._born_s < limits.starting_s
        if now_s - self._connected_s >= limits.stuck_s:
            return "disconnected", False
        if now_s - kept.stepped_s >= limits.stuck_s:  # a commit waits for the broker
            return "stuck" if kept.reader.stats.connected else "disconnected", False
        if kept.gate.barred is not None:
            return "barred", False
        lag = self.lag()
        if lag != 0 and now_s - self._moved_s >= limits.stalled_s:
            return "stalled", False
        if self._waits_in_vain():
            return "stalled", False
        return ("behind" if lag is not None and lag >= limits.behind else "ok"), True

    def _waits_in_vain(self) -> bool:
        """Whether it reads, and what it has read waits for others longer than any wait may be."""
        behind, limits, vitals = self._kept.reader.stats.behind, self._settings, self._vitals()
        since_s = vitals.get("held_since_s")
        if since_s is None or behind is None or behind >= limits.behind:  # far behind it has more to read first
            return False
        return self._kept.now_s() - since_s - vitals["longest_s"] >= limits.stalled_s

    def _look(self, now_s: float) -> None:
        """Note when it was last seen to move, and to be connected."""
        kept = self._kept
        seen = (kept.reader.stats.messages, kept.number, int(self._vitals().get("held", 0)))
        if seen != self._seen or self.lag() == 0:
            self._seen, self._moved_s = seen, now_s
        stats = kept.reader.stats
        if stats.connected:
            self._connected_s = now_s
        elif stats.silent_s is not None:
            self._connected_s = now_s - stats.silent_s

    def report(self) -> dict[str, Any]:
        """The verdict and the numbers behind it, as /healthz tells them."""
        status, healthy = self.verdict()
        barred = self._kept.gate.barred
        why = {} if barred is None else {"barred": barred}
        return {"role": self._kept.place.role, "status": status, "healthy": healthy, **why, **self._numbers()}

    def gauges(self) -> dict[str, float]:
        """Numbers as of now; those that are not known are left out."""
        return {name: value for name, value in self._numbers().items() if value is not None}

    def _numbers(self) -> dict[str, float | None]:
        kept, now_s, now_ms = self._kept, self._clock.monotonic_s(), self._clock.now_ms()
        vitals = self._vitals()
        learned_ms, since_s = vitals.pop("last_learned_ms", None), vitals.pop("held_since_s", None)
        vitals.pop("longest_s", None)
        found: dict[str, float | None] = {
            "lag": self.lag(),
            "data_age_s": None if learned_ms is None else (now_ms - learned_ms) / 1000.0,
            "last_learned_s": None if learned_ms is None else learned_ms / 1000.0,
            "last_answered_s": None if kept.answered_ms is None else kept.answered_ms / 1000.0,
            "snapshot_age_s": None if kept.snapshot_s is None else now_s - kept.snapshot_s,
            "commit_age_s": None if kept.committed_s is None else now_s - kept.committed_s,
            "step_age_s": now_s - kept.stepped_s,
            "wait_s": None if since_s is None else kept.now_s() - since_s,
            "commits": kept.number,
            "connected": float(kept.reader.stats.connected),
            "lost": sum(kept.reader.stats.lost.values()),
            "replay_differs": kept.differs,
            **vitals,
        }
        return {name: None if value is None else float(value) for name, value in found.items()}

    def counts(self) -> dict[str, Mapping[str, int]]:
        """Counters by kind and by what they count: dead letters and refusals by reason, trims by agent, all else."""
        kinds: dict[str, dict[str, int]] = {"dead_letters": {}, "trims": {}, "refusals": {}, "events": {}}
        for name, count in dict(self._kept.role.counts).items():
            kind, _, detail = name.partition(": ")
            place = {"refused": "dead_letters", "trimmed": "trims"}.get(kind, "events")
            kinds[place][detail if place != "events" else name] = count
        kinds["refusals"] = dict(self._kept.gate.counts)
        return dict(kinds)

    def collect(self) -> Iterator[Metric]:
        """For prometheus-client: all of it, with the role as a label."""
        role = self._kept.place.role
        yield _up(self.report())
        for name, value in self.gauges().items():
            name = name.removesuffix("_s") + "_seconds" if name.endswith("_s") else name
            gauge = GaugeMetricFamily(f"streamgp_{name}", _HELP.get(name, name.replace("_", " ")), labels=["role"])
            gauge.add_metric([role], value)
            yield gauge
        for kind, counts in self.counts().items():
            counter = CounterMetricFamily(f"streamgp_{kind}", _HELP[kind], labels=["role", "what"])
            for what, count in counts.items():
                counter.add_metric([role, what[:120]], count)
            yield counter


_HELP = {
    "dead_letters": "Records refused to the dead letter, by reason",
    "trims": "Forecasts in which an agent was cut, by agent",
    "refusals": "Records refused for their signature, by reason",
    "events": "Everything else that the role counts",
    "lag": "Messages that wait at the broker or in the role's hands",
    "data_age_seconds": "Age of the last reading learned, by event time",
    "wait_seconds": "How long what is to be worked on next has waited for others",
    "lost": "Messages that retention removed before they were read",
    "last_learned_seconds": "Event time of the last reading learned, since 1970",
    "last_answered_seconds": "When something was last answered, since 1970",
    "snapshot_age_seconds": "Since the last snapshot was written",
    "commit_age_seconds": "Since the last commit",
    "step_age_seconds": "Since the role's loop last turned",
    "commits": "Number of the last commit",
    "connected": "1 if the broker answers",
    "replay_differs": "Commits that came out differently when they were done again at the start",
    "held": "Records read and not yet worked on, for they wait for others",
    "open_questions": "Questions of this station that are not concluded",
    "peers": "Other stations that this one has heard of",
    "windows_open": "Questions for whose answers the cloud waits",
    "agents": "Agents whose answers the cloud waits for",
    "unscored": "Questions that the scorer remembers, to be scored or scored already",
    "stations": "Stations that the scorer has heard of",
    "round": "Round of the training",
    "present": "Clients that have answered this round",
}


def _up(report: Mapping[str, Any]) -> GaugeMetricFamily:
    up = GaugeMetricFamily("streamgp_healthy", "1 if the role does what it should", labels=["role", "status"])
    up.add_metric([report["role"], report["status"]], float(report["healthy"]))
    return up


@final
class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, family: int, address: Any, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = family
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Without the look-up of the host's own name, which nobody needs here and which may take long."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]  # host and port as such


@final
class HealthServer:
    """Serves ``/metrics`` and ``/healthz`` (200, or 503 with the same body) until it is closed.

    ``health`` is what is served; another may be put in its place at any time.

    Raises
    ------
    SettingsError
        If the address is none, cannot be resolved, or is in use.
    """

    def __init__(self, health: Condition, listen: str) -> None:
        self.health = health
        address = HealthSettings(listen=listen).address()
        assert address is not None
        registry = CollectorRegistry()
        registry.register(self)
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.split("?")[0] == "/healthz":
                    report = served.health.report()
                    self._answer(200 if report["healthy"] else 503, json.dumps(report).encode(), "application/json")
                elif self.path.split("?")[0] == "/metrics":
                    self._answer(200, generate_latest(registry), _TYPE)
                else:
                    self._answer(404, b"/metrics or /healthz\n", "text/plain")

            def _answer(self, code: int, body: bytes, kind: str) -> None:
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """A line a scrape would be a line without bound."""

        try:
            family, *_, place = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0]
            self._server = _Server(family, place, Handler)
        except (OSError, UnicodeError) as error:  # the latter of a name that can be none
            reason = getattr(error, "strerror", None) or error
            raise SettingsError(f"health.listen: cannot listen on {listen}: {reason}") from error
        self.address = f"{listen.rpartition(':')[0]}:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="health", daemon=True)
        self._thread.start()

    def collect(self) -> Iterator[Metric]:
        """For prometheus-client."""
        return self.health.collect()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._thread.join(2.0)
        self._server.server_close()
