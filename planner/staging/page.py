"""What the page of a staging plan shows."""

from __future__ import annotations

from typing import Any, cast

from ...formulations.staging.certificate import BUDGET
from ...formulations.staging.graphs.formulation import formulation_of
from ...formulations.staging.plan import Stage
from ...instances.staging.instance import StagingInstance
from ...solvers.common.result import Result
from ...solvers.staging.frontier import describe
from ..reports.text import short
from .stages import PlanDrawing, axis_of, figures_of, limits_facts, types_table


def staging_parts(instance: StagingInstance, result: Result) -> dict[str, Any]:
    """Return the context of `plan_staging.html.j2`."""
    plan = None if result.plan is None else cast("tuple[Stage, ...]", result.plan)
    data: dict[str, Any] = {"figures": {}}
    if plan is not None:
        drawing = PlanDrawing(instance)
        data["chain"] = {**drawing.data(), "plan": drawing.plan(plan)}
    return {
        "scripts": ("choose.js", "chain.js"),
        "data": data,
        "sections": [*([("plan", "Plan")] if plan else []), ("hardware", "Types and limits")],
        "axis": axis_of(instance),
        "figures": figures_of(describe(formulation_of(instance), plan)) if plan else [],
        "types": types_table(instance, plan, result.prices),
        "budget_price": _budget_price(result),
        "limits": limits_facts(instance),
        "about": [],
    }


def _budget_price(result: Result) -> str | None:
    price = (result.prices or {}).get(BUDGET, 0.0)
    return f"One more USD/h of budget is worth {short(price, 4)} at first." if price > 0 else None
