"""Results and certificates that were tampered with: whatever the check accepts has to be true."""

from __future__ import annotations

import copy
import json
import random
import time
from collections.abc import Iterator
from typing import Any

from clusterplan.formulations.registry import formulate
from clusterplan.instances.common.base import Instance
from clusterplan.instances.common.errors import ClusterplanError
from clusterplan.planner.stored_results import parse_result, verify_stored
from clusterplan.planner.verification import Verification
from clusterplan.solvers.common.result import Result

from .checks import ROUNDING, Finding, beyond, findings
from .mutation import mutated
from .solving import place
from .truth import Truth

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
        yield mutated(rng, data)
    if data["plan"]:
        yield mutated(rng, data, ("plan",))
    if data["objectives"]:
        yield mutated(rng, data, ("objectives",))


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
        forged = mutated(rng, data, ("certificate",))
        if isinstance(forged["certificate"], dict):
            yield forged
