"""What each role needs of the broker and no more: rules for its access control."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote
from typing import Literal

from streamgp.roles.kinds import Kind, kept_topics, role_name, subscriptions, written_topics
from streamgp.roles.settings import Settings


@dataclass(frozen=True, order=True)
class Rule:
    """One thing that a role may do. ``read`` and ``write`` imply that it may see that the thing exists."""

    role: str
    operation: Literal["read", "write"]
    kind: Literal["topic", "group", "transactional-id"]
    name: str

    def command(self, principal: str) -> str:
        """The words of ``kafka-acls.sh`` that allow it."""
        return (
            f"--add --allow-principal {quote(principal)} --operation {self.operation.capitalize()} "
            f"--{self.kind} {quote(self.name)}"
        )


def rules(settings: Settings, *, training: bool = False) -> list[Rule]:
    """The rules of all roles of a network whose stations the settings name; ``training``: those of a training too.

    Examples
    --------
    >>> settings = Settings(stations=("A", "B"), observation_topics="per-station")
    >>> [r.name for r in rules(settings) if r.role == "agent.A" and "observations" in r.name]
    ['streamgp.observations.A']
    """
    roles: list[tuple[Kind, str | None]] = [("agent", station) for station in settings.stations]
    found: list[Rule] = []
    roles += [("cloud", None), ("scorer", None)]
    if training:
        roles += [("trainer", None), *(("trainee", station) for station in settings.stations)]
    for kind, station in roles:
        found += _rules_of(kind, station, settings)
    return sorted(found)


def _rules_of(kind: Kind, station: str | None, settings: Settings) -> list[Rule]:
    role = role_name(kind, settings, station)
    read = [*(s.topic for s in subscriptions(kind, settings, station=station)), *kept_topics(settings, role)]
    own = f"{settings.prefix}.{role}"
    return [
        *(Rule(role, "read", "topic", topic) for topic in dict.fromkeys(read)),
        *(Rule(role, "write", "topic", topic) for topic in written_topics(kind, settings, role)),
        Rule(role, "read", "group", own),
        Rule(role, "write", "transactional-id", own),
    ]
