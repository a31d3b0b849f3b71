"""Functions that numba compiles when they are first called, which takes seconds once on a machine.

Numba is imported then too. What it compiles is kept on disk, and the time counts against the enforced clock.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

from ...instances.common.errors import OutOfTimeError
from .clock import time_left_s

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class _AtFirstCall:
    """A function that is compiled for the types of its first arguments, and kept compiled on disk."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.ready = False
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        if not self.ready:
            self._wait(arguments)
        return self.dispatcher(*arguments)

    @functools.cached_property
    def dispatcher(self) -> Any:
        from numba import njit

        # A compiled function calls others by their names in its module, which numba has to know compiled.
        names = self.function.__globals__
        for name in self.function.__code__.co_names:
            if isinstance(names.get(name), _AtFirstCall):
                names[name] = names[name].dispatcher
        # Divisions are those of NumPy: x/0 is infinite. Sums are rounded as written.
        try:
            return njit(cache=True, nogil=True, error_model="numpy")(self.function)
        except RuntimeError:  # there is no folder in which it could be kept
            return njit(nogil=True, error_model="numpy")(self.function)

    def _wait(self, arguments: tuple[Any, ...]) -> None:
        left = time_left_s()
        if left is None:
            self._compile(arguments)
            return
        # The compiler cannot be interrupted, so another thread waits for it.
        thread = threading.Thread(target=self._compile, args=(arguments,), name="compile loops")
        thread.start()
        thread.join(left)
        if thread.is_alive():
            raise OutOfTimeError(
                "compiling its loops, once on a machine, takes longer than there is time for"
            )

    def _compile(self, arguments: tuple[Any, ...]) -> None:
        self.dispatcher.compile(tuple(map(self.dispatcher.typeof_pyval, arguments)))
        self.ready = True


def compiled(function: FunctionT) -> FunctionT:
    """Return a function that numba compiles at its first call; it may call only others of its own module.

    What is kept on disk is renewed when the module changes, not when another one does. The first call raises
    an `OutOfTimeError` if the time of the enforced clock is up before the function is compiled; the
    compilation goes on for the next who calls it.
    """
    return cast("FunctionT", _AtFirstCall(function))


def is_ready(function: Callable[..., Any]) -> bool:
    """Return whether a function needs no compiling any more."""
    return not isinstance(function, _AtFirstCall) or function.ready
