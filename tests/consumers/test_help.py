"""Every command's help page, and numbers that are none."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from consumers import keys
from consumers.demo_options import late_of, period_of
from streamgp.cli import main
from streamgp.errors import SettingsError
from streamgp.experiments.registry import GROUPS, studies


def _commands(command: click.Command, name: str = "streamgp") -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for sub in command.list_commands(click.Context(command)):
            inner = command.get_command(click.Context(command), sub)
            assert inner is not None
            yield from _commands(inner, f"{name} {sub}")
    else:
        yield name, command


def test_every_option_says_what_it_is_and_what_it_is_without() -> None:
    """A switch is off unless it is given; all others name their default, or are required."""
    seen = 0
    for name, command in _commands(main):
        assert command.help, name
        for option in command.params:
            if not isinstance(option, click.Option):
                continue
            seen += 1
            assert option.help, (name, option.name)
            plain_switch = option.is_flag and not option.secondary_opts
            if not (plain_switch or option.required or option.show_default):
                assert "[default: " in option.help, (name, option.name)
            assert option.show_envvar == (option.envvar is not None), (name, option.name)
    assert seen > 80


@pytest.mark.parametrize("group", sorted(GROUPS))
def test_the_help_of_a_paper_lists_its_studies(group: str) -> None:
    result = CliRunner().invoke(main, ["experiment", group, "--help"])
    assert result.exit_code == 0
    listed = result.stdout.split("Studies:")[1]
    for name in (*(study.name for study in studies(group)), "all"):
        assert f"  {name} " in listed


@pytest.mark.parametrize("number", ["nan", "inf", "-1", "-inf", "soon"])
@pytest.mark.parametrize(
    "words",
    [
        ["query", "--grid", "a=0:1:2", "--wait"],
        ["watch", "--timeout"],
        ["replay", "--dataset", "irish-wind", "--timeout"],
        ["keys", "rotate", "--role", "cloud", "--overlap-hours"],
    ],
)
def test_a_number_that_is_none_is_refused_before_anything_is_done(words: list[str], number: str) -> None:
    result = CliRunner().invoke(main, [*words, number])
    assert result.exit_code == 2
    assert words[-1] in result.stderr


@pytest.mark.parametrize("number", ["nan", "inf", "0", "-1"])
@pytest.mark.parametrize("option", ["--speed", "--rate"])
def test_a_pace_that_is_none_is_refused(option: str, number: str) -> None:
    words = ["replay", "--dataset", "irish-wind", "--limit", "1", "--broker", "127.0.0.1:1", option, number]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 3
    assert "must be positive" in result.stderr


def test_an_overlap_beyond_the_calendar_is_refused() -> None:
    result = CliRunner().invoke(keys.command, ["rotate", "--role", "cloud", "--overlap-hours", "1e300"])
    assert result.exit_code == 2


def test_a_role_that_is_none_gets_no_key(tmp_path: Path) -> None:
    made = ["make", "--keys", str(tmp_path), "--role", "agent.Dublin", "--role", "asker"]
    assert CliRunner().invoke(keys.command, made).exit_code == 0
    for words in (["make", "--role", "clod"], ["rotate", "--role", "clod"]):
        result = CliRunner().invoke(keys.command, [*words, "--keys", str(tmp_path)])
        assert result.exit_code == 3
        assert "no role is called clod: there are cloud, scorer, asker" in result.stderr


def test_a_seed_is_no_negative_number_and_a_version_is_told_anywhere() -> None:
    for words in (["demo", "--seed", "-1"], ["agent", "--station", "A", "--seed", "-1"]):
        assert CliRunner().invoke(main, words).exit_code == 2
    assert CliRunner().invoke(main, ["--version"]).exit_code == 0


def test_dead_letters_of_no_broker_end_at_once_and_of_no_topic_name_the_command() -> None:
    started = time.monotonic()
    result = CliRunner().invoke(main, ["dead-letters", "list", "--broker", "127.0.0.1:1"])
    assert result.exit_code == 5
    assert time.monotonic() - started < 10.0


def test_periods_are_of_years_months_and_dates() -> None:
    assert period_of("1961-02:1961-05", "irish-wind") == ("1961-02-01", "1961-05-01")
    assert period_of(":1961-05-03", "irish-wind") == (None, "1961-05-03")
    assert late_of(("BEL:1962-01",)) == late_of(("BEL:1962-01-01",))
    for wrong in ("1961-13:", "1961-2:", "196:", "1961-02-30:", "x:"):
        with pytest.raises(SettingsError, match="YYYY-MM"):
            period_of(wrong, "irish-wind")
