"""``streamgp query``: ask the agents about a grid or given points, and show what the cloud answers."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from consumers.options import Number, fail, needs_broker, settings_of, shared, with_keys, with_keys_option
from producers.asking import Answers, ask, check_columns
from producers.points import Points, from_file, grid
from producers.replay_options import names
from producers.times import to_ms
from streamgp.errors import SettingsError, StreamGPError
from streamgp.wire.clock import SystemClock
from streamgp.wire.kafka import KafkaLog
from streamgp.wire.log import Log
from streamgp.wire.records import Forecast, Query, Scale
from streamgp.wire.topics import preflight, topic_name

#: points of one query; more are split, so that no record grows too large
PER_QUERY = 500


@click.command("query")
@shared
@with_keys_option
@click.option("--points", "points_file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="CSV, JSON lines or Parquet; a row a point, in the agents' model columns.  "
              "[default: none; then --grid]")  # fmt: skip
@click.option(
    "--grid",
    "grid_text",
    metavar="NAME=LO:HI:N,...",
    help="All combinations of the values; LO:HI:N or one number a column.  [default: none; then --points]",
)
@click.option("--columns", metavar="A,B", help="Columns of the file to be used, in this order.  [default: all]")
@click.option("--time", "time_text", metavar="T", help="Event time as of which is asked.  [default: now]")
@click.option("--target", metavar="T", help="The time that the answer is about.  [default: that of --time]")
@click.option("--scale", metavar="MEAN:STD", help="Units of the answer.  [default: each agent's own]")
@click.option("--wait", "wait_s", type=Number(min=0), metavar="S",
              help="Wait so many seconds for the forecasts.  [default: only ask]")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output, nothing else there.")
@click.pass_obj
def command(
    log: Log | None,
    /,
    *,
    broker: str | None,
    prefix: str | None,
    settings_file: Path | None,
    keys: str | None,
    as_json: bool,
    wait_s: float | None,
    **given: Any,
) -> None:
    """Ask every agent about points of the model's input space, and print the forecasts if told to wait.

    A point is a row of model columns, in the order that the agents' features have; points of another number of
    columns than the stations' own questions are refused (3). Ends with 1 if a question was not acknowledged, or had no
    forecast with numbers within --wait: then it says why the agents had none.
    """
    try:
        settings = with_keys(settings_of(settings_file, broker=broker, prefix=prefix), keys)
        columns, points = _points(given)
        queries = _queries(points, given)
        log = log or KafkaLog(needs_broker(settings), settings.kafka)
        log.topics()
        preflight(log, [topic_name(settings.prefix, "queries")])
        check_columns(columns, log, settings)
        answers = ask(queries, log, settings, wait_s)
    except StreamGPError as error:
        fail(error)
    shown = _shown(queries, answers.forecasts, columns)
    if as_json:
        told = {"columns": columns, "queries": len(queries), "points": len(points)}
        click.echo(json.dumps({**told, "answers": shown, "abstained": answers.reasons()}))
    else:
        click.echo(f"asked {len(queries)} queries of {len(points)} points: {', '.join(q.id for q in queries[:5])}")
        for answer in shown:
            click.echo(_line(answer))
    sys.exit(0 if wait_s is None or _complete(answers, len(queries), wait_s) else 1)


def _complete(answers: Answers, asked: int, wait_s: float) -> bool:
    """Whether every query has its numbers; what is missing, and why, is said on standard error."""
    late, without = asked - len(answers.forecasts), len(answers.unanswered)
    if late:
        click.echo(f"{late} of {asked} queries had no forecast within {wait_s:g} s", err=True)
    if without:
        reasons = [f"{reason} ({_named(agents)})" for reason, agents in answers.reasons().items()]
        most = max(answers.forecasts[query_id].answers for query_id in answers.unanswered)
        few = f"{most} usable answers are too few for the cut" if most else "no usable answer"
        why = "; ".join([few, *reasons])
        click.echo(f"error: {without} of {asked} queries have a forecast without numbers (no quorum): {why}", err=True)
    return not late and not without


def _named(agents: list[str], most: int = 4) -> str:
    return ", ".join(agents[:most]) + (f" and {len(agents) - most} more" if len(agents) > most else "")


def _points(given: dict[str, Any]) -> tuple[tuple[str, ...], Points]:
    if (given["points_file"] is None) == (given["grid_text"] is None):
        raise SettingsError("give either --points FILE or --grid NAME=LO:HI:N,...")
    if given["grid_text"] is not None:
        return grid(given["grid_text"])
    return from_file(given["points_file"], names(given["columns"]))


def _queries(points: Points, given: dict[str, Any]) -> list[Query]:
    """The points in queries of at most 500, each with an id of its own."""
    time_ms = SystemClock().now_ms() if given["time_text"] is None else to_ms(given["time_text"])
    target_ms = time_ms if given["target"] is None else to_ms(given["target"])
    scale = None if given["scale"] is None else _scale(given["scale"])
    name = uuid.uuid4().hex[:12]
    return [
        Query(
            id=f"ask-{name}-{i // PER_QUERY}",
            time_ms=time_ms,
            target_ms=target_ms,
            points=tuple(points[i : i + PER_QUERY]),
            scale=scale,
        )
        for i in range(0, len(points), PER_QUERY)
    ]


def _scale(text: str) -> Scale:
    mean, _, std = text.partition(":")
    try:
        scale = Scale(float(mean), float(std))
    except ValueError:
        raise SettingsError(f"--scale {text}: MEAN:STD expected") from None
    if not (scale.std > 0 and scale.std - scale.std == 0 and scale.mean - scale.mean == 0):
        raise SettingsError(f"--scale {text}: two finite numbers expected, the second positive")
    return scale


def _shown(queries: Sequence[Query], forecasts: dict[str, Forecast], columns: Sequence[str]) -> list[dict[str, Any]]:
    """A line a point, in the order of the points."""
    shown = []
    for query in queries:
        forecast = forecasts.get(query.id)
        if forecast is None:
            continue
        for i, point in enumerate(query.points):
            answer: dict[str, Any] = {"query": query.id, "point": dict(zip(columns, point, strict=True))}
            for name in ("mean", "variance", "noise_variance"):
                values = getattr(forecast, name)
                answer[name] = None if values is None else values[i]
            answer |= {"kept": forecast.kept[i] if forecast.kept else 0, "status": forecast.status}
            shown.append(answer | {"trimmed": list(forecast.trimmed), "missing": list(forecast.missing)})
    return shown


def _line(answer: dict[str, Any]) -> str:
    point = " ".join(f"{name}={value:g}" for name, value in answer["point"].items())
    if answer["mean"] is None:
        return f"{point}: {answer['status']}"
    spread = 1.6449 * (answer["variance"] + answer["noise_variance"]) ** 0.5
    return f"{point}: {answer['mean']:.4g} ± {spread:.3g} (90%), {answer['kept']} agents, {answer['status']}"


if __name__ == "__main__":
    command(prog_name="python -m producers.queries")
