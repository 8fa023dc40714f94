"""``streamgp demo``: twelve wind stations forecast tomorrow together while two of them lie."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import get_args

import click
import msgspec
from rich.console import Console

from consumers.demo_options import late_of, own_prefix, period_of, unit_of
from consumers.logs import log_to_stderr
from consumers.options import fail, one_thread, settings_of, shared
from producers.datasets import NAMES, observations
from streamgp.demo.picture import draw
from streamgp.demo.plan import Plan
from streamgp.demo.run import run_embedded, run_on_broker
from streamgp.demo.view import viewing
from streamgp.errors import SettingsError, StreamGPError
from streamgp.fusion.attacks import KINDS
from streamgp.roles.settings import ModelKind
from streamgp.wire.kafka import KafkaLog


@click.command("demo")
@shared
@click.option("--dataset", type=click.Choice(NAMES), default="irish-wind", show_default=True,
              help="The data set whose stations forecast.")  # fmt: skip
@click.option(
    "--target",
    metavar="COLUMN",
    help="What is forecast, where the data set has several columns.  [default: the set's own]",
)
@click.option("--liars", type=click.IntRange(0), metavar="N",
              help="How many stations lie.  [default: 2, or a sixth of the stations if that is fewer]")  # fmt: skip
@click.option("--attack", type=click.Choice(KINDS), default="same-value", show_default=True, help="What they do.")
@click.option(
    "--model",
    "kind",
    type=click.Choice(get_args(ModelKind)),
    help="What a station believes.  [default: that of the settings: nearest]",
)
@click.option(
    "--n-neighbors",
    type=click.IntRange(1),
    help="Neighbours that a prediction conditions on.  [default: those of the settings]",
)
@click.option("--period", metavar="FROM:TO",
              help="Years, months or dates, the last not included; either end may be left out.  [default: two years of "
                   "irish-wind or de-pm10, else all]")  # fmt: skip
@click.option("--late", multiple=True, metavar="STATION:DATE",
              help="A station that joins only then: a date, month or year.  [default: none]")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of who lies, and of the lies.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("out"), show_default=True,
              help="Folder for the picture.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output, nothing else there.")
def command(
    *,
    broker: str | None,
    prefix: str | None,
    settings_file: Path | None,
    dataset: str,
    target: str | None,
    liars: int | None,
    attack: str,
    kind: ModelKind | None,
    n_neighbors: int | None,
    period: str | None,
    late: tuple[str, ...],
    seed: int,
    out: Path,
    as_json: bool,
) -> None:
    """Run a whole network on real data: an agent a station, the cloud, the scorer; then one table and a picture.

    Without --broker everything runs in this process over the embedded log; with it the same runs over Apache
    Kafka, on topics of its own unless --prefix names them, with the same numbers.
    """
    log_to_stderr("WARNING")
    one_thread()
    settings = settings_of(settings_file, broker=broker, prefix=prefix)
    given = {"kind": kind, "n_neighbors": n_neighbors}
    model = msgspec.structs.replace(settings.model, **{name: v for name, v in given.items() if v is not None})
    settings = msgspec.structs.replace(settings, model=model)
    if settings.broker is not None and prefix is None:
        settings = msgspec.structs.replace(settings, prefix=own_prefix(settings.prefix))
    console, unit = Console(stderr=as_json), unit_of(dataset, target)
    try:
        _made(out)
        start, end = period_of(period, dataset)
        rows = tuple(observations(dataset, target=target, start=start, end=end))
        if liars is None:
            liars = min(2, len({row.station for row in rows}) // 6)
        plan = Plan(dataset, rows, settings, liars=liars, attack=attack, late=late_of(late), seed=seed)
        with viewing(console, total=len(rows), unit=unit) as tick:
            if settings.broker is None:
                result = run_embedded(plan, tick)
            else:
                result = run_on_broker(plan, KafkaLog(settings.broker, settings.kafka), tick)
        picture = out / f"{dataset}.png"
        draw(result.tally, picture, unit=unit, attack_from_ms=plan.attack_from_ms() if result.liars else None)
    except StreamGPError as error:
        fail(error)
    if not result.details["scored"]:
        warm_up = settings.model.warm_up
        click.echo(
            f"nothing could be scored: all methods have an answer only once enough honest stations are past their "
            f"warm-up of {warm_up} readings; take a longer --period",
            err=True,
        )
    beta = max((settings.cloud.beta, *(settings.cloud.beta_bounds or ())))
    if len(result.liars) > math.ceil(beta * len(result.stations)):  # what is cut at each end
        click.echo(f"{len(result.liars)} liars are more than beta = {beta:.3g} allows for", err=True)
    if as_json:
        click.echo(json.dumps(result.as_json()))
        return
    console.print(result.as_text())
    console.print(f"picture: {picture}")


def _made(out: Path) -> None:
    """The folder for the picture, made and writable before the run and not found wanting after it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"--out {out}: {error.strerror}") from error
    if not os.access(out, os.W_OK | os.X_OK):
        raise SettingsError(f"--out {out}: not writable")


if __name__ == "__main__":
    command(prog_name="python -m consumers.demo")
