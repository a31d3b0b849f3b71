"""What is left of a search that is interrupted from the keyboard: the last answer that it has kept."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from .base import Outcome


@dataclass
class _Kept:
    """The last answer to one formulation."""

    formulation: Any
    outcome: Callable[[], Outcome] | None = None


_kept: ContextVar[_Kept | None] = ContextVar("kept", default=None)


def is_part_of_a_solve() -> bool:
    """Return whether this solve is a part of another one, which needs its whole answer."""
    return _kept.get() is not None


def keep(formulation: Any, outcome: Callable[[], Outcome]) -> None:
    """Keep a way to the answer of a search that is interrupted; the last one counts, and is called then.

    Parameters
    ----------
    formulation
        What it answers; answers to parts of the problem are no answers to the whole.
    """
    kept = _kept.get()
    if kept is not None and kept.formulation is formulation:
        kept.outcome = outcome


def stoppable(formulation: Any, solve: Callable[[], Outcome]) -> Outcome:
    """Return the outcome of a solve; after Ctrl-C what its search has kept.

    Raises
    ------
    KeyboardInterrupt
        If it has kept nothing yet.
    """
    kept = _Kept(formulation)
    before = _kept.set(kept)
    try:
        return solve()
    except KeyboardInterrupt:
        if kept.outcome is None:
            raise
        outcome = kept.outcome()
        outcome.limit = "interrupt"
        return outcome
    finally:
        _kept.reset(before)
