"""The first second of the command line, in which it is loaded."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

import clusterplan.__main__ as start
from clusterplan.planner import exit_codes

WHILE_LOADING = """
import os, signal, sys
import clusterplan.__main__ as start

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "clusterplan.planner.cli.main":
            os.kill(os.getpid(), signal.SIGINT)

handler = signal.SIG_IGN if sys.argv[1] == "ignored" else signal.default_int_handler
signal.signal(signal.SIGINT, handler)
sys.meta_path.insert(0, Finder())
sys.argv = ["clusterplan", "--version"]
start.program()
"""


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    """Return what a process printed, and how it ended."""
    return subprocess.run([sys.executable, *argv], capture_output=True, text=True, check=False)


def test_ctrl_c_while_loading_ends_it_with_a_line() -> None:
    """No traceback, and the exit code of what was interrupted."""
    ended = run("-c", WHILE_LOADING, "heard")
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", start.SAID.decode())
    assert start.INTERRUPTED == exit_codes.INTERRUPTED


def test_where_ctrl_c_is_ignored_it_stays_so() -> None:
    """As for processes in the background of a script."""
    ended = run("-c", WHILE_LOADING, "ignored")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_handler_of_others_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Afterwards Ctrl-C does again what it did."""
    from clusterplan.planner.cli import main

    def other(*_: object) -> None: ...

    before = signal.signal(signal.SIGINT, other)
    monkeypatch.setattr(main, "program", lambda: None)
    try:
        start.program()
        assert signal.getsignal(signal.SIGINT) is other
    finally:
        signal.signal(signal.SIGINT, before)
