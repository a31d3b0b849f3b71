"""Forged results: mutated plans, prices and figures."""

from __future__ import annotations

import copy
import json
import math
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from clusterplan.formulations.registry import formulate
from clusterplan.instances.common.base import Instance
from clusterplan.instances.common.errors import ClusterplanError
from clusterplan.planner.stored_results import parse_result, verify_stored
from clusterplan.planner.verification import Verification
from clusterplan.solvers.common.result import Result

from .checks import ROUNDING, Finding, beyond, findings, place
from .shrinking import Path, found_at, nodes
from .truth import Truth

EXTREMES: tuple[Any, ...] = (
    *(0, -0.0, 1, -1, 0.5, 1e-9, 1e12, -1e12, 1e15, 1e16, 1e-300, 5e-324, 1e300, 1e308, -1e308, 10**18),
    *(2**63, 10**400, -(10**400), math.nan, math.inf, -math.inf),
)
STRANGE: tuple[Any, ...] = (
    *(None, True, False, "", "nan", "inf", "-1", "1e308", "\x1b[31m", "a\nb", "\udcff", "=1+1", "é" * 300),
    *([], {}, [[]], [None], {"": 0}, {"a": {"b": []}}),
)
BY_HOW_MUCH = (1e-12, 1e-10, 1e-9, 1e-8, 1e-6, 1e-3, 0.1, 0.5, 1.0)


def _other_number(rng: random.Random, number: float) -> Any:
    chance = rng.random()
    if chance < 0.35:
        try:
            return number * (1 + rng.choice([-1, 1]) * rng.choice(BY_HOW_MUCH))
        except OverflowError:
            return 0
    if chance < 0.55 and isinstance(number, int):
        return number + rng.choice([-2, -1, 1, 2])
    if chance < 0.65:
        return -number
    return rng.choice(EXTREMES)


def _alter(rng: random.Random, data: Any, path: Path) -> None:
    """Give a place another value."""
    holder, old = found_at(data, path[:-1]), found_at(data, path)
    if isinstance(old, int | float) and not isinstance(old, bool) and rng.random() < 0.8:
        holder[path[-1]] = _other_number(rng, old)
    else:
        holder[path[-1]] = copy.deepcopy(rng.choice(STRANGE + EXTREMES))


def _delete(rng: random.Random, data: Any, path: Path) -> None:
    """Leave an entry out."""
    del rng
    del found_at(data, path[:-1])[path[-1]]


def _repeat(rng: random.Random, data: Any, path: Path) -> None:
    """Put an entry into its list again, or under another key."""
    holder = found_at(data, path[:-1])
    entry = copy.deepcopy(holder[path[-1]])
    if isinstance(holder, list):
        holder.insert(rng.randint(0, len(holder)), entry)
        if rng.random() < 0.05:
            holder.extend([entry] * 3000)
    else:
        holder[rng.choice([f"{path[-1]}2", "x", str(path[-1]).upper(), "", "a.b", 7, None])] = entry


def _transplant(rng: random.Random, data: Any, path: Path) -> None:
    """Put here what is at another place."""
    others = [other for other, _ in nodes(data) if other]
    found_at(data, path[:-1])[path[-1]] = copy.deepcopy(found_at(data, rng.choice(others)))


def _swap(rng: random.Random, data: Any, path: Path) -> None:
    """Exchange an entry with another of its list or mapping."""
    holder = found_at(data, path[:-1])
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    other = rng.choice(keys)
    holder[path[-1]], holder[other] = holder[other], holder[path[-1]]


def _nest(rng: random.Random, data: Any, path: Path) -> None:
    """Wrap an entry in lists or mappings."""
    value = found_at(data, path)
    for _ in range(rng.choice([1, 1, 2, 40, 300])):
        value = [value] if rng.random() < 0.7 else {"a": value}
    found_at(data, path[:-1])[path[-1]] = value


CHANGES: tuple[tuple[Callable[[random.Random, Any, Path], None], float], ...] = (
    (_alter, 6),
    (_delete, 2),
    (_repeat, 1),
    (_transplant, 1),
    (_swap, 1),
    (_nest, 0.3),
)


def mutated_document(rng: random.Random, data: Any, under: Path = ()) -> Any:
    """Return a copy of plain data with one to three changes.

    Parameters
    ----------
    under
        Only what is below this place changes.
    """
    data = copy.deepcopy(data)
    changes, weights = zip(*CHANGES, strict=True)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        places = [(*under, *path) for path, _ in nodes(found_at(data, under)) if path]
        if not places:
            break
        change = rng.choices(changes, weights)[0]
        change(rng, data, rng.choice(places))
    return data


LONGEST_S = 5.0
"""Of the processor's time."""
CLAIMS = ("bound", "infeasible")
"""What the check may leave to the claimant, if it says that it did."""


def complete(verification: Verification) -> bool:
    """Return whether everything that is claimed was derived again."""
    return bool(getattr(verification, "complete", verification.ok and not verification.claimed))


def accepted(instance: Instance, truth: Truth, forged: dict[str, Any]) -> Iterator[Finding]:
    """Yield what is wrong with the check's answer to a forged result."""
    start = time.process_time()
    try:
        verification = verify_stored(instance, forged, "forged")
        if not verification.ok:
            return
        result = parse_result(forged, "forged")
    except ClusterplanError:
        return
    except Exception as error:  # noqa: BLE001  whatever escapes is what is looked for
        yield Finding("exception", "verify", place(error))
        return
    finally:
        seconds = time.process_time() - start
    if seconds > LONGEST_S:
        yield Finding("slow", "verify", f"took {seconds:.1f} s")
    for finding in findings(truth, result):
        if finding.check != "error" and (complete(verification) or finding.check not in CLAIMS):
            told = "complete" if complete(verification) else "ok"
            yield Finding("false acceptance", "verify", f"{told}, but {finding.check}: {finding.text}")
            return


def certified(instance: Instance, truth: Truth, forged: dict[str, Any]) -> Iterator[Finding]:
    """Yield what is wrong with the bounds that are derived from a forged certificate.

    Parameters
    ----------
    forged
        A result as plain data: its plan is right, its certificate is not.
    """
    formulation = formulate(instance)
    certificate, plan = forged["certificate"], forged["plan"]
    values, costs = None, ()
    try:
        if plan is not None:
            values = formulation.evaluate(formulation.parse_plan(plan))
            judged, wrong = truth.judge(plan)
            costs = judged if judged is not None and not wrong else ()
        start = time.process_time()
        formulation.certificate_fault(certificate)
        bounds = formulation.certified_bounds(certificate, values)
        seconds = time.process_time() - start
    except ClusterplanError:
        return
    except Exception as error:  # noqa: BLE001  whatever escapes is what is looked for
        yield Finding("exception", "certificate", place(error))
        return
    if seconds > LONGEST_S:
        yield Finding("slow", "certificate", f"took {seconds:.1f} s")
    for index, bound in enumerate(bounds if values is not None else bounds[:1]):
        best = truth.best(costs[:index])
        name, sense = truth.objectives[index]
        if best is not None and bound is not None and beyond(bound, best, sense, ROUNDING):
            yield Finding(
                "false acceptance", "certificate", f"{name} reaches {float(best):.17g}; proves {bound:.17g}"
            )


def _claim_optimal(rng: random.Random, data: dict[str, Any]) -> dict[str, Any]:
    """Claim that a plan is the best, in all figures alike."""
    forged = copy.deepcopy(data)
    for record in forged["objectives"]:
        record |= {"bound": record["value"], "gap": 0.0, "proven": True}
        if rng.random() < 0.5:
            record |= {"certified_bound": record["value"], "certified_gap": 0.0}
    last = forged["objectives"][-1] if forged["objectives"] else {}
    keys = ("bound", "gap", "certified_bound", "certified_gap")
    return forged | {"status": "optimal", **{key: last.get(key) for key in keys}}


def _claim_infeasible(data: dict[str, Any]) -> dict[str, Any]:
    """Claim that there is no plan."""
    figures = dict.fromkeys(("objective", "bound", "gap", "certified_bound", "certified_gap"))
    reasons = {"reasons": ["there is none"], "remedies": []}
    return {
        **data,
        **figures,
        "status": "infeasible",
        "plan": None,
        "plan_sha256": None,
        "objectives": [],
    } | {
        "prices": None,
        "diagnosis": reasons,
    }


def forgeries(rng: random.Random, result: Result) -> Iterator[dict[str, Any]]:
    """Yield results that were tampered with, as plain data."""
    data = json.loads(result.to_json())
    chance = rng.random()
    if chance < 0.1:
        yield _claim_infeasible(data)
    elif chance < 0.25:
        yield _claim_optimal(rng, data)
    for _ in range(2):
        yield mutated_document(rng, data)
    if data["plan"]:
        yield mutated_document(rng, data, ("plan",))
    if data["objectives"]:
        yield mutated_document(rng, data, ("objectives",))


def forged_certificates(
    rng: random.Random, result: Result, other: dict[str, Any] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the result with certificates that were tampered with, as plain data.

    Parameters
    ----------
    other
        A certificate that came with another plan of the instance; the result gets it as it is, too.
    """
    data = json.loads(result.to_json())
    data["certificate"] = data["certificate"] or copy.deepcopy(other)
    if not data["certificate"]:
        return
    if other is not None and rng.random() < 0.5:
        yield {**data, "certificate": other}
    for _ in range(2):
        forged = mutated_document(rng, data, ("certificate",))
        if isinstance(forged["certificate"], dict):
            yield forged
