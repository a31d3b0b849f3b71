"""What results say that one more server or unit is worth, against the best plan once it is there.

Prices of consolidation and allocation are upper bounds on what is won over the plan, those of scheduling on
what is won beyond the certified gap. Those of staging only order its types, so they need not bound anything.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from clusterplan.solvers.common.result import Result

from .allocation_truth import AllocationTruth
from .checks import ROUNDING, Finding
from .consolidation_truth import ConsolidationTruth, expanded
from .scheduling_truth import SchedulingTruth
from .truth import TooManyPlansError, Truth

MOST_WAYS = 12_000
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
    return ConsolidationTruth(data, MOST_WAYS)


def _of_total(data: dict[str, Any]) -> Truth:
    return AllocationTruth(data, data.get(FIT))


CLAIMS: dict[str, tuple[Callable[..., Iterator[Claim]], Callable[[dict[str, Any]], Truth]]] = {
    "consolidation": (of_servers, _of_value),
    "allocation": (of_resources, _of_total),
    "scheduling": (of_units, SchedulingTruth),
}
"""What the prices of a kind claim, and how the best plan of a changed document is found."""
