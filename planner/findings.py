"""Findings of a verification: what was recomputed and agrees, what is only claimed, and what is false.

A verification has three answers. Everything that is claimed was derived again (`complete`); nothing is
false, but something is only claimed (`ok` alone); or something is false. `FrontierCheck` is the part of
the verification of a frontier that all kinds share.
"""

from __future__ import annotations

import itertools
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BeforeValidator

from ..formulations.common.formulation import AnyFormulation
from ..formulations.common.frontier import EQUALITY_TOLERANCE, proven_error
from ..formulations.common.objective import agree
from ..instances.common.base import Instance, card
from ..instances.common.errors import MAX_FAULTS
from ..instances.common.fields import Model
from ..solvers.common.conclude import library_versions
from ..solvers.common.result import AnyFrontier, Result

TITLES = {
    "faults": "wrong",
    "claimed": "ONLY CLAIMED",
    "confirmed": "confirmed",
    "stated": "stated, not checked",
}
PLAN_IS_FEASIBLE = "every constraint holds"
"""Beginning of the line that confirms a plan, or the plans of a frontier."""


def _truncated(lines: Sequence[str]) -> Sequence[str]:
    """Return at most the first hundred faults, and a line with the number of the others."""
    more = len(lines) - MAX_FAULTS
    return lines if more <= 1 else (*lines[:MAX_FAULTS], f"… and {more:,} more faults")


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
    faults: Annotated[tuple[str, ...], BeforeValidator(_truncated)] = ()
    confirmed: tuple[str, ...] = ()
    claimed: tuple[str, ...] = ()
    stated: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The outcome of the verification in a few words."""
        if not self.ok:
            return "VERIFICATION FAILED"
        within = f"; {self.within}" if self.within else ""
        if self.complete:
            return f"verified{within}"
        more = f" and {len(self.claimed) - 2} more" if len(self.claimed) > 2 else ""
        plan = any(line.startswith(PLAN_IS_FEASIBLE) for line in self.confirmed)
        checked = "plan verified, " if plan else ""
        return f"{checked}ONLY CLAIMED: {'; '.join(self.claimed[:2])}{more}{within}"

    def lines(self) -> list[str]:
        """Return the findings as lines of text, each with its category."""
        return [f"{title}: {line}" for name, title in TITLES.items() for line in getattr(self, name)]

    def _repr_html_(self) -> str:
        """Return the HTML summary shown in notebooks."""
        return card(f"{self.instance}: {self.verdict}", (), (), [(line,) for line in self.lines()])


@dataclass
class Findings:
    """Findings collected during a check; see `Verification`."""

    faults: list[str] = field(default_factory=list)
    confirmed: list[str] = field(default_factory=list)
    claimed: list[str] = field(default_factory=list)
    stated: list[str] = field(default_factory=list)
    within: str | None = None

    def other_words(self, what: str, versions: Mapping[str, str]) -> None:
        """Record that stored text written by this package differs from the text derived here.

        It is a fault if this version wrote the text, and only a claim if another version did.
        """
        wrote, here = (v.get("clusterplan") for v in (versions, library_versions()))
        if wrote == here:
            self.faults.append(what)
        else:
            self.claimed.append(f"{what}; version {wrote!r} wrote it, and this is {here!r}")

    def verification(self, instance: str) -> Verification:
        """Return the verification, which has all fields of the findings; if there are faults, only these."""
        ok = not self.faults
        found = vars(self) if ok else {"faults": self.faults}
        return Verification(instance=instance, ok=ok, complete=ok and not self.claimed, **found)


def identity_faults(instance: Instance, stored: Result | AnyFrontier, what: str) -> Iterator[str]:
    """Yield faults if a stored result or frontier does not match the instance's hash and name."""
    if stored.instance_sha256 != instance.sha256():
        yield f"instance_sha256 does not agree: the {what} is of another instance, or it was changed since"
    if stored.instance != instance.name:
        yield f"instance is stored as {stored.instance!r}; it is called {instance.name!r}"


def stated_facts(stored: Result | AnyFrontier, facts: Sequence[str], run: str) -> Iterator[str]:
    """Yield text on the fields that state facts about the run, which cannot be verified."""
    yield ", ".join(name for name in facts if getattr(stored, name, None) not in (None, 0.0, {}, ()))
    if stored.limit != "none":
        yield f"that a {stored.limit} limit ended the {run}"


def failed_verification(instance: str, *faults: str) -> Verification:
    """Return a failed verification with these faults, without further checks."""
    return Findings(faults=list(faults)).verification(instance)


FACTS = ("options", "versions", "runtime_s", "assumptions")
"""Fields of a frontier about the run, or with free text."""


class FrontierCheck(ABC):
    """Verification of a frontier against its instance: plans, figures, bounds and the certified error.

    Attributes
    ----------
    default_error
        Largest error that is not mentioned.
    slack
        A stored error may be smaller than the derived one by so much.
    proves
        Begin of the words that name the derived error.
    shared
        Sentence on the tables that the check shares with the solvers; None if there are none.
    grid
        The steps of the frontier; None where the frontier does not say which there are.
    values, bounds
        Value of the plan, and certified bound, by step.
    """

    default_error: float
    slack = EQUALITY_TOLERANCE
    proves = "what the certificates prove is"
    shared: str | None = None
    grid: Any = None

    def __init__(self, instance: Any, frontier: Any) -> None:
        self.instance, self.frontier = instance, frontier
        self.values: dict[Any, float] = {}
        self.bounds: dict[Any, float] = {}

    @property
    def most(self) -> str:
        """Text for the range of the search, such as a cost limit; empty if it is unlimited."""
        return ""

    @property
    def narrower(self) -> str:
        """The same text if the range is narrower than the instance allows; else empty."""
        return ""

    @abstractmethod
    def head_faults(self) -> Iterator[str]:
        """Set the grid, and yield a message for each fault in what the frontier says of its range."""

    @abstractmethod
    def record_faults(self, place: str, record: Any) -> Iterator[str]:
        """Yield a message for each fault in a point or bound; keep its value and bound."""

    @abstractmethod
    def check_infeasible(self, findings: Findings) -> None:
        """Check the claim that no plan exists, and its diagnosis."""

    def records(self) -> dict[str, Any]:
        """Return the points and the other records by their places in the document."""
        return {
            f"{field}[{index}]": record
            for field in ("points", "others")
            for index, record in enumerate(getattr(self.frontier, field, ()))
        }

    def more_faults(self) -> Iterator[str]:
        """Yield further faults in the points."""
        return iter(())

    def proven(self) -> float | None:
        """Return the error that values and bounds prove, None if they prove none."""
        return proven_error(self.grid, self.values, self.bounds) if self.values else None

    def error_faults(self) -> Iterator[str]:
        """Yield a message if the certified error is not what follows from values and bounds."""
        stored = self.frontier.certified_error
        if stored is None or not self.frontier.points:
            return  # without points it may not be there, which is a fault of its own
        proven = self.proven()
        if proven is None or proven > (stored + self.slack) * (1 + EQUALITY_TOLERANCE):
            derived = "nothing" if proven is None else proven
            yield f"certified_error is stored as {stored}; {self.proves} {derived}"

    def claimed(self) -> Iterator[str]:
        """Yield the claims of the solver that this verification does not confirm."""
        return iter(())

    def given(self) -> Iterator[str]:
        """Yield inputs of the search that are not part of the instance, such as prices."""
        return iter(())

    def faults(self) -> Iterator[str]:
        """Yield a message for each fault: identity and status, records, their order, certified error."""
        frontier, status = self.frontier, self.frontier.status
        yield from identity_faults(self.instance, frontier, "frontier")
        if status == "complete" and not frontier.points:
            yield "status is stored as complete, without points"
        if status == "infeasible" and frontier.points:
            yield "status is stored as infeasible, with points"
        if frontier.certified_error is not None and not frontier.points:
            yield "certified_error is given, without points"
        if frontier.diagnosis is not None and status != "infeasible":
            yield f"diagnosis says why there is no plan; the status is {status}"
        wrong = [*self.head_faults()]
        if self.grid is not None:
            wrong += [
                fault for at, record in self.records().items() for fault in self.record_faults(at, record)
            ]
        yield from wrong
        if self.grid is not None:
            yield from self.more_faults()
            yield from self._order_faults()
            yield from () if wrong else self.error_faults()

    def follows(self, before: Any, point: Any) -> bool:
        """Return whether a point may follow another one: it is slower and cheaper."""
        slow, dear = map(operator.attrgetter, (self.frontier.slow, self.frontier.dear))
        return bool(slow(before) < slow(point) and dear(before) > dear(point))

    def _order_faults(self) -> Iterator[str]:
        """Yield a fault for each point that is not slower and cheaper than its predecessor."""
        for index, pair in enumerate(itertools.pairwise(self.frontier.points), start=1):
            if not self.follows(*pair):
                yield f"points[{index}] is not slower and cheaper than the one before"

    def verification(self) -> Verification:
        """Run all checks and return the verification."""
        findings, frontier = Findings([*self.faults()]), self.frontier
        if frontier.status == "infeasible" and not findings.faults:
            self.check_infeasible(findings)
        if findings.faults:
            return findings.verification(self.instance.name)
        error = frontier.certified_error
        if frontier.points:
            findings.confirmed.append(f"{PLAN_IS_FEASIBLE} for each of {len(frontier.points)} plans")
        if self.shared is not None:
            findings.confirmed.append(self.shared)
        if error is not None:
            findings.confirmed.append(f"no plan{self.most} beats the points by more than {error:g}")
        self._note_extent(findings)
        findings.claimed += self.claimed()
        findings.stated += [*self.given(), *stated_facts(frontier, FACTS, "search")]
        if frontier.status == "partial":
            findings.stated.append("that better points may be missing")
        return findings.verification(self.instance.name)

    def _note_extent(self, findings: Findings) -> None:
        """Record an uncertified error as a claim, and what `complete` or `infeasible` means here."""
        frontier, most = self.frontier, self.narrower
        if frontier.status == "infeasible" and most:
            findings.within = f"infeasible means no plan{most} here"
        if frontier.status != "complete":
            return
        error, certified = frontier.error, frontier.certified_error
        if certified is None or certified > error:
            findings.claimed.append(f"that no plan{most} beats the points by more than {error:g}")
        conditions = [f"an error of at most {error:g}"] if error > self.default_error else []
        conditions += [f"all plans{most}"] if most else []
        if conditions:
            findings.within = f"complete means {' for '.join(conditions)} here"


def broken_constraints(place: str, formulation: AnyFormulation, plan: Any) -> list[str]:
    """Return a fault for each constraint that the plan of a point breaks."""
    return [f"{place}: broken constraint: {violation}" for violation in formulation.violations(plan)]


def certificate_faults(
    place: str, formulation: AnyFormulation, certificate: dict[str, Any] | None
) -> Iterator[str]:
    """Yield a fault if the certificate of a record has not the form that it must have."""
    fault = None if certificate is None else formulation.certificate_fault(certificate)
    if fault is not None:
        yield f"{place}.certificate.{fault}"


def figure_faults(
    place: str, stored: float, derived: float, words: str = "recomputed it is"
) -> Iterator[str]:
    """Yield a fault if a stored figure differs from the derived one."""
    if not agree(stored, derived):
        yield f"{place} is stored as {stored:.10g}; {words} {derived:.10g}"
