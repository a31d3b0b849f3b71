"""The command line in this process: a fresh one would load its libraries for a second or two."""

from __future__ import annotations

import io
import logging
import signal
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from clusterplan.planner.batch import local
from clusterplan.planner.cli.main import main


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str


def run_here(*words: object, cwd: Path | None = None) -> Done:
    """Run the command line in this process, and leave the process as it was."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    arguments, handlers = sys.argv, logging.root.handlers
    on_signal = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    sys.argv, logging.root.handlers = ["clusterplan", *map(str, words)], []
    code: object = 0
    try:
        with chdir(cwd or Path()), redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as stop:
        code = stop.code
    finally:
        sys.argv, logging.root.handlers = arguments, handlers
        for number, handler in on_signal.items():
            signal.signal(number, handler)
        local._ready.clear()  # a keeper that was started early would stay in this folder
    printed = []
    for stream in (out, err):
        stream.flush()
        stream.seek(0)
        printed.append(stream.read())
    return Done(int(str(code or 0)), *printed)
