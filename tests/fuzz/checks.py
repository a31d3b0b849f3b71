"""What is checked of a solved instance: status, value, bounds and prices."""

from __future__ import annotations

import copy
import math
import random
import re
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from clusterplan.instances.common.base import Instance
from clusterplan.instances.common.errors import ClusterplanError, OptionError, UnavailableError
from clusterplan.planner.api import solve
from clusterplan.planner.verification import verify
from clusterplan.solvers.common.result import Result, SolveOptions

from .allocation import AllocationTruth
from .consolidation_truth import ConsolidationTruth, expanded
from .kinds import BUDGETS, EVERYWHERE, KINDS
from .scheduling import SchedulingTruth
from .truth import TooManyPlansError, Truth

ROUNDING = Fraction(1001, 10**12)
"""Relative; what the documentation allows a comparison of floating-point figures, and a hair for its own."""
TOLERANT = Fraction(2, 10**6)
"""Relative; what the bounds of libraries that work with tolerances may be off."""
LIBRARIES = ("milp", "cp-sat", "minlp", "geometric")


@dataclass(frozen=True)
class Finding:
    """Something that does not hold.

    Attributes
    ----------
    check
        What was checked, in a word or two; failures are of one sort if this and `solver` agree.
    solver
        Whose answer it was.
    text
        What was expected, and what was found.
    """

    check: str
    solver: str
    text: str


def trusts_library(solver: str) -> bool:
    """Return whether bounds of a solver are those of a library with tolerances."""
    return solver.startswith(LIBRARIES)


def beyond(bound: float, best: Fraction, sense: str, slack: Fraction) -> bool:
    """Return whether a bound rules out a value that a plan has, by more than a relative slack."""
    if math.isinf(bound):
        return (bound > 0) == (sense == "min")
    excess = Fraction(bound) - best if sense == "min" else best - Fraction(bound)
    return excess > slack * max(abs(best), abs(Fraction(bound)))


def findings(truth: Truth, result: Result) -> Iterator[Finding]:
    """Yield everything in a result that the plans of its instance refute."""
    for check, text in _refuted(truth, result):
        yield Finding(check, result.solver, text)


def _refuted(truth: Truth, result: Result) -> Iterator[tuple[str, str]]:
    if result.status == "error":
        yield "error", str(result.message)
        return
    if (result.plan is not None) != (result.status in ("optimal", "feasible")):
        yield "status", f"{result.status} with {'a' if result.plan is not None else 'no'} plan"
    if result.status == "infeasible" and truth.feasible:
        yield "infeasible", "there is a plan"
    costs: tuple[int, ...] | None = None
    if result.plan is not None:
        costs, wrong = truth.judge([entry.model_dump(mode="json") for entry in result.plan])
        if wrong:
            yield "plan", "; ".join(wrong)
            return
    yield from _figures(truth, result, costs)
    yield from _conclusion(result)


def _figures(truth: Truth, result: Result, costs: Sequence[int] | None) -> Iterator[tuple[str, str]]:
    """Compare value and bounds of each objective with the plans that are no worse in the earlier ones."""
    if result.objectives and [(r.name, r.sense) for r in result.objectives] != list(truth.objectives):
        yield "objectives", f"are {[r.name for r in result.objectives]}, not {truth.objectives}"
        return
    slack = TOLERANT if trusts_library(result.solver) else ROUNDING
    for index, record in enumerate(result.objectives):
        if costs is not None:
            own = truth.value(index, costs[index])
            if record.value is None or abs(Fraction(record.value) - own) > ROUNDING * abs(own):
                yield "value", f"{record.name} is {float(own):.17g}; the result says {record.value}"
        elif record.value is not None:
            yield "value", f"{record.name} is {record.value} without a plan"
        elif index:
            return
        best = truth.best(costs[:index] if costs is not None else ())
        for key, bound, allowed in (
            ("bound", record.bound, slack),
            ("certified bound", record.certified_bound, ROUNDING),
        ):
            if best is not None and bound is not None and beyond(bound, best, record.sense, allowed):
                yield key, f"{record.name} reaches {float(best):.17g}; the {key} is {bound:.17g}"


def _conclusion(result: Result) -> Iterator[tuple[str, str]]:
    """Check gaps, what is said to be proven, the status and the headline."""
    proven = True
    for record in result.objectives:
        for key, gap, bound in (
            ("gap", record.gap, record.bound),
            ("certified gap", record.certified_gap, record.certified_bound),
        ):
            right = gap_of(record.value, bound)
            if (gap is None) != (right is None) or (gap is not None and not _near(gap, right)):
                yield key, f"of {record.name} is {gap}; value {record.value} and bound {bound} make {right}"
        gap, asked = record.gap, result.options.gap
        if proven and gap is not None and _near(gap, asked):
            proven = record.proven  # as rounding has it
        proven = proven and gap is not None and (gap <= asked or _near(gap, asked))
        if record.proven != proven:
            yield "proven", f"{record.name} with a gap of {record.gap} is said to be {record.proven}"
    if result.plan is not None and (result.status == "optimal") != proven:
        yield "status", f"{result.status}, though the gaps are {[r.gap for r in result.objectives]}"
    record = result.deciding
    headline = (result.objective, result.bound, result.certified_bound)
    if record is not None and not all(
        map(_same, headline, (record.value, record.bound, record.certified_bound))
    ):
        yield "headline", f"is {headline}; it does not repeat {record.name}"


def gap_of(value: float | None, bound: float | None) -> float | None:
    """Return |value − bound| / |value|; 0 if equal, None if unknown or only the value is 0."""
    if value is None or bound is None:
        return None
    if value == bound:
        return 0.0
    return abs(value - bound) / abs(value) if value else None


def _same(a: float | None, b: float | None) -> bool:
    """Return whether two figures are the same up to rounding."""
    if a is None or b is None:
        return a is b
    return math.isclose(a, b, rel_tol=2e-9)


def _near(a: float, b: float | None) -> bool:
    """Return whether two gaps are the same, where value and bound may each be off by rounding."""
    return b is not None and math.isclose(a, b, rel_tol=2e-9, abs_tol=4e-9)


def settings(solver: str, rng: random.Random, seconds: float = 20.0) -> dict[str, Any]:
    """Return the options of a solve as plain data; tiny instances take milliseconds."""
    return {
        "threads": 1,
        "seed": 1,
        "time_limit_s": seconds,
        "gap": rng.choice([1e-6, 1e-6, 1e-6, 0.0, 0.05]),
        "method_options": BUDGETS.get(solver, {}),
    }


def solvers_of(data: dict[str, Any], rng: random.Random) -> list[str]:
    """Return the solvers that try a document: some always, the others by their share."""
    others = {} if data.get("edges") is not None else KINDS[data["kind"]].sample
    return [*EVERYWHERE, *(name for name, share in others.items() if rng.random() < share)]


def place(error: BaseException) -> str:
    """Return what an exception is and where it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/fuzz/" not in frame.filename] or frames
    last = own[-1]
    return f"{type(error).__name__} in {Path(last.filename).name}:{last.name}: {str(error)[:300]}"


def solved(
    instance: Instance, truth: Truth, solver: str, options: dict[str, Any]
) -> tuple[Result | None, list[Finding]]:
    """Return the result of a solve, None where the solver refuses, and what is wrong with it."""
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        try:
            result = solve(instance, solver, SolveOptions(**options))
            wrong = [*_checked(instance, truth, result)]
        except (OptionError, UnavailableError) as error:
            expected = solver not in EVERYWHERE
            return None, [] if expected else [Finding("refused", solver, str(error))]
        except ClusterplanError as error:
            return None, [Finding("refused", solver, f"{type(error).__name__}: {error}")]
        except Exception as error:  # noqa: BLE001  whatever escapes is what is looked for
            return None, [Finding("exception", solver, place(error))]
    wrong += [Finding("warning", solver, f"{w.category.__name__}: {w.message}") for w in raised]
    return result, wrong


def _checked(instance: Instance, truth: Truth, result: Result) -> Iterator[Finding]:
    yield from findings(truth, result)
    name = result.solver
    verification = verify(instance, result)
    if not verification.ok:
        yield Finding("verify", name, "; ".join(verification.faults))
    if Result.model_validate_json(result.to_json()) != result:
        yield Finding("json", name, "the result read from its JSON differs")
    if KINDS[instance.kind].closes and name in EVERYWHERE and result.status in ("feasible", "unknown"):
        yield Finding("unproven", name, f"{result.status}: {result.message}")


MAX_WAYS = 12_000
"""Placements that are looked through for the best value on one server more."""
EXTRA = "one more"
BUDGET = "budget_usd_per_hour"
FIT = "document in which configurations have to fit"
HOUR_S = 3600
NOTHING_H = Fraction(1, 10**6)
"""Up to so many weighted job-hours an allocation says that nothing is saved."""


@dataclass(frozen=True)
class Claim:
    """What one addition is said to win over a plan, at most, in the unit of the first objective.

    Attributes
    ----------
    what
        What is added, as the result names it.
    most
        The figure of the claim.
    changed
        The document with the addition.
    """

    what: str
    most: Fraction
    changed: dict[str, Any]


@dataclass
class Compared:
    """Claims of one result that were compared with optima, and those that do not hold."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[Finding] = field(default_factory=list)


def compared(truth: Truth, result: Result) -> Compared:
    """Return what the prices of a result claim in vain."""
    done = Compared()
    if result.prices is None or result.plan is None:
        return done
    kind = result.kind
    value = result.objectives[0].value
    assert value is not None
    slack = ROUNDING * abs(Fraction(value))
    for name, price in result.prices.items():
        if Fraction(price) < -slack:
            done.wrong.append(Finding("negative price", result.solver, f"{name} costs {price:.17g}"))
    if kind not in CLAIMS:
        return done
    claims, of = CLAIMS[kind]
    for claim in claims(truth.data, result):
        best = _best(truth, claim.changed, of)
        if best is None:
            done.counts[f"{kind} prices not compared"] += 1
            continue
        done.counts[f"{kind} prices compared"] += 1
        gain = (best - Fraction(value)) * (1 if result.objectives[0].sense == "max" else -1)
        done.counts[f"{kind} prices compared of what wins something"] += gain > slack
        if gain > claim.most + slack + ROUNDING * abs(best):
            said = f"at most {float(claim.most):.17g} is said"
            text = f"{claim.what} wins {float(gain):.17g} over {value:.17g}; {said}"
            done.wrong.append(Finding("price", result.solver, text))
    return done


def _best(truth: Truth, changed: dict[str, Any], of: Callable[[dict[str, Any]], Truth]) -> Fraction | None:
    """Return the best value of a changed document, for all solvers' results; None if it is not clear."""
    key = repr(changed)
    if key not in truth.best_changed:
        try:
            other = of(changed)
            truth.best_changed[key] = None if other.unclear else other.best()
        except TooManyPlansError:
            truth.best_changed[key] = None
    return truth.best_changed[key]


def of_servers(data: dict[str, Any], result: Result) -> Iterator[Claim]:
    """Yield what one more empty server of each shape is said to add to the value."""
    for name, price in (result.prices or {}).items():
        listed, model = re.fullmatch(r"empty server of (.+?)(?: \((.*)\))?", name).groups()  # type: ignore[union-attr]
        seen = []
        for server in expanded(data["servers"]):
            amounts = ", ".join(f"{amount:g} {r}" for r, amount in sorted(server["capacity"].items()))
            if (amounts, server.get("gpu_model")) != (listed, model) or server["capacity"] in seen:
                continue
            seen.append(server["capacity"])
            added = {k: v for k, v in server.items() if k not in ("free", "count")} | {"name": EXTRA}
            servers = [*data["servers"], added]
            yield Claim(name, Fraction(price), {**data, "servers": servers, "objectives": ["value"]})


def of_resources(data: dict[str, Any], result: Result) -> Iterator[Claim]:
    """Yield what one more unit of each resource is said to save, in job-seconds."""
    said = {
        name: Fraction(hours) * HOUR_S
        for name, hours in re.findall(r"one more (.+?)(?: saves)? at most ([\d.e+-]+)", result.message or "")
    }
    for name in result.prices or {}:
        changed = copy.deepcopy(data)
        if name == BUDGET:
            changed[BUDGET] = float(Fraction(changed[BUDGET]) + 1)
        else:
            changed["resources"][name] = float(Fraction(changed["resources"][name]) + 1)
        most = said.get("USD/h of budget" if name == BUDGET else name, said.get("unit"))
        if most is None and "saves nothing" in (result.message or ""):
            most = NOTHING_H * HOUR_S
        if most is not None:
            among = "in the configurations that fit now" in (result.message or "")
            yield Claim(name, most, {**changed, FIT: data} if among else changed)


def of_units(data: dict[str, Any], result: Result) -> Iterator[Claim]:
    """Yield by how much one more unit, in the pool or on one of the servers, is said to lower the mean."""
    record = result.objectives[0]
    assert record.value is not None
    assert record.certified_bound is not None
    gap = Fraction(record.value) - Fraction(record.certified_bound)
    for name, price in (result.prices or {}).items():
        for index in range(len(data.get("servers", [0]))):
            changed = copy.deepcopy(data)
            amounts = changed["servers"][index]["capacity"] if "servers" in data else changed["resources"]
            amounts[name] = float(Fraction(amounts.get(name, 0)) + 1)
            yield Claim(name, gap + Fraction(price), changed)


def _of_value(data: dict[str, Any]) -> Truth:
    return ConsolidationTruth(data, MAX_WAYS)


def _of_total(data: dict[str, Any]) -> Truth:
    return AllocationTruth(data, data.get(FIT))


CLAIMS: dict[str, tuple[Callable[..., Iterator[Claim]], Callable[[dict[str, Any]], Truth]]] = {
    "consolidation": (of_servers, _of_value),
    "allocation": (of_resources, _of_total),
    "scheduling": (of_units, SchedulingTruth),
}
"""What the prices of a kind claim, and how the best plan of a changed document is found."""
