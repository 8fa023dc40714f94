"""``streamgp experiment GROUP STUDY``: run a study, print its table, write its CSV and figure."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import final

import click
from rich.console import Console
from rich.progress import track

from streamgp.errors import StreamGPError
from streamgp.experiments.registry import GROUPS, Study, T, no_progress, studies
from streamgp.experiments.results import show, write_csv

_DEFAULT_OUT = Path("experiments")
_WIDTH = 130  # of a table that goes to a file or a pipe
_WHAT = {"network": "layer, which is no paper's"}


@click.group("experiment")
def command() -> None:
    """Run a study of one of the papers: its tables and figures, ours beside the paper's."""


class _StudyName(click.ParamType[list[Study]]):
    """A study's name, its section, figure or table in the paper, or ``all``."""

    name = "study"

    def __init__(self, group: str) -> None:
        self.group = group

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> list[Study]:
        known = studies(self.group)
        wanted = str(value)
        if wanted == "all":
            return list(known)
        found = [study for study in known if study.answers_to(wanted)]
        if not found:
            names = "\n".join(f"  {s.name:<14}{s.title}" for s in known)
            self.fail(f"no study is called {wanted!r}. There are:\n{names}\n  all", param, ctx)
        return [dataclasses.replace(study, name=wanted.lower()) for study in found]


@final
class _Paper(click.Command):
    """A command whose help page lists the paper's studies; they are loaded for that page alone."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Studies"):
            rows = [
                (s.name, s.title + (f" ({', '.join(s.aliases)})" if s.aliases else "")) for s in studies(str(self.name))
            ]
            formatter.write_dl([*rows, ("all", "Every one of them.")])
        parts = [(s.name, ", ".join(s.parts)) for s in studies(str(self.name)) if s.parts]
        if parts:
            with formatter.section("Parts"):
                formatter.write_dl(parts)


def _parts(chosen: list[Study], parts: tuple[str, ...]) -> list[Study]:
    known = [name for study in chosen for name in study.parts]
    unknown = [name for name in parts if name not in known]
    if unknown:
        there = f"there are: {', '.join(known)}" if known else "it has none"
        raise click.BadParameter(f"no part is called {unknown[0]!r}; {there}", param_hint="--part")
    return [study.part(name) for study in chosen for name in dict.fromkeys(parts) if name in study.parts]


def _track(items: Iterable[T], /, *, description: str, total: int) -> Iterable[T]:
    return track(items, description=description, total=total, console=Console(stderr=True), transient=True)


def _command(group: str) -> click.Command:
    @click.command(
        group, cls=_Paper, short_help=f"Studies of the {group} {_WHAT.get(group, 'paper')}; STUDY may be all."
    )
    @click.argument("chosen", metavar="STUDY", type=_StudyName(group))
    @click.option(
        "--quick", is_flag=True, help="Fewer repetitions, less data: often the first of several data sets alone."
    )
    @click.option(
        "--part",
        "parts",
        multiple=True,
        metavar="NAME",
        help="This part of the study alone; repeatable.  [default: the whole study]",
    )
    @click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of everything random.")
    @click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        default=_DEFAULT_OUT,
        show_default=True,
        help="Folder for STUDY.csv and the figure.",
    )
    @click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output and nothing else.")
    def run(chosen: list[Study], quick: bool, parts: tuple[str, ...], seed: int, out: Path, as_json: bool) -> None:
        """Run STUDY, or all: print its table, ours beside the paper's, and write it and the figure.

        STUDY is a name below, or what the paper calls it: a section, figure or table, in brackets below.
        """
        if parts:
            chosen = _parts(chosen, parts)
        out.mkdir(parents=True, exist_ok=True)
        progress = _track if sys.stderr.isatty() else no_progress
        console = Console(stderr=as_json, width=None if sys.stdout.isatty() else _WIDTH)
        found = {}
        for study in chosen:
            console.print(f"{study.name}: {study.title} (seed {seed}{', quick' if quick else ''})", highlight=False)
            try:
                report = study.run(quick=quick, seed=seed, out=out, progress=progress)
            except StreamGPError as error:
                raise click.ClickException(f"{study.name}: {error}") from error
            write_csv(report.rows, out / f"{study.name}.csv")
            show(report, console)
            console.print(f"written: {out / study.name}.csv", highlight=False)
            found[study.name] = {
                "rows": [dataclasses.asdict(row) for row in report.rows],
                "notes": list(report.notes),
            }
        if as_json:
            click.echo(json.dumps({"group": group, "seed": seed, "quick": quick, "studies": found}))

    return run


for _group in GROUPS:
    command.add_command(_command(_group))
