"""Output of staging plans: text table, plain data, drawing, HTML page, and changes of instances and plans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ...formulations.staging.certificate import BUDGET
from ...formulations.staging.formulation import GraphFormulation, formulation_of
from ...formulations.staging.stages import Plan, Stage, units_of
from ...instances.common.errors import OptionError
from ...instances.common.hostlist import consecutive_runs
from ...instances.staging.instance import StageType, StagingInstance
from ...solvers.common.result import Result
from ...solvers.staging.frontier import FrontierPoint, frontier_point
from ..changes import Amount, Changes, ScenarioChange, changes_of, of_field, of_rows
from ..reports.page import (
    Cell,
    CellColumn,
    Column,
    Context,
    Facts,
    ScriptData,
    Table,
    figure_column,
    number,
    table_of,
    usd,
)
from ..reports.text import TextColumn, counted, duration, listed, number_column, plain_column, short

MAX_RANGES = 6
"""Most ranges of layers that a table shows for a stage of a layer graph."""


def layers_of(stage: Stage) -> str:
    """Return the layers of a stage as ranges, such as ``0–3``, or ``0–3, 7`` in a graph."""
    if stage.layers is None:
        return f"{stage.first_layer}–{stage.last_layer}"
    ranges = consecutive_runs(stage.layers)
    shown = [str(first) if first == last else f"{first}–{last}" for first, last in ranges[:MAX_RANGES]]
    return ", ".join(shown) + (f" … ({len(stage.layers)} layers)" if len(ranges) > MAX_RANGES else "")


def columns(instance: StagingInstance, entries: Plan) -> list[TextColumn[Stage]]:
    """Return the columns of the text table of a plan's stages."""
    del instance
    return [
        ("stage", True, lambda stage: str(entries.index(stage))),
        ("layers", False, layers_of),
        plain_column("type", "type"),
        number_column("units", "units", str),
    ]


def as_data(instance: StagingInstance, plan: Plan) -> dict[str, Any]:
    """Return the stages of a plan, with the names of their layers, as plain data."""
    names = [layer.name for layer in instance.layers]
    return {
        "stages": [
            {**stage.model_dump(), "layers": [names[layer] for layer in stage.members]} for stage in plan
        ]
    }


RULES = {
    "overlap": "overlap",
    "sum": "add up",
    "relay": "overlap; each stage hands on what crosses it",
}


class PlanDrawing:
    """Data for the scripts that draw plans of one instance."""

    def __init__(self, instance: StagingInstance) -> None:
        self.instance, self._formulation = instance, formulation_of(instance)

    def data(self) -> ScriptData:
        """Return the names of hardware types and layers."""
        return {
            "types": [hardware.name for hardware in self.instance.types],
            "layers": [layer.name for layer in self.instance.layers],
        }

    def plan(self, plan: Plan) -> ScriptData:
        """Return stages as (first layer, last layer, type index, units, s), and units by type index.

        Layers of a graph are counted in the order of the stages, which is returned too, with the stages'
        layers as text.
        """
        units, stages, order = dict.fromkeys(range(len(self.instance.types)), 0), [], list[int]()
        for s, time_s in zip(plan, self._formulation.times_of_stages_s(plan), strict=True):
            index, first = self._formulation.type_index[s.type], len(order)
            units[index] += s.units
            order += s.members
            stages.append([first, len(order) - 1, index, s.units, float(f"{time_s:.6g}")])
        of_graph = {"order": order, "words": [layers_of(s) for s in plan]}
        return {"stages": stages, "units": units, **(of_graph if self.instance.is_graph else {})}


def figures_of(point: FrontierPoint) -> Facts:
    """Return throughput, cost, training time, USD/h and slowest stage of a plan as text."""
    return [
        ("throughput", f"{short(point.throughput_samples_per_s)} samples/s"),
        ("cost of the training", usd(point.cost_usd)),
        ("time of the training", duration(point.time_s)),
        ("price of all units", f"{short(point.rate_usd_per_hour)} USD/h"),
        ("slowest stage", duration(point.stage_time_s)),
    ]


def axis_of(instance: StagingInstance) -> str:
    """Return the title of the layer axis in the drawing of a plan."""
    return "each stage is as wide as it has layers" if instance.is_graph else "layer"


def stages_text(plan: Plan, most: int = 6) -> str:
    """Return the units and hardware types of a plan's stages as text, in the order of the layers."""
    text = " → ".join(f"{stage.units:,} {stage.type}" for stage in plan[:most])
    return text + (f" → … ({len(plan):,} stages)" if len(plan) > most else "")


def types_table(
    instance: StagingInstance, plan: Plan | None, prices: Mapping[str, float] | None = None
) -> Table:
    """Return the table of hardware types: price, available units, memory, and units in the plan."""
    used = units_of(plan or ())
    swatch = {hardware.name: index for index, hardware in enumerate(instance.types)}
    columns: list[CellColumn[StageType]] = [
        (Column("type"), lambda t: Cell(t.name, swatch=swatch[t.name])),
        figure_column("USD/h per unit", "price_usd_per_hour"),
        (
            Column("units there are", True),
            lambda t: Cell("no limit") if t.limit is None else number(t.limit),
        ),
        (
            Column("GiB per unit", True),
            lambda t: Cell("not checked") if t.memory_gib is None else number(t.memory_gib),
        ),
    ]
    if plan is not None:
        columns.append(figure_column("units in the plan", lambda t: used[t.name]))
    if prices:
        title = Column("price", True, "USD that one more unit is worth, as a first estimate")
        columns.append((title, lambda t: number(prices.get(t.name, 0.0), 4)))
    return table_of("types", "Types of hardware", instance.types, columns)


def _graph_facts(instance: StagingInstance) -> Facts:
    """Return pairs of name and text on what only layer graphs have, such as edges; else none."""
    if instance.edges is None:
        return []
    most = instance.most_units_per_stage
    formulation = formulation_of(instance)
    assert isinstance(formulation, GraphFormulation)
    apart, layers = len(formulation.classes.members), len(instance.layers)
    together = "" if apart == layers else "; colours and cycles keep the others together"
    return [
        ("edges", f"{len(instance.edges):,}"),
        ("layers that can be apart", f"{apart:,}{together}"),
        ("computing and communicating", RULES[instance.stage_cost or "overlap"]),
        ("units of a stage", "any number" if most is None else f"{most:,} at most"),
    ]


def limits_facts(instance: StagingInstance) -> Facts:
    """Return objective, limits, stage rule and training of the instance as pairs of name and text."""
    floor = instance.throughput_floor_samples_per_s
    rule = "neighbouring stages differ in type" if instance.stage_rule == "maximal_runs" else "free cuts"
    link = instance.link_gbit_per_s
    given = any(layer.transfer_s for layer in instance.layers)
    without = "seconds of transfers are given" if given else "transfers take no time"
    return [
        (
            "objective",
            {"cost": "least cost", "throughput": "most samples/s", "time": "least time"}[instance.objective],
        ),
        ("throughput floor", "none" if floor is None else f"{short(floor)} samples/s"),
        ("cost limit", "none" if instance.cost_limit_usd is None else usd(instance.cost_limit_usd)),
        (
            "hourly budget",
            "none" if instance.hourly_budget_usd is None else f"{short(instance.hourly_budget_usd)} USD/h",
        ),
        ("layers", f"{len(instance.layers):,}"),
        *_graph_facts(instance),
        ("stages", rule),
        ("training", f"{_samples(instance.training.samples)} × {short(instance.training.epochs)}"),
        ("layer times are of", _samples(instance.probe_batch)),
        ("link", f"{short(link)} Gbit/s" if link is not None else without),
    ]


def _samples(count: float) -> str:
    return f"{short(count)} {'sample' if count == 1 else 'samples'}"


def staging_parts(instance: StagingInstance, result: Result) -> Context:
    """Return the variables of `plan_staging.html.j2`, the template of a result's page."""
    plan = None if result.plan is None else cast("tuple[Stage, ...]", result.plan)
    data: ScriptData = {"figures": {}}
    price = (result.prices or {}).get(BUDGET, 0.0)
    worth = f"One more USD/h of budget is worth {short(price, 4)} at first."
    if plan is not None:
        drawing = PlanDrawing(instance)
        data["chain"] = {**drawing.data(), "plan": drawing.plan(plan)}
    return {
        "scripts": ("choose.js", "chain.js"),
        "data": data,
        "axis": axis_of(instance),
        "figures": figures_of(frontier_point(formulation_of(instance), plan)) if plan else [],
        "types": types_table(instance, plan, result.prices),
        "budget_price": worth if price > 0 else None,
        "limits": limits_facts(instance),
        "about": [],
    }


def what_if(instance: StagingInstance) -> dict[str, ScenarioChange]:
    """Return the types of scenario change by key, such as `limit` or `budget`."""
    del instance
    return {
        "limit": of_rows("limit=TYPE:UNITS", "types", "type", "limit"),
        "price": of_rows("price=TYPE:USD_PER_HOUR", "types", "type", "price_usd_per_hour"),
        "floor": of_field("floor=SAMPLES_PER_S", "throughput_floor_samples_per_s"),
        "cost": of_field("cost=USD", "cost_limit_usd"),
        "budget": of_field("budget=USD_PER_HOUR", "hourly_budget_usd"),
    }


def changes(instance: StagingInstance, before: Plan | None, after: Plan) -> Changes:
    """Return the stages that differ between two plans, and the units of each hardware type.

    Raises
    ------
    OptionError
        If `before` is None: staging instances do not describe a running plan.
    """
    if before is None:
        raise OptionError("an instance of staging does not say what runs now; give two results to compare")
    old, new = (
        {f"stage {s}": _stage_text(stage) for s, stage in enumerate(plan)} for plan in (before, after)
    )
    now, then = units_of(before), units_of(after)
    amounts = [
        Amount(f"units of {kind.name}", now[kind.name], then[kind.name], kind.limit)
        for kind in instance.types
        if now[kind.name] or then[kind.name]
    ]
    return changes_of("stage", "change", old, new, amounts)


def answer(instance: StagingInstance, plan: Plan) -> str:
    """Return a one-sentence summary of a plan: its number of stages, and units by hardware type."""
    del instance
    used = listed([f"{count:,} × {name}" for name, count in units_of(plan).most_common()])
    return f"{counted(len(plan), 'stage')} on {used}."


def _stage_text(stage: Stage) -> str:
    """Return a stage's layers, hardware type and units as text.

    Non-consecutive layers of a graph are counted.
    """
    first, last = stage.first_layer, stage.last_layer
    layers = f"layer {first}" if first == last else f"layers {first}–{last}"
    if stage.layers is not None and len(stage.layers) <= last - first:
        layers = f"{len(stage.layers)} layers from {first} to {last}"
    return f"{layers} on {stage.units} × {stage.type}"
