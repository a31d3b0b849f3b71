"""The compiled loops of the search (`kernels.py`), made ready when a search begins."""

from __future__ import annotations

import importlib
import threading
from typing import Any

from ...instances.common.errors import OutOfTimeError
from ..common.base import Clock

KERNELS = f"{__package__}.kernels"


def compiled() -> Any:
    """Return the module of compiled loops: the first time on a machine takes some seconds."""
    return importlib.import_module(KERNELS)


def compile_in_time(clock: Clock) -> None:
    """Compile the loops, or load what was compiled before; a compilation without time goes on for the next.

    Raises
    ------
    OutOfTimeError
        If the time is up before.
    """
    # The compiler cannot be interrupted, so another thread waits for it.
    thread = threading.Thread(target=compiled, name="compilation")
    thread.start()
    thread.join(clock.remaining_s)
    if thread.is_alive():
        raise OutOfTimeError("compiling its loops, once on a machine, takes longer than there is time for")
