"""Checking a stored result against its instance, without trusting whoever made it.

The objective is recomputed from the plan, every constraint is checked, the elementary bound is derived
again, and every stored figure has to agree. What only the solver vouches for is listed as claimed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from ..formulations.base import Formulation, agree
from ..formulations.registry import FORMULATIONS, formulate
from ..instances.base import Instance
from ..instances.card import card
from ..instances.errors import MOST_FAULTS, Faults, InstanceError
from ..instances.fields import Model
from ..instances.json_reading import TooMuchError, check_size
from ..instances.reading import fail, read_text
from ..instances.validation import validated
from ..solvers.allocation_frontier import AllocationFrontier
from ..solvers.frontier import Frontier
from ..solvers.result import ObjectiveRecord, Result, plan_hash
from ..solvers.run import contradiction, objective_records

_INK = re.compile(r"\S")


def _first_of(lines: Sequence[str]) -> Sequence[str]:
    """Return of many faults the first hundred, and how many more there are."""
    more = len(lines) - MOST_FAULTS
    return lines if more <= 1 else (*lines[:MOST_FAULTS], f"… and {more:,} more faults")


class Verification(Model):
    """What the check found.

    Attributes
    ----------
    ok
        Whether nothing is wrong.
    faults
        Each broken constraint, and each stored figure that does not agree.
    confirmed
        What was derived again and agrees.
    claimed
        What only the solver vouches for.
    """

    instance: str
    ok: bool
    faults: Annotated[tuple[str, ...], BeforeValidator(_first_of)] = ()
    confirmed: tuple[str, ...] = ()
    claimed: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        found = ("wrong", self.faults), ("confirmed", self.confirmed), ("not re-derived here", self.claimed)
        rows = [(f"{title}: {line}",) for title, lines in found for line in lines]
        return card(f"{self.instance}: {'verified' if self.ok else 'VERIFICATION FAILED'}", (), (), rows)


def _differs(stored: float | None, derived: float | None) -> bool:
    if stored is None or derived is None:
        return stored is not derived
    return not agree(stored, derived)


def _shown(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.10g}"


def _record_faults(stored: ObjectiveRecord, derived: ObjectiveRecord, place: str) -> Iterator[str]:
    """Compare a stored record with the one derived from the plan, the stored bound being taken as given."""
    for field in ("name", "sense", "unit", "proven"):
        if getattr(stored, field) != getattr(derived, field):
            yield f"{place}.{field} is stored as {getattr(stored, field)}; it is {getattr(derived, field)}"
    for field in ("value", "bound", "gap", "certified_bound", "certified_gap"):
        old, new = getattr(stored, field), getattr(derived, field)
        if _differs(old, new):
            yield f"{place}.{field} is stored as {_shown(old)}; recomputed it is {_shown(new)}"


def _headline_faults(result: Result) -> Iterator[str]:
    """Check that the top level repeats the deciding record, and that the status says no more."""
    record = result.deciding
    for field, source in (
        ("objective", "value"),
        ("bound", "bound"),
        ("gap", "gap"),
        ("certified_bound", "certified_bound"),
        ("certified_gap", "certified_gap"),
    ):
        old, new = getattr(result, field), getattr(record, source) if record else None
        if _differs(old, new):
            yield f"{field} is stored as {_shown(old)}; the objectives say {_shown(new)}"
    proven = bool(result.objectives) and all(record.proven for record in result.objectives)
    if result.plan is not None and (result.status == "optimal") != proven:
        yield f"status is stored as {result.status}; the gaps say {'optimal' if proven else 'feasible'}"
    if (result.plan is not None) != (result.status in ("optimal", "feasible")):
        yield f"status is stored as {result.status}, with{'out' if result.plan is None else ''} a plan"


def _plan_faults(formulation: Formulation[Any, Any], result: Result) -> Iterator[str]:
    """Check constraints, then every figure that depends on the plan."""
    assert result.plan is not None
    broken = formulation.violations(result.plan)
    yield from (f"broken constraint: {violation}" for violation in broken)
    if not broken:
        values = formulation.evaluate(result.plan)
        bounds = [record.bound for record in result.objectives]
        certified = formulation.certified_bounds(result.certificate, values)
        if refuted := contradiction(formulation, certified, values):
            yield f"certificate: it would prove {refuted}"
            certified = formulation.elementary_bounds()
        derived = objective_records(formulation, values, bounds, certified, result.options.gap)
        if len(result.objectives) != len(derived):
            yield f"objectives has {len(result.objectives)} records; the instance has {len(derived)}"
        for index, (old, new) in enumerate(zip(result.objectives, derived, strict=False)):
            yield from _record_faults(old, new, f"objectives[{index}] ({new.name})")
            if old.bound is not None and formulation.objectives[index].better(values[index], old.bound):
                yield f"objectives[{index}] ({new.name}): the plan is better than the stored bound"
    if result.plan_sha256 != plan_hash(result.plan):
        yield "plan_sha256 does not agree with the plan: the plan was altered after it was solved"


def _unchecked(formulation: Formulation[Any, Any], result: Result) -> Iterator[str]:
    """Name what the result holds that this check says nothing about."""
    own = None if result.plan is None else formulation.prices(result.certificate, result.plan)
    if result.prices is not None and result.prices != own:
        yield f"prices, claimed by {_claimant(result)}"
    if result.limit != "none":
        yield f"that a {result.limit} limit ended the solve"
    if result.status == "unknown":
        yield "that no plan was found; a plan may exist or not"


def _claimant(result: Result) -> str:
    return result.solver if result.backend is None else f"{result.solver} ({result.backend})"


def _proves_infeasible(formulation: Formulation[Any, Any], certificate: Any) -> bool:
    return any(bound is not None and math.isinf(bound) for bound in formulation.certified_bounds(certificate))


def verify(instance: Instance, result: Result) -> Verification:
    """Check a result against its instance.

    Returns
    -------
    verification
        `ok` only if every constraint holds and every stored figure agrees with what is derived here.
    """
    name = instance.name
    if result.kind != instance.kind:
        return Verification(instance=name, ok=False, faults=(f"the result is of kind {result.kind}",))
    faults: list[str] = []
    if result.instance_sha256 != instance.sha256():
        faults.append(
            "instance_sha256 does not agree: the result is of another instance, or it was changed since"
        )
    if result.instance != instance.name:
        faults.append(f"instance is stored as {result.instance!r}; it is called {instance.name!r}")
    formulation = formulate(instance)
    confirmed: list[str] = []
    claimed = list(_unchecked(formulation, result))
    if result.plan is not None:
        faults += _plan_faults(formulation, result)
    else:
        elementary = formulation.elementary_infeasibility()
        if result.status == "infeasible" and elementary is not None:
            confirmed.append("infeasible: " + "; ".join(elementary.reasons))
        elif result.status == "infeasible" and _proves_infeasible(formulation, result.certificate):
            confirmed.append("infeasible: the prices of the certificate prove that there is no plan")
        elif result.status == "infeasible":
            claimed.append(f"that no plan exists, claimed by {_claimant(result)}")
    if result.certificate is not None and (wrong := formulation.certificate_fault(result.certificate)):
        faults.append(f"certificate: {wrong}")
    faults += _headline_faults(result)
    if not faults and result.plan is not None:
        confirmed.append("every constraint holds")
        for record in result.objectives:
            unit = "" if record.unit == record.name else f" {record.unit}"
            text = f"{record.name} = {_shown(record.value)}{unit}"
            confirmed.append(f"{text}, certified bound {_shown(record.certified_bound)}")
            if _differs(record.bound, record.certified_bound):
                claimed.append(
                    f"the bound {_shown(record.bound)} on {record.name}, claimed by {_claimant(result)}"
                )
    return Verification(
        instance=name, ok=not faults, faults=tuple(faults), confirmed=tuple(confirmed), claimed=tuple(claimed)
    )


def read_results(path: Path) -> list[dict[str, Any]]:
    """Return the results of a file as plain data: one JSON object, one a line, or a batch's journal.

    Raises
    ------
    InstanceError
        If the file does not hold results.
    """
    text, source = read_text(path), str(path)
    try:
        check_size(text)
    except TooMuchError as error:
        raise fail(source, str(error)) from None
    decoder, found = json.JSONDecoder(), []
    at = _INK.search(text)
    while at is not None:
        try:
            data, position = decoder.raw_decode(text, at.start())
        except (ValueError, RecursionError) as error:
            raise fail(source, f"is not JSON: {error}") from None
        at = _INK.search(text, position)
        if isinstance(data, dict) and ("journal" in data or "source" in data):
            if "result" not in data:
                continue  # the head of a batch's journal, or a file that could not be read
            data = data["result"]
        if not isinstance(data, dict) or not _is_result(data):
            raise fail(source, "is not a result; give what 'clusterplan solve --format json' printed")
        found.append(data)
    return found


def _is_result(data: dict[str, Any]) -> bool:
    kind = data.get("kind")
    return isinstance(kind, str) and kind in FORMULATIONS and "instance_sha256" in data


def parse_result(data: dict[str, Any], source: str, most: int | None = None) -> Result:
    """Return a stored result.

    Parameters
    ----------
    most
        Entries that a plan of its instance may have; None: any number.

    Raises
    ------
    InstanceError
        Naming each field, of the plan too, that has a value which is not allowed.
    """
    plan = data.get("plan")
    faults = Faults()
    if plan is not None and not isinstance(plan, list):
        raise fail(source, "is not a list of entries", "plan")
    if most is not None and plan is not None and len(plan) > most:
        raise fail(source, f"has {len(plan):,} entries; a plan of the instance has at most {most:,}", "plan")
    for index, entry in enumerate(plan or ()):
        try:
            validated(FORMULATIONS[data["kind"]].entry, entry, source)
        except InstanceError as error:
            faults.add_all(error, f"plan[{index}]")
            if faults.stop():
                break
    faults.refuse()
    return validated(Result, data, source)


def verify_stored(instance: Instance, data: dict[str, Any], source: str) -> Verification:
    """Check a result as it was read from a file; a field that is not allowed is a fault like any other."""
    if data["kind"] != instance.kind:
        fault = f"the result is of kind {data['kind']}; the instance is of kind {instance.kind}"
        return Verification(instance=instance.name, ok=False, faults=(fault,))
    try:
        if is_frontier(data):
            from .pareto import verify_frontier

            return verify_frontier(instance, parse_frontier(data, source))
        return verify(instance, parse_result(data, source, most_entries(instance)))
    except InstanceError as error:
        faults = tuple(f"{fault.path}: {fault.what}" for fault in error.faults)
        return Verification(instance=instance.name, ok=False, faults=faults)


def most_entries(instance: Instance) -> int:
    """Return how many entries a plan of an instance has at most: one for each job or layer."""
    sizes = instance.sizes()
    return sizes["layers" if instance.kind == "staging" else "jobs"]


def parse_frontier(data: dict[str, Any], source: str) -> Frontier | AllocationFrontier:
    """Return a stored frontier.

    Raises
    ------
    InstanceError
        Naming each field that has a value which is not allowed.
    """
    models: dict[str, type[Frontier | AllocationFrontier]]
    models = {"staging": Frontier, "allocation": AllocationFrontier}
    if data["kind"] not in models:
        raise fail(source, f"is {data['kind']!r}; frontiers are of {' or '.join(models)}", "kind")
    return validated(models[data["kind"]], data, source)


def is_frontier(data: dict[str, Any]) -> bool:
    """Return whether stored data are a frontier and not a single result."""
    return "points" in data


def of_instance(instance: Instance, results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the results of this instance; all of them if none is, so that each says why."""
    digest = instance.sha256()
    return [data for data in results if data["instance_sha256"] == digest] or results
