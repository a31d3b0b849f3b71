"""How commands write an instance.

Progress of a command of several steps.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.documents import load
from clusterplan.instances.files.tables import MANY_ROWS
from clusterplan.planner.cli.instances.output import Steps, emit


def test_a_small_instance_goes_to_stdout_or_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was assumed stands on stderr, beside the name of the file."""
    instance = generate_allocation(2, 2, seed=1)
    emit(instance, None)
    assert capsys.readouterr().out.startswith("schema_version: 1\nkind: allocation\n")
    emit(instance.model_copy(update={"assumptions": ("so",)}), tmp_path / "x.yaml")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.endswith("  assumed: so\n")
    assert load(tmp_path / "x.yaml").name == instance.name


def test_a_table_needs_a_file_beside_it() -> None:
    """One that is asked for, and one that so many jobs want."""
    with pytest.raises(OptionError, match="--table needs --output FILE"):
        emit(generate_allocation(2, 2), None, "csv")
    with pytest.raises(OptionError, match="give --output FILE"):
        emit(generate_allocation(MANY_ROWS, 1), None)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [io.StringIO, _Terminal])
def test_each_step_says_when_it_is_done(monkeypatch: pytest.MonkeyPatch, stream: type[io.StringIO]) -> None:
    shown = stream()
    monkeypatch.setattr(sys, "stderr", shown)
    with Steps(quiet=False).step("reading"):
        pass
    assert "reading: done in 0." in shown.getvalue()


def test_a_step_that_fails_is_not_done(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="no"), Steps(quiet=False).step("reading"):
        raise ValueError("no")
    assert capsys.readouterr().err == "reading …\n"


def test_quiet_steps_say_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    steps = Steps(quiet=True)
    with steps.step("reading"):
        pass
    steps.done("reading", 1.0)
    assert steps.quiet
    assert capsys.readouterr().err == ""
