"""Options of commands from the fields of a dataclass.

Pairs of names and numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from verbs import invoke

from clusterplan.instances.common.errors import OptionError
from clusterplan.planner.cli.options import pairs, taking
from clusterplan.planner.cli.solving import RunOptions, write_text


@dataclass(frozen=True, kw_only=True)
class Given:
    """A few options."""

    name: Annotated[str, typer.Argument()]
    count: Annotated[int, typer.Option("--many", help="How many.", min=1)] = 2
    loud: Annotated[bool, typer.Option("--loud")] = False


@dataclass(frozen=True, kw_only=True)
class Fewer(Given):
    """One of them with another default, in the same place."""

    count: Annotated[int, typer.Option("--few")] = 1


@taking(Given)
def greet(given: Given) -> None:
    """Greet."""
    typer.echo(repr(given))


@taking(Fewer, leave_out=("loud",))
def whisper(given: Fewer) -> None:
    """Whisper."""
    typer.echo(repr(given))


def test_a_command_takes_one_object_of_all_its_options() -> None:
    assert invoke(greet, "Ann").output == f"{Given(name='Ann')!r}\n"
    assert (
        invoke(greet, "--many", 3, "--loud", "Ann").output == f"{Given(name='Ann', count=3, loud=True)!r}\n"
    )
    assert invoke(greet, "Ann", "--many", 0).exit_code == 2
    assert invoke(greet).exit_code == 2


def test_a_command_may_change_options_and_leave_some_out() -> None:
    assert invoke(whisper, "Ann", "--few", 5).output == f"{Fewer(name='Ann', count=5)!r}\n"
    assert invoke(whisper, "Ann", "--many", 5).exit_code == 2
    assert invoke(whisper, "Ann", "--loud").exit_code == 2


def test_help_lists_options_in_the_order_of_the_fields() -> None:
    text = invoke(greet, "--help").output
    places = [text.index(word) for word in ("Greet.", "Arguments:", "--many", "--loud")]
    assert places == sorted(places)
    assert "How many." in text


def test_run_options_need_files_alone() -> None:
    assert RunOptions(files=["a"]).jobs is None
    with pytest.raises(TypeError):
        RunOptions()  # type: ignore[call-arg]


def test_text_is_written_or_appended_or_refused(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "1\n")
    write_text(tmp_path / "a", "2\n", append=True)
    assert (tmp_path / "a").read_text() == "1\n2\n"
    write_text(tmp_path / "a", "3\n")
    assert (tmp_path / "a").read_text() == "3\n"
    with pytest.raises(OptionError, match="cannot be written"):
        write_text(tmp_path / "none" / "a", "")


def test_pairs() -> None:
    """Names are different, and each has a number."""
    assert pairs("a=1, b=2", "--limit", int) == {"a": 1, "b": 2}
    for text, words in (("a", "write NAME=NUMBER"), ("a=x", "write NAME"), ("a=1,a=2", "a stands twice")):
        with pytest.raises(OptionError, match=f"--limit .*{words}"):
            pairs(text, "--limit", int)
