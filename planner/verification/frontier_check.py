"""The part of a frontier's check that all kinds share."""

from __future__ import annotations

from collections.abc import Iterator

from ...instances.common.base import Instance
from ...solvers.common.frontier import AnyFrontier
from .findings import Findings

FACTS = ("options", "versions", "runtime_s", "assumptions")
"""What a frontier says of the run, or in free text."""


def frontier_faults(instance: Instance, frontier: AnyFrontier) -> Iterator[str]:
    """Check that a frontier is of this very instance, and that its status goes with its points."""
    if frontier.instance_sha256 != instance.sha256():
        yield "instance_sha256 does not agree: the frontier is of another instance, or it was changed since"
    if frontier.instance != instance.name:
        yield f"instance is stored as {frontier.instance!r}; it is called {instance.name!r}"
    if frontier.status == "complete" and not frontier.points:
        yield "status is stored as complete, without points"
    if frontier.status == "infeasible" and frontier.points:
        yield "status is stored as infeasible, with points"
    if frontier.certified_error is not None and not frontier.points:
        yield "certified_error is given, without points"
    if frontier.diagnosis is not None and frontier.status != "infeasible":
        yield f"diagnosis says why there is no plan; the status is {frontier.status}"


def note_extent(found: Findings, frontier: AnyFrontier, most: str, default: float) -> None:
    """Note an error that is not certified as claimed, and the meaning of `complete` or `infeasible`.

    Parameters
    ----------
    most
        Words for the dearest plans that were looked for, where that is less than the instance allows.
    default
        An error up to this one needs no mention.
    """
    error = frontier.error
    if frontier.status == "infeasible" and most:
        found.within = f"infeasible means no plan{most} here"
    if frontier.status != "complete":
        return
    if frontier.certified_error is None or frontier.certified_error > error:
        found.claimed.append(f"that no plan{most} beats the points by more than {error:g}")
    told = [f"an error of at most {error:g}"] if error > default else []
    told += [f"all plans{most}"] if most else []
    if told:
        found.within = f"complete means {' for '.join(told)} here"


def stated(frontier: AnyFrontier) -> Iterator[str]:
    """Yield the parts of a frontier that are no claim about the instance."""
    yield ", ".join(name for name in FACTS if getattr(frontier, name, None) not in (None, 0.0, {}, ()))
    if frontier.limit != "none":
        yield f"that a {frontier.limit} limit ended the search"
    if frontier.status == "partial":
        yield "that better points may be missing"
