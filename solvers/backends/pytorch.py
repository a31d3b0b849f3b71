"""PyTorch for methods that learn: seeded, and without a trace for others of the process.

It is imported as an untyped module, so that types are checked alike with and without it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from ...instances.common.errors import OutOfTimeError
from .threads import GLOBAL_STATE

LOADING_S = 3.0
"""PyTorch takes up to so many seconds to load, and cannot be interrupted meanwhile."""


def refuse_late_loading(left_s: float | None) -> None:
    """Raise where loading PyTorch takes longer than there is time for.

    Raises
    ------
    OutOfTimeError
        If it is not loaded yet, and less time is left than that may take.
    """
    if left_s is not None and left_s < LOADING_S and "torch" not in sys.modules:
        raise OutOfTimeError("loading PyTorch takes longer than there is time for")


@contextmanager
def one_torch(seed: int, threads: int | None) -> Iterator[None]:
    """Seed PyTorch and set its threads; both are as before at the end, and no other thread's."""
    torch = import_module("torch")
    before = torch.get_num_threads()
    with GLOBAL_STATE, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            torch.set_num_threads(threads or 1)  # on so small a network more threads only wait
            yield
        finally:
            torch.set_num_threads(before)
