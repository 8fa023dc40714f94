"""A finished run as numbers: the one JSON object, and the table that a person reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from streamgp.demo.labels import LABELS
from streamgp.demo.tally import Tally


@dataclass(frozen=True, slots=True)
class Result:
    """What ``streamgp demo --json`` prints; ``late`` is there when a station joined late."""

    dataset: str
    stations: list[str]
    liars: list[str]
    attack: str | None
    seconds: float
    observations: int
    forecasts: int
    trimmed: dict[str, float]
    methods: dict[str, dict[str, float | None]]
    late: dict[str, dict[str, dict[str, float | None]]]
    details: dict[str, Any]
    tally: Tally

    def as_json(self) -> dict[str, Any]:
        """The object of the command-line interface."""
        out = {
            "dataset": self.dataset,
            "stations": self.stations,
            "liars": self.liars,
            "attack": self.attack,
            "seconds": round(self.seconds, 3),
            "observations": self.observations,
            "forecasts": self.forecasts,
            "trimmed": self.trimmed,
            "methods": self.methods,
            **self.details,
        }
        if self.late:
            out["late"] = self.late
        return out

    def as_text(self) -> RenderableType:
        """One table of methods, who was trimmed how often, and the late stations' start."""
        head = (
            f"{self.dataset}: {self.observations:,} observations of {len(self.stations)} stations, "
            f"{self.forecasts:,} forecasts in {self.seconds:.1f} s"
        )
        lies = f"lying ({self.attack}): {', '.join(self.liars)}" if self.liars else "nobody lies"
        parts: list[RenderableType] = [
            Text(head),
            Text(lies),
            _methods("honest stations, standardised", self.methods),
        ]
        parts.append(Text("trimmed: " + _shares(self.trimmed, set(self.liars))))
        for station, methods in self.late.items():
            parts.append(_methods(f"{station}, which joined late: its first 120 days", methods))
        return Group(*parts)


def _methods(title: str, methods: dict[str, dict[str, float | None]]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("method")
    for name in ("RMSE", "NLPD", "CRPS", "90% coverage"):
        table.add_column(name, justify="right")
    for method, row in methods.items():
        table.add_row(LABELS.get(method, method), *(_number(row[k]) for k in ("rmse", "nlpd", "crps", "coverage")))
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _shares(trimmed: dict[str, float], liars: set[str]) -> str:
    return ", ".join(f"{name}{' (liar)' if name in liars else ''} {share:.0%}" for name, share in trimmed.items())
