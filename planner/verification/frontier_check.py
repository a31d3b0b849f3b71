"""The part of a frontier's check that all kinds share."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from ...formulations.common.tolerance import agree
from ...instances.common.base import Instance
from ...solvers.common.frontier import AnyFrontier
from .findings import HOLDS, Findings, Verification, head_faults, stated_facts

FACTS = ("options", "versions", "runtime_s", "assumptions")
"""What a frontier says of the run, or in free text."""


def frontier_faults(instance: Instance, frontier: AnyFrontier) -> Iterator[str]:
    """Check that a frontier is of this very instance, and that its status goes with its points."""
    yield from head_faults(instance, frontier, "frontier")
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
    yield from stated_facts(frontier, FACTS, "search")
    if frontier.status == "partial":
        yield "that better points may be missing"


class FrontierCheck(ABC):
    """The check of a frontier against its instance: every plan, every figure, and the error that it proves.

    Attributes
    ----------
    default_error
        An error up to this one needs no mention.
    most
        Words for the dearest plans that were looked for; empty where all were.
    narrower
        The same words where that is less than the instance allows.
    shared
        How far the check took tables from the methods, in a sentence; None if not at all.
    """

    default_error: float
    shared: str | None = None

    def __init__(self, instance: Any, frontier: Any) -> None:
        self.instance, self.frontier = instance, frontier
        self.most = self.narrower = ""

    @abstractmethod
    def faults(self) -> Iterator[str]:
        """Yield what is wrong beside the head."""

    @abstractmethod
    def check_infeasible(self, found: Findings) -> None:
        """Check that no plan exists, and why."""

    def claimed(self) -> Iterator[str]:
        """Yield the claims that only the solver makes."""
        return iter(())

    def given(self) -> Iterator[str]:
        """Yield what was given beside the instance."""
        return iter(())

    def verification(self) -> Verification:
        """Return the answer."""
        found, frontier = Findings(), self.frontier
        found.faults += [*frontier_faults(self.instance, frontier), *self.faults()]
        if frontier.status == "infeasible" and not found.faults:
            self.check_infeasible(found)
        if found.faults:
            return found.verification(self.instance.name)
        error = frontier.certified_error
        found.confirmed += [f"{HOLDS} for each of {len(frontier.points)} plans"] if frontier.points else []
        found.confirmed += [] if self.shared is None else [self.shared]
        if error is not None:
            found.confirmed.append(f"no plan{self.most} beats the points by more than {error:g}")
        note_extent(found, frontier, self.narrower, self.default_error)
        found.claimed += self.claimed()
        found.stated += [*self.given(), *stated(frontier)]
        return found.verification(self.instance.name)


def order_faults(frontier: AnyFrontier) -> Iterator[str]:
    """Check that every point is slower and cheaper than the one before."""
    figures = [(getattr(point, frontier.slow), getattr(point, frontier.dear)) for point in frontier.points]
    for index, (a, b) in enumerate(itertools.pairwise(figures)):
        if not (a[0] < b[0] and a[1] > b[1]):
            yield f"points[{index + 1}] is not slower and cheaper than the one before"


def altered(place: str, stored: float, derived: float, words: str = "recomputed it is") -> Iterator[str]:
    """Compare a stored figure with the derived one."""
    if not agree(stored, derived):
        yield f"{place} is stored as {stored:.10g}; {words} {derived:.10g}"
