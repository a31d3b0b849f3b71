"""Progress of a command of several steps."""

from __future__ import annotations

import io
import sys

import pytest

from clusterplan.planner.cli.instances.steps import Steps


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
