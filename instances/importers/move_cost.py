"""What a move costs in instances of clusters in use: so much that it has to pay."""

from __future__ import annotations

from typing import Any

RESTART_COST_H = 0.25
"""Hours of its value that a job loses by a move: to stop, to wait, to load, and what was not yet saved."""


def move_cost(moving: bool) -> dict[str, Any]:
    """Return the fields of an instance that say what a move costs; none if nothing that runs may move."""
    return {"restart_cost_h": RESTART_COST_H} if moving else {}


def about_moves() -> str:
    """Say what a move costs, and that it is an assumption."""
    return (
        f"A job that is moved or stopped loses {RESTART_COST_H:g} hours of its value, so that a move has to "
        "pay: an assumption; --restart-cost of solve says otherwise."
    )
