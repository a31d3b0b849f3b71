"""The table of commands agrees with the commands."""

from __future__ import annotations

import itertools
import shlex
import sys

import pytest
import typer
from typer.testing import CliRunner

from clusterplan.planner.cli import main
from clusterplan.planner.cli.main import EXAMPLES, GROUPS, VERBS, Verbs, _shortened, app


@pytest.mark.parametrize("name", VERBS)
def test_the_first_line_of_help_is_that_of_the_command(name: str) -> None:
    assert str(Verbs().commands[name].help).splitlines()[0] == VERBS[name]


def test_help_lists_every_command_without_loading_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(name: str, package: str) -> None:
        raise AssertionError(name, package)

    monkeypatch.setattr("clusterplan.planner.cli.main.import_module", never)
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


def test_every_command_stands_in_one_group_and_has_examples() -> None:
    assert list(itertools.chain(*GROUPS.values())) == list(VERBS) == list(EXAMPLES)


@pytest.mark.parametrize("name", VERBS)
def test_examples_name_options_that_are_there(name: str) -> None:
    for line in EXAMPLES[name]:
        program, verb, *words = shlex.split(line)
        assert (program, verb) == ("clusterplan", name)
        command = Verbs().commands[name]
        if hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        known = {option for each in command.params for option in each.opts}
        assert [word for word in words if word.startswith("-") and word not in known] == []
        assert line in str(Verbs().commands[name].epilog)


def test_a_shell_completes_commands_without_loading_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(name: str, package: str) -> None:
        raise AssertionError(name, package)

    monkeypatch.setattr("clusterplan.planner.cli.main.import_module", never)
    words = {"_CLUSTERPLAN_COMPLETE": "complete_bash", "COMP_WORDS": "clusterplan so", "COMP_CWORD": "1"}
    answer = CliRunner().invoke(app, env=words, prog_name="clusterplan")
    assert answer.output.split() == ["solve", "solvers"]


def test_a_shell_completes_the_options_of_a_command() -> None:
    words = {
        "_CLUSTERPLAN_COMPLETE": "complete_bash",
        "COMP_WORDS": "clusterplan solve --wh",
        "COMP_CWORD": "2",
    }
    answer = CliRunner().invoke(app, env=words, prog_name="clusterplan")
    assert answer.output.split() == ["--what-if"]


def test_ctrl_c_in_a_command_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Typer would end without a word."""

    def pressed() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "load", lambda name: pressed)
    monkeypatch.setattr(sys, "argv", ["clusterplan", "doctor"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == main.WAS_INTERRUPTED + "\n"
