"""Compiled loops, loaded when they are first needed: compiling them takes seconds, once on a machine."""

from __future__ import annotations

import importlib
import threading
from typing import Any

from ...instances.common.errors import OutOfTimeError
from .clock import time_left_s

_loaded: dict[str, Any] = {}


def is_loaded(module: str) -> bool:
    """Return whether a module of compiled loops is ready for use."""
    return module in _loaded


def loaded(module: str) -> Any:
    """Return a module of compiled loops, which its import compiles, or loads if an earlier one did.

    Raises
    ------
    OutOfTimeError
        If the time of the enforced clock is up before; the compilation goes on for the next who asks.
    """
    if module not in _loaded:
        # The compiler cannot be interrupted, so another thread waits for it.
        thread = threading.Thread(target=_load, args=(module,), name=f"compile {module}")
        thread.start()
        thread.join(time_left_s())
        if thread.is_alive():
            raise OutOfTimeError(
                "compiling its loops, once on a machine, takes longer than there is time for"
            )
        # In this thread an import that failed fails again, and says why.
        _load(module)
    return _loaded[module]


def _load(module: str) -> None:
    _loaded[module] = importlib.import_module(module)
