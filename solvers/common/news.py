"""What a search has found so far, told while it runs to whoever shows the progress of a solve."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ...formulations.common.objective import Objective

Listener = Callable[[Objective, float | None, float | None], None]
"""Takes the objective that a search is at, the value of the incumbent and the bound, None where unknown."""

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Let what searches tell inside the block reach a listener; in this thread only."""
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


def tell(objective: Objective, value: float | None, bound: float | None) -> None:
    """Tell of an incumbent or a bound; nothing happens where nobody listens."""
    listener = _listener.get()
    if listener is not None:
        listener(objective, value, bound)
