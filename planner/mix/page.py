"""HTML page of a mix plan: who shares devices with whom, or which machines serve what, and prices."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import permutations, product
from typing import Any, NamedTuple, cast

from ...formulations.mix.formulation import MixFormulation
from ...formulations.mix.plan import Copies, Plan
from ...instances.mix.instance import BUDGET, DEVICES, MixHardware, MixInstance, MixType
from ...solvers.common.result import Result
from ..reports.page import Cell, CellColumn, Column, Context, figure_column, table_of, text_column
from ..reports.text import counted, percent, short
from .plan import cell_columns, measures, remarks

MAX_SHOWN = 40
"""Most types of job, and most configurations, that a picture shows."""
MAX_ROWS = 1000
"""Most configurations in the table."""
ALONE = "alone"


class Pair(NamedTuple):
    """A place in the matrix: how many groups hold both types, and the progress of the jobs of the row."""

    row: int
    column: int
    groups: int
    progress: float


def mix_parts(instance: MixInstance, result: Result) -> Context:
    """Return the variables of `plan_mix.html.j2`, the template of a result's page."""
    plan = cast("tuple[Copies, ...]", result.plan or ())
    formulation, prices = MixFormulation(instance), result.prices or {}
    gain = "is worth, USD/h" if instance.serves else "is worth, in jobs of progress"
    chosen = sorted(plan, key=lambda e: (formulation.usd_per_hour([e]), e.count), reverse=True)
    return {
        "data": {"figures": {}},
        "summary": [
            (one.name, percent(one.value) if one.unit == "share" else short(one.value, 5))
            for one in measures(instance, plan).figures
        ],
        "formulation": formulation,
        "bars": chosen[:MAX_SHOWN] if instance.serves else [],
        "pairs": ([], []) if instance.serves else pairs(formulation, plan),
        "kinds": [one.name for one in instance.types],
        "chosen": table_of(
            "chosen",
            f"{counted(len(plan), 'configuration')} in the plan",
            chosen[:MAX_ROWS],
            cell_columns(instance),
            filter="Show configurations with these words",
        ),
        "hardware": table_of(
            "models",
            "Models of device",
            instance.hardware,
            [*_hardware_columns(formulation, plan), *_worth(prices, gain)],
        ),
        "types": table_of(
            "kinds",
            "What there is to run",
            instance.types,
            [
                *_type_columns(formulation, plan),
                *_worth(prices, "costs, USD/h" if instance.serves else gain),
            ],
        ),
        "worth": [
            f"One more of {name} {gain}: {prices[name]:.3g}" for name in (DEVICES, BUDGET) if prices.get(name)
        ],
        "advice": formulation.advice(prices, result.objective or 0.0) if prices else None,
        "rests": [*remarks(instance, plan)],
        "about": [("configurations to choose from", f"{len(instance.configurations):,}")],
    }


def _worth(prices: Mapping[str, float], note: str) -> Iterator[CellColumn[Any]]:
    """Yield the column of prices, if there are any."""
    if prices:
        yield figure_column("one more", lambda one: prices.get(one.name), note=note)


def _hardware_columns(formulation: MixFormulation, plan: Plan) -> list[CellColumn[MixHardware]]:
    used = formulation.devices(plan)

    def in_plan(each: MixHardware) -> Cell:
        count = used[each.name]
        return Cell(f"{count:,}", count, share=count / each.limit if each.limit else None)

    return [
        text_column("hardware", "name"),
        figure_column("USD/h", "price_usd_per_hour", note="of one device"),
        figure_column("there are", "limit", note="– is no limit"),
        (Column("in the plan", True), in_plan),
    ]


def _type_columns(formulation: MixFormulation, plan: Plan) -> list[CellColumn[MixType]]:
    running = formulation.running(plan)
    amounts: list[CellColumn[MixType]] = [
        figure_column("jobs", "count"),
        figure_column("run", lambda one: running[one.name]),
    ]
    if formulation.instance.serves:
        amounts = [figure_column("requests/s", "requests_per_s")]
    return [text_column("type", "name"), *amounts]


def pairs(formulation: MixFormulation, plan: Plan) -> tuple[list[str], list[Pair]]:
    """Return the types of which most jobs run, and how each fares beside each other one, or alone."""
    most = dict(formulation.running(plan).most_common(MAX_SHOWN))
    names = [one.name for one in formulation.instance.types if one.name in most]
    groups, speed = Counter[tuple[str, ...]](), defaultdict[tuple[str, ...], float](float)
    for entry in plan:
        one = formulation.configurations[entry.configuration]
        members = [name for name in names for _ in range(min(one.jobs.get(name, 0), 2))]
        beside = permutations(members, 2) if sum(one.jobs.values()) > 1 else product(members, [ALONE])
        for pair in set(beside):
            groups[pair] += entry.count
            speed[pair] += entry.count * one.progress[pair[0]]
    place = {name: index for index, name in enumerate([ALONE, *names])}
    return names, [
        Pair(place[row] - 1, place[column], count, speed[row, column] / count)
        for (row, column), count in groups.items()
    ]
