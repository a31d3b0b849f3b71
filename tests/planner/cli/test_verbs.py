"""The table of commands agrees with the commands."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from clusterplan.planner.cli.main import app
from clusterplan.planner.cli.verbs import VERBS, Verbs, _shortened


@pytest.mark.parametrize("name", VERBS)
def test_the_first_line_of_help_is_that_of_the_command(name: str) -> None:
    assert str(Verbs().commands[name].help).splitlines()[0] == VERBS[name]


def test_help_lists_every_command_without_loading_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(name: str, package: str) -> None:
        raise AssertionError(name, package)

    monkeypatch.setattr("clusterplan.planner.cli.verbs.import_module", never)
    answer = CliRunner().invoke(app, ["--help"])
    assert answer.exit_code == 0
    assert all(f"  {name} " in answer.output for name in VERBS)


def test_an_unknown_command_is_a_usage_error_that_guesses() -> None:
    answer = CliRunner().invoke(app, ["sovle"])
    assert answer.exit_code == 2
    assert "solve" in answer.output
    assert isinstance(typer.main.get_command(app), Verbs)


def test_long_lines_are_cut_between_words() -> None:
    assert _shortened("one two", 10) == "one two"
    assert _shortened("one two three four", 12) == "one two..."
