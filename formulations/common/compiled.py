"""Functions compiled by numba, which is imported when the first of them is called."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class _AtFirstCall:
    """A function that is compiled when it is first called, and kept compiled on disk."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        return self.compiled(*arguments)

    @functools.cached_property
    def compiled(self) -> Callable[..., Any]:
        from numba import njit

        # A compiled function calls others by their names in its module, which numba has to know compiled.
        names = self.function.__globals__
        for name in self.function.__code__.co_names:
            if isinstance(names.get(name), _AtFirstCall):
                names[name] = names[name].compiled
        try:
            made = njit(cache=True)(self.function)
        except RuntimeError:  # there is no folder in which it could be kept
            made = njit(self.function)
        return cast("Callable[..., Any]", made)


def compiled(function: FunctionT) -> FunctionT:
    """Return a function that numba compiles at its first call; it may call only others of its own module.

    What is kept on disk is renewed when the module changes, not when another one does.
    """
    return cast("FunctionT", _AtFirstCall(function))
