"""Where the process of the command line begins: loading takes a second, in which Ctrl-C ends it at once."""

from __future__ import annotations

import os
import signal

INTERRUPTED = 130
"""As in `exit_codes`, which loads more."""
SAID = b"interrupted before the command began\n"


def leave(*_: object) -> None:
    """End the process with one line: nothing has been done, and nothing is to be put in order.

    An exception would end in whichever library is being loaded, which may make another one of it.
    """
    os.write(2, SAID)
    os._exit(INTERRUPTED)


def program() -> None:
    """Run the command line as a process."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is ignored
        signal.signal(signal.SIGINT, leave)
    from .main import program as loaded

    loaded()
