"""The rules between the fields of a job, written once, for one job and for columns of jobs alike."""

from __future__ import annotations

from typing import Any

from ..common.rules import Rule


def job_rules(optional: Any, unplaced: Any, runs: Any, known: Any) -> list[Rule]:
    """Return the rules of a job; words for {variant} and {variants} are to be filled in.

    Parameters
    ----------
    optional, unplaced
        Whether the job is optional, and whether `unplaced_s` is given.
    runs, known
        Whether it has a current configuration, and whether one of its variants has that name.
    """
    missing = "is missing; an optional job needs the time it counts with"
    surplus = "is set, but the job is not optional; set optional: true"
    unknown = "no variant is called {variant!r}; the variants are: {variants}"
    return [
        ("unplaced_s", optional & (unplaced ^ True), missing),
        ("unplaced_s", (optional ^ True) & unplaced, surplus),
        ("current.variant", runs & (known ^ True), unknown),
    ]
