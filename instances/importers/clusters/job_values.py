"""Values of jobs and costs of moves for clusters in use, and the options that choose them.

The value of a job is the number of GPUs that it demands, its priority, or their product. A moved job loses
a part of its value, so that a plan moves jobs only where it gains more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, get_args

from ...common.errors import some
from ..importer import Option

Running = Annotated[
    Literal["move", "stay"],
    Option("stay: running jobs keep what they have; move: they may move."),
]
Drained = Annotated[
    Literal["empty", "stay"],
    Option("empty: jobs move off nodes that are being drained; stay: they keep what they have there."),
]
Spread = Annotated[
    Literal["required", "preferred", "free"],
    Option("How jobs of several tasks or pods may spread over servers."),
]


RESTART_COST_H = 0.25
"""Hours of its value that a job loses by a move: stopping, waiting, loading, and progress not yet saved."""


def move_cost(moving: bool) -> dict[str, Any]:
    """Return the field of an instance with the cost of a move; none if no running job may move."""
    return {"restart_cost_h": RESTART_COST_H} if moving else {}


def move_cost_note() -> str:
    """Return the assumption on the cost of moving a running job."""
    return (
        f"A job that is moved or stopped loses {RESTART_COST_H:g} hours of its value, so that a move has to "
        "pay: an assumption; --restart-cost of solve says otherwise."
    )


Rule = Literal["gpus", "priority", "priority-then-gpus"]
Value = Annotated[
    Rule,
    Option(
        "What a job is worth. gpus: the GPUs it asks for; priority: its priority; priority-then-gpus: its "
        "priority for each GPU, so that GPUs go to the highest priority first."
    ),
]
RULES: tuple[Rule, ...] = get_args(Rule)
HIGHEST = 1000.0
"""Weight of the highest priority where the lowest has weight 1; priorities are ordinal, on any scale."""
NAMED = 3
"""Number of jobs without a priority that a note names."""


def priority_weights(priorities: Sequence[float | None]) -> list[float]:
    """Return priorities scaled linearly to 1 to 1,000; 1 for a missing one, and if all are equal."""
    known = [priority for priority in priorities if priority is not None]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    span = high - low or 1.0
    return [
        1.0 if priority is None else round(1.0 + (HIGHEST - 1.0) * (priority - low) / span, 3)
        for priority in priorities
    ]


def worths(rule: Rule, gpus: Sequence[float], priorities: Sequence[float | None]) -> list[float]:
    """Return the objective value of placing each job; a job without GPUs counts as one GPU.

    Parameters
    ----------
    gpus, priorities
        GPUs and priority of each job; None if it has no priority.
    """
    counted = [amount or 1.0 for amount in gpus]
    if rule == "gpus":
        return counted
    if rule == "priority":
        return priority_weights(priorities)
    return [weight * amount for weight, amount in zip(priority_weights(priorities), counted, strict=True)]


def job_value_note(rule: Rule, jobs: Sequence[str], priorities: Sequence[float | None]) -> str:
    """Return the assumption on the values of jobs, with the names of jobs without a priority.

    Parameters
    ----------
    jobs
        The names of the jobs.
    """
    if rule == "gpus":
        return "A job is worth the GPUs that it asks for, one that asks for none is worth 1."
    known = [priority for priority in priorities if priority is not None]
    scale = "all are the same and count 1"
    if known and min(known) < max(known):
        scale = (
            f"the lowest, {min(known):,.0f}, counts 1, the highest, {max(known):,.0f}, counts {HIGHEST:,.0f}"
        )
    each = "" if rule == "priority" else " for each GPU that it asks for (for 1 where it asks for none)"
    without = [name for name, priority in zip(jobs, priorities, strict=True) if priority is None]
    none = f" Without a priority, and so counted as the lowest: {some(without, NAMED)}." if without else ""
    return f"A job is worth its priority{each}: {scale}.{none}"
