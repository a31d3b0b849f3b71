"""The compiled loops of checks, run by Python: nothing is compiled, and what is out of range raises."""

from __future__ import annotations

import importlib
import pkgutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType

import numpy as np
import pytest

from clusterplan.formulations.common.compiled import _AtFirstCall


@contextmanager
def in_python(kind: str) -> Iterator[None]:
    """Run the loops of the check of a kind in Python, with NumPy's numbers, which may overflow."""
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        for module in checks_of(kind):
            for name, value in vars(module).items():
                if isinstance(value, _AtFirstCall):
                    patch.setattr(module, name, value.function)
        yield


@contextmanager
def ending(longest_s: float) -> Iterator[None]:
    """Raise an AssertionError where it takes more of the processor's time, as a loop without an end does."""
    before = signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, longest_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def _too_long(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise AssertionError("takes many times as long as usual")


def checks_of(kind: str) -> list[ModuleType]:
    """Return the modules of a check, with those that import compiled loops from them."""
    package = importlib.import_module(f"clusterplan.formulations.{kind}.check")
    return [
        importlib.import_module(f"{package.__name__}.{found.name}")
        for found in pkgutil.iter_modules(package.__path__)
    ]
