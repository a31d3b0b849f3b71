"""Global state of libraries, which the threads of a process have to take in turns."""

from __future__ import annotations

import contextlib
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

GLOBAL_STATE = threading.RLock()
"""Held while warnings are silenced, or PyTorch's and Optuna's settings are changed."""


@contextlib.contextmanager
def no_warnings() -> Iterator[None]:
    """Silence warnings; the filters are those of the whole process, so threads take turns."""
    with GLOBAL_STATE, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def run_highs(model: Any) -> None:
    """Run HiGHS on its model.

    In the main thread it runs in a thread of its own, so that Ctrl-C ends it and keeps its plan; highspy
    can do that only once in a process. Other threads get no Ctrl-C, and run it directly.
    """
    if threading.current_thread() is not threading.main_thread():
        model.HandleKeyboardInterrupt = False
        model.solve()
        return
    model.HandleKeyboardInterrupt = True
    with contextlib.redirect_stdout(sys.stderr):  # it says there what it does when it is interrupted
        model.solve()
