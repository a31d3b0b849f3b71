"""The command line in tests: in this process, in another, and its verbs."""

from __future__ import annotations

import io
import json
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from typer.testing import CliRunner

from clusterplan.planner.batch import engines
from clusterplan.planner.cli.main import main


class Done(NamedTuple):
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The JSON objects on stdout, one a line and nothing else."""
        assert self.stdout.endswith("\n")
        return [json.loads(line) for line in self.stdout.splitlines()]


Command = Callable[..., Done]


def run_here(*words: object, cwd: Path | None = None) -> Done:
    """Run the command line in this process, and leave the process as it was."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    arguments, handlers = sys.argv, logging.root.handlers
    on_signal = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    sys.argv, logging.root.handlers = ["clusterplan", *map(str, words)], []
    try:
        here, ends = chdir(cwd or Path()), pytest.raises(SystemExit)
        with here, redirect_stdout(out), redirect_stderr(err), ends as stop:
            main()
    finally:
        sys.argv, logging.root.handlers = arguments, handlers
        for number, handler in on_signal.items():
            signal.signal(number, handler)
        engines._ready.clear()  # a keeper that was started early would stay in this folder
    printed = []
    for stream in (out, err):
        stream.flush()
        stream.seek(0)
        printed.append(stream.read())
    return Done(int(str(stop.value.code or 0)), *printed)


def interrupted(command: list[str], begins: str, stop: int = signal.SIGINT) -> Done:
    """Run a command in a process of its own, and stop it once a line of stderr begins like this."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        any(line.startswith(begins) for line in process.stderr)
        process.send_signal(stop)
        said, shown = process.stderr.read(), process.stdout.read()
    return Done(process.returncode, shown, said)


def descendants(pid: int) -> set[int]:
    """Return the processes that a process has started, and those that these have."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid"], capture_output=True, text=True, check=True).stdout
    pairs = [tuple(map(int, line.split())) for line in listed.splitlines()[1:]]
    own = {child for child, parent in pairs if parent == pid}
    return own.union(*(descendants(child) for child in own))


def is_running(pid: int) -> bool:
    """Return whether there is such a process, and it is more than an entry in a table."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0]
    except OSError:
        return False


def happens(what: Callable[[], bool], within_s: float = 30) -> bool:
    """Return whether something becomes true in time; return as soon as it is."""
    deadline = time.monotonic() + within_s
    while not what() and time.monotonic() < deadline:
        time.sleep(0.01)
    return what()


def all_end(pids: set[int]) -> bool:
    """Return whether all these processes end within ten seconds."""
    return happens(lambda: not any(map(is_running, pids)), within_s=10)


def invoke(command: Callable[..., Any], *arguments: object, fails: type[Exception] | None = None) -> Any:
    """Run a verb and return what it printed, with its exit code; an exception passes unless it is expected.

    Parameters
    ----------
    fails
        What it has to raise for the command line to turn into a line and an exit code; the text is returned.
    """
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command()(command)
    answer = CliRunner().invoke(app, [*map(str, arguments)])
    if fails is not None:
        assert isinstance(answer.exception, fails), answer.output
        return str(answer.exception)
    if answer.exception is not None and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    return answer
