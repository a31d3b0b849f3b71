"""Runs the command line as a process, by `python -m clusterplan` or as `clusterplan`.

Loading takes a second, in which Ctrl-C ends the process at once: an exception would end in whichever library
is being loaded, which may make another one of it.
"""

from __future__ import annotations

import os
import signal
from importlib import import_module

INTERRUPTED = 130
"""As in `planner.exit_codes`, which loads more."""
SAID = b"interrupted before the command began\n"


def leave(*_: object) -> None:
    """End the process with one line: nothing has been done, and nothing is to be put in order."""
    os.write(2, SAID)
    os._exit(INTERRUPTED)


def program() -> None:
    """Load the command line and run it."""
    before = signal.getsignal(signal.SIGINT)
    heard = before is signal.default_int_handler  # not where Ctrl-C is ignored
    if heard:
        signal.signal(signal.SIGINT, leave)
    loaded = import_module(".planner.cli.main", __package__)
    if heard:
        signal.signal(signal.SIGINT, before)
    loaded.program()


if __name__ == "__main__":
    program()
