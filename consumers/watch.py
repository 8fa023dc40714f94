"""``streamgp watch``: the stations' forecasts and running scores as they come."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console

from consumers.logs import log_to_stderr
from consumers.options import Number, create_command, fail, needs_broker, settings_of, shared, with_state
from streamgp.errors import StreamGPError
from streamgp.roles.kinds import subscriptions
from streamgp.roles.loop import stopping
from streamgp.roles.onlooker import believed
from streamgp.roles.watch import watch, watch_agents
from streamgp.wire.kafka import KafkaLog
from streamgp.wire.topics import preflight

#: how long somebody who watches waits for a broker
PATIENCE_S = 10.0


@click.command("watch")
@shared
@click.option("--keys", metavar="DIR", envvar="STREAMGP_KEYS", show_envvar=True,
              help="Where the list of keys is, by which signatures are verified.  [default: keys]")  # fmt: skip
@click.option("--station", metavar="NAME", help="Only this station.  [default: all]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line on standard output, nothing else there.")
@click.option("--agents", is_flag=True, help="Show the cloud's record of every agent instead.")
@click.option("--from-start", is_flag=True, help="Also what was published before now; scores first.")
@click.option("--limit", type=click.IntRange(1), help="End after so many forecasts.  [default: no end]")
@click.option("--timeout", type=Number(0), metavar="S",
              help="End after so many seconds without a forecast.  [default: no end]")  # fmt: skip
def command(
    broker: str | None,
    prefix: str | None,
    settings_file: Path | None,
    keys: str | None,
    station: str | None,
    as_json: bool,
    agents: bool,
    from_start: bool,
    limit: int | None,
    timeout: float | None,
) -> None:
    """Show every station's forecast as it is published, and how well each method does so far.

    On a terminal a table; elsewhere a line a forecast, a line a station when new scores have come, and all scores at
    the end. With --json a StationForecast a line, and beside its fields `scores`: method -> rmse, nlpd, crps, coverage.
    Where records are signed, what is not by whom it says is left out.
    """
    log_to_stderr()
    settings = with_state(settings_of(settings_file, broker=broker, prefix=prefix), None, keys, None)
    try:
        log = KafkaLog(needs_broker(settings), settings.kafka)
        with stopping() as stop:
            reads = subscriptions("trust" if agents else "watch", settings)
            topics = [s.topic for s in reads]
            preflight(log, topics, command=create_command(settings), stop=stop, patience_s=PATIENCE_S)
            if stop.is_set():
                return
            reader = believed(log.reader(reads, start="earliest" if from_start or agents else "latest"), settings)
            console = Console(file=sys.stdout)
            if agents:
                watch_agents(reader, stop, console, as_json=as_json, limit=limit, timeout_s=timeout)
                return
            watch(
                reader,
                settings,
                stop,
                console,
                station=station,
                as_json=as_json,
                limit=limit,
                timeout_s=timeout,
                scores_first=from_start,
            )
    except StreamGPError as error:
        fail(error)


if __name__ == "__main__":
    command(prog_name="python -m consumers.watch")
