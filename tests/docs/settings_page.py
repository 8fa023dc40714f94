"""Writes docs/settings.md from the classes that read the settings: ``python -m tests.docs.settings_page``."""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import msgspec

from streamgp.roles.door_settings import DoorSettings
from streamgp.roles.settings import Settings

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
HEAD = """# Every setting

One TOML file, `--settings`; an unknown key, or a value of another type or out of range, ends the process with exit code
3 and the key's name. A key that is left out has its default. Options of the command line (`--broker`, `--prefix`,
`--state`, `--keys`, `--health`) stand above the file. Times are seconds where the name ends in `_s` and milliseconds
where it ends in `_ms`; counts of observations, answers or windows otherwise. This page is written from the program
(`python -m tests.docs.settings_page`).
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD, _section("Above all sections", Settings, without=frozenset({"door", "kafka"}))]
    for info in msgspec.structs.fields(Settings):
        if isinstance(info.default, msgspec.Struct):
            parts.append(_section(f"`[{info.name}]`", type(info.default)))
        elif info.name == "door":
            parts.append(_door())
        elif info.name == "kafka":
            parts.append(f"## `[kafka]`\n\n{_meanings(Settings)['kafka']}\n")
    return "\n".join(parts)


def _section(title: str, kind: type, *, without: frozenset[str] = frozenset()) -> str:
    meanings = _meanings(kind)
    rows = [
        _row(info.name, _of(info), meanings.get(info.name, ""))
        for info in msgspec.structs.fields(kind)
        if info.name not in without and not isinstance(info.default, msgspec.Struct)
    ]
    return _table(title, inspect.getdoc(kind) or "", rows)


def _door() -> str:
    text = inspect.getdoc(DoorSettings) or ""
    meanings: dict[str, str] = {}
    for names, meaning in re.findall(r"^(\w[\w, ]*)\n((?:    .*\n?)+)", text, re.MULTILINE):
        meanings |= dict.fromkeys(names.split(", "), textwrap.dedent(meaning))
    rows = [_row(f.name, _default(f), meanings[f.name]) for f in fields(DoorSettings)]
    return _table("`[door]`", "Checks on the way in.", rows)


def _of(info: msgspec.structs.FieldInfo) -> object:
    return info.default if info.default_factory is msgspec.NODEFAULT else info.default_factory()


def _default(field: Field[Any]) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _meanings(kind: type) -> dict[str, str]:
    """The docstring below each key; keys that stand together share it."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    waiting: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            waiting.append(node.target.id)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and waiting:
            found |= dict.fromkeys(waiting, str(node.value.value))
            waiting = []
    return found


def _row(name: str, default: object, meaning: str) -> str:
    return f"| `{name}` | {_shown(default)} | {_plain(meaning)} |"


def _table(title: str, text: str, rows: list[str]) -> str:
    return f"## {title}\n\n{_plain(text)}\n\n| key | default | what it is |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def _shown(default: object) -> str:
    if default is None:
        return "none"
    if isinstance(default, float):
        return f"`{default:.6g}`"
    return f"`{json.dumps(default, default=dict)}`"


def _plain(text: str) -> str:
    """On one line, with code as the pages write it and without references into the program."""
    text = re.sub(r"\s*\(see :\w+:`[^`]*`[^)]*\)", "", " ".join(text.split()))
    text = re.sub(r":\w+:`~?([\w.]+)`", lambda m: f"`{m[1].rpartition('.')[2]}`", text)
    return text.replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
