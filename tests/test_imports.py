"""Imports point one way only (docs/design.md, Rooms)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# room -> rooms it may import; errors is known to all
ALLOWED = {
    "errors": set(),
    "wire": set(),
    "gp": set(),
    "models": {"gp"},
    "fusion": {"gp"},
    "roles": {"wire", "gp", "models", "fusion"},
    "experiments": {"gp", "models", "fusion"},
    "demo": {"wire", "gp", "models", "fusion", "roles"},
    "__init__": {"models", "fusion", "gp"},
}
MAINS = {"consumers", "producers", "cli", "start"}


def room_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[1] if parts[0] == "streamgp" else parts[0]


def imported_rooms(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            names |= {f"{node.module}.{a.name}" if node.module == "streamgp" else node.module for a in node.names}
    rooms = set()
    for name in names:
        head, *rest = name.split(".")
        if head == "streamgp" and rest:
            rooms.add(rest[0])
        elif head in {"consumers", "producers", "tests"}:
            rooms.add(head)
    return rooms


SOURCES = sorted(p for top in ("streamgp", "consumers", "producers") for p in (ROOT / top).rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    room = room_of(path)
    if room in MAINS:
        assert "tests" not in imported_rooms(path)
        return
    assert room in ALLOWED, f"{path} stands in no known room"
    foreign = imported_rooms(path) - ALLOWED[room] - {"errors", room}
    assert not foreign, f"{path} must not import {sorted(foreign)}"


def test_only_one_file_imports_kafka() -> None:
    users = {
        str(p.relative_to(ROOT))
        for p in SOURCES
        for node in ast.walk(ast.parse(p.read_text()))
        if (isinstance(node, ast.Import) and any(a.name.split(".")[0] == "kafka" for a in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "kafka")
    }
    assert users <= {"streamgp/wire/kafka.py"}


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_at_the_top(path: Path, known: set[str]) -> set[str]:
    """Modules that a file imports outside of functions, for types alone too; packages' front doors are left out."""
    nodes = list(ast.parse(path.read_text()).body)
    found: set[str] = set()
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If):
            nodes += node.body
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            whole = {f"{node.module}.{alias.name}" for alias in node.names} & known
            found |= whole or {node.module}
    return found & known


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Also for types alone: what two files know of each other belongs into one, or into a third."""
    known = {module_of(path): path for path in SOURCES if path.name != "__init__.py"}
    graph = {name: imported_at_the_top(path, set(known)) for name, path in known.items()}
    done: set[str] = set()

    def walk(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, " -> ".join((*way[way.index(name) :], name))
        if name not in done:
            for other in sorted(graph[name]):
                walk(other, (*way, name))
            done.add(name)

    for name in sorted(graph):
        walk(name, ())
    assert len(done) > 250
