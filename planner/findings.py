"""Findings of a verification: what was derived again, what is only claimed, and what is false.

A verification has three answers. Everything that is claimed was derived again (`complete`); nothing is
false, but something is only claimed (`ok` alone); or something is false. `FrontierCheck` is the part of
the verification of a frontier that all kinds share.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BeforeValidator

from ..formulations.common.tolerance import agree
from ..instances.common.base import Instance, card
from ..instances.common.errors import MOST_FAULTS
from ..instances.common.fields import Model
from ..solvers.common.conclude import library_versions
from ..solvers.common.frontier import AnyFrontier
from ..solvers.common.result import Result

TITLES = {
    "faults": "wrong",
    "claimed": "ONLY CLAIMED",
    "confirmed": "confirmed",
    "stated": "stated, not checked",
}
HOLDS = "every constraint holds"
"""How what is confirmed of a plan, or of those of a frontier, begins."""


def _first_of(lines: Sequence[str]) -> Sequence[str]:
    """Return of many faults the first hundred, and how many more there are."""
    more = len(lines) - MOST_FAULTS
    return lines if more <= 1 else (*lines[:MOST_FAULTS], f"… and {more:,} more faults")


class Verification(Model):
    """What the check found.

    Attributes
    ----------
    ok
        Whether nothing is false.
    complete
        Whether everything that is claimed was derived again here, so that nothing rests on a solver's word.
    within
        What `optimal` or `complete` means in the result where more than the default gap or error was
        allowed; else None.
    faults
        Each broken constraint, and each stored figure, word or status that does not agree.
    confirmed
        What was derived again and agrees.
    claimed
        What only the solver vouches for: bounds better than those derived here and what rests on them,
        that no plan exists, prices, and sentences of ours in words that are not derived here.
    stated
        What is no claim about the instance: free text, and facts about the run.
    """

    instance: str
    ok: bool
    complete: bool
    within: str | None = None
    faults: Annotated[tuple[str, ...], BeforeValidator(_first_of)] = ()
    confirmed: tuple[str, ...] = ()
    claimed: tuple[str, ...] = ()
    stated: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The answer in a few words."""
        if not self.ok:
            return "VERIFICATION FAILED"
        within = f"; {self.within}" if self.within else ""
        if self.complete:
            return f"verified{within}"
        more = f" and {len(self.claimed) - 2} more" if len(self.claimed) > 2 else ""
        plan = any(line.startswith(HOLDS) for line in self.confirmed)
        checked = "plan verified, " if plan else ""
        return f"{checked}ONLY CLAIMED: {'; '.join(self.claimed[:2])}{more}{within}"

    def lines(self) -> list[str]:
        """Return the findings, a line each with its title."""
        return [f"{title}: {line}" for name, title in TITLES.items() for line in getattr(self, name)]

    def _repr_html_(self) -> str:
        """Return the summary that a notebook shows."""
        return card(f"{self.instance}: {self.verdict}", (), (), [(line,) for line in self.lines()])


@dataclass
class Findings:
    """What a check has found so far; see `Verification`."""

    faults: list[str] = field(default_factory=list)
    confirmed: list[str] = field(default_factory=list)
    claimed: list[str] = field(default_factory=list)
    stated: list[str] = field(default_factory=list)
    within: str | None = None

    def other_words(self, what: str, versions: Mapping[str, str]) -> None:
        """Note that sentences of ours are not the ones derived here.

        What this very version has written is false then; another version may have had other words.
        """
        wrote, here = (v.get("clusterplan") for v in (versions, library_versions()))
        if wrote == here:
            self.faults.append(what)
        else:
            self.claimed.append(f"{what}; version {wrote!r} wrote it, and this is {here!r}")

    def verification(self, instance: str) -> Verification:
        """Return the answer; where something is false, nothing else is worth saying."""
        ok = not self.faults
        return Verification(
            instance=instance,
            ok=ok,
            complete=ok and not self.claimed,
            within=self.within if ok else None,
            faults=tuple(self.faults),
            confirmed=tuple(self.confirmed) if ok else (),
            claimed=tuple(self.claimed) if ok else (),
            stated=tuple(self.stated) if ok else (),
        )


def head_faults(instance: Instance, stored: Result | AnyFrontier, what: str) -> Iterator[str]:
    """Check that a result or frontier is of this very instance."""
    if stored.instance_sha256 != instance.sha256():
        yield f"instance_sha256 does not agree: the {what} is of another instance, or it was changed since"
    if stored.instance != instance.name:
        yield f"instance is stored as {stored.instance!r}; it is called {instance.name!r}"


def stated_facts(stored: Result | AnyFrontier, facts: Sequence[str], run: str) -> Iterator[str]:
    """Yield the parts of a result or frontier that are no claim about the instance."""
    yield ", ".join(name for name in facts if getattr(stored, name, None) not in (None, 0.0, {}, ()))
    if stored.limit != "none":
        yield f"that a {stored.limit} limit ended the {run}"


def refused(instance: str, *faults: str) -> Verification:
    """Return the answer for a result that is not even worth checking."""
    return Findings(faults=list(faults)).verification(instance)


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
