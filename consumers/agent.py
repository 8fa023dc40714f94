"""``streamgp agent``: one station's agent as a process."""

from __future__ import annotations

if __name__ == "__main__":
    from streamgp.start import stop_at_once

    stop_at_once()

from pathlib import Path

import click

from consumers.logs import log_to_stderr
from consumers.options import check_station, keeping, one_thread, settings_of, shared, with_state
from consumers.processes import serve
from streamgp.fusion.attacks import KINDS
from streamgp.roles.wiring import agent_role, make_liar


@click.command("agent")
@shared
@keeping
@click.option("--station", required=True, metavar="NAME", help="The station, as the observations name it.")
@click.option("--attack", type=click.Choice(KINDS), help="Be hostile: for demos and tests.  [default: honest]")
@click.option("--attack-from", type=int, metavar="MS",
              help="Event time (ms since 1970) from which it lies.  [default: with the first answer]")  # fmt: skip
@click.option("--accomplice", "accomplices", multiple=True, metavar="NAME",
              help="Another liar, not to be overheard.  [default: none]")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the lies.")
def command(
    broker: str | None,
    prefix: str | None,
    settings_file: Path | None,
    state: str | None,
    keys: str | None,
    health: str | None,
    fresh: bool,
    station: str,
    attack: str | None,
    attack_from: int | None,
    accomplices: tuple[str, ...],
    seed: int,
) -> None:
    """Learn one station's observations, answer everybody's queries, forecast the station.

    Reads the station's own observations alone; other stations' raw observations never reach it. Stops within
    5 s of SIGTERM. Start it before or after the broker, the other agents and the cloud.
    """
    check_station(station)
    log_to_stderr()
    one_thread()
    settings = with_state(settings_of(settings_file, broker=broker, prefix=prefix), state, keys, health)
    liar = None
    if attack is not None:
        liar = make_liar(attack, station, seed=seed, from_ms=attack_from, accomplices=accomplices)
    role = agent_role(settings, station, liar=liar)
    also = ("predictions",) if liar and liar.listens else ()
    serve("agent", role, settings, station=station, also=also, fresh=fresh)


if __name__ == "__main__":
    command(prog_name="python -m consumers.agent")
