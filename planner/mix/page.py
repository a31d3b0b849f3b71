"""HTML page of a mix plan: who shares devices with whom, or which machines serve what, and prices."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import combinations
from typing import cast

from ...formulations.mix.formulation import MixFormulation
from ...formulations.mix.plan import Copies, Plan
from ...instances.mix.instance import BUDGET, DEVICES, MixHardware, MixInstance, MixType
from ...solvers.common.result import Result
from ..reports.page import (
    Cell,
    CellColumn,
    Column,
    Context,
    Facts,
    Table,
    figure_column,
    known_facts,
    number,
    share,
    table_of,
    text_column,
)
from ..reports.plot_style import COLOURS, LEGEND_ABOVE, Figure, axis, colour, markers, plot_of, plot_text
from ..reports.text import counted, short
from .plan import cell_columns, remarks, sharing, waiting

MAX_TYPES = 40
"""Most types of job, and most configurations, that a plot shows."""
MAX_ROWS = 1000
"""Most configurations in the table."""
ALONE = "alone"
ROW, HEAD = 24, 130
"""Height in pixels of a row of a plot, and of all that is around them."""
LARGEST, SMALLEST = 21, 5
"""Diameters in pixels of the largest and the smallest bubble."""


def mix_parts(instance: MixInstance, result: Result) -> Context:
    """Return the variables of `plan_mix.html.j2`, the template of a result's page."""
    plan = None if result.plan is None else cast("tuple[Copies, ...]", result.plan)
    formulation, prices = MixFormulation(instance), result.prices or {}
    figure = None
    if plan:
        figure = serving_figure(formulation, plan) if instance.serves else sharing_figure(formulation, plan)
    ordered = sorted(plan or (), key=lambda entry: -entry.count)
    return {
        "data": {"figures": {"mix": figure} if figure else {}},
        "height": figure["layout"]["height"] if figure else 0,
        "serves": instance.serves,
        "priced": bool(prices),
        "sections": [
            *([("plan", "Plan")] if plan is not None else ()),
            ("hardware", "Hardware"),
            ("types", "Types"),
            *([("limits", "What the plan rests on")] if plan is not None else ()),
        ],
        "summary": _summary(formulation, plan or ()),
        "chosen": table_of(
            "chosen",
            f"{counted(len(ordered), 'configuration')} in the plan",
            ordered[:MAX_ROWS],
            cell_columns(instance),
            filter="Show configurations with these words",
        ),
        "hardware": _hardware_table(formulation, plan or (), prices),
        "types": _types_table(formulation, plan or (), prices),
        "worth": _worth(formulation, prices, result.objective or 0.0),
        "rests": [*remarks(instance, plan or ())],
        "about": _about(instance),
    }


def _about(instance: MixInstance) -> Facts:
    least, budget = instance.least_progress, instance.budget_usd_per_hour
    return known_facts(
        ("types", f"{len(instance.types):,}"),
        ("configurations to choose from", f"{len(instance.configurations):,}"),
        ("all jobs must run", "yes" if instance.must_run else None),
        ("least progress", None if least is None else f"{100 * least:g} %"),
        ("devices in all", None if instance.devices is None else f"{instance.devices:,} at most"),
        ("budget", None if budget is None else f"{short(budget)} USD/h"),
    )


def _summary(formulation: MixFormulation, plan: Plan) -> Facts:
    """Return the figures above the plot."""
    instance, devices = formulation.instance, f"{formulation.devices(plan).total():,}"
    if instance.serves:
        requests = math.fsum(one.requests_per_s or 0.0 for one in instance.types)
        cost = formulation.usd_per_hour(plan)
        per_million = cost / (3600 * requests) * 1e6 if requests else 0.0
        return [
            ("cost", f"{short(cost, 5)} USD/h"),
            ("devices", devices),
            ("requests/s", short(requests, 5)),
            ("a million requests", f"{short(per_million, 4)} USD"),
        ]
    progress, running = formulation.evaluate(plan)[0], formulation.running(plan).total()
    return [
        ("jobs that run", f"{running:,} of {sum(one.count or 0 for one in instance.types):,}"),
        ("of them share a device", f"{sharing(instance, plan):,}"),
        ("devices", devices),
        ("progress, in jobs", short(progress, 5)),
    ]


def _hardware_table(formulation: MixFormulation, plan: Plan, prices: Mapping[str, float]) -> Table:
    used = formulation.devices(plan)
    gain = "USD/h that one more saves" if formulation.instance.serves else "progress, in jobs, of one more"

    def in_plan(each: MixHardware) -> Cell:
        bar = used[each.name] / each.limit if each.limit else None
        return Cell(f"{used[each.name]:,}", used[each.name], share=bar)

    columns: list[CellColumn[MixHardware]] = [
        text_column("hardware", lambda each: each.name),
        figure_column("USD/h", lambda each: each.price_usd_per_hour, note="of one device"),
        (
            Column("there are", True),
            lambda each: Cell("no limit") if each.limit is None else number(each.limit),
        ),
        (Column("in the plan", True), in_plan),
    ]
    if prices:
        columns.append(figure_column("worth", lambda each: prices.get(each.name), note=gain))
    return table_of("models", "Models of device", formulation.instance.hardware, columns)


def _types_table(formulation: MixFormulation, plan: Plan, prices: Mapping[str, float]) -> Table:
    instance, spent = formulation.instance, _usd_by_type(formulation, plan)
    columns: list[CellColumn[MixType]] = [text_column("type", lambda one: one.name)]
    if instance.serves:
        most = max((sum(own.values()) for own in spent.values()), default=0.0) or 1.0

        def cost(one: MixType) -> Cell:
            usd = sum(spent[one.name].values())
            return Cell(short(usd, 5), usd, share=usd / most)

        columns += [
            figure_column("requests/s", lambda one: one.requests_per_s),
            figure_column("input", lambda one: one.input_tokens, note="tokens"),
            figure_column("output", lambda one: one.output_tokens, note="tokens"),
            (Column("USD/h", True, "of the time that serves it"), cost),
        ]
        gain = "USD/h that one more in a second costs"
    else:
        waits, progress = waiting(instance, plan), _progress_by_type(formulation, plan)
        columns += [
            figure_column("jobs", lambda one: one.count),
            figure_column("wait", lambda one: waits.get(one.name, 0)),
            figure_column("weight", lambda one: one.weight),
            figure_column("progress", lambda one: progress.get(one.name), share, "mean of those that run"),
        ]
        gain = "progress, in jobs, of one more"
    if prices:
        columns.append(figure_column("worth", lambda one: prices.get(one.name), note=gain))
    filter = "Show types with these words"
    return table_of(
        "kinds",
        "Types of requests" if instance.serves else "Types of jobs",
        instance.types,
        columns,
        filter=filter,
    )


def _worth(formulation: MixFormulation, prices: Mapping[str, float], value: float) -> list[str]:
    """Return sentences on what one more device of the best model, of any, or USD/h is worth."""
    unit = "USD/h saved" if formulation.instance.serves else "jobs of progress"
    known = ((DEVICES, "device of any model"), (BUDGET, "USD/h of budget"))
    advice = formulation.advice(prices, value)
    return [
        *([f"{advice[0].upper()}{advice[1:]}."] if advice else ()),
        *(f"One more {noun} is worth {prices[name]:.3g} {unit}." for name, noun in known if prices.get(name)),
    ]


def _usd_by_type(formulation: MixFormulation, plan: Plan) -> dict[str, dict[str, float]]:
    """Return the USD/h of the time in which copies serve each type, by configuration."""
    spent: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for entry in plan:
        one = formulation.configurations[entry.configuration]
        usd = one.devices * formulation.prices_usd_per_hour[one.hardware]
        for name, rate in (entry.requests_per_s or {}).items():
            spent[name][one.name] += usd * rate / one.requests_per_s[name]
    return spent


def _progress_by_type(formulation: MixFormulation, plan: Plan) -> dict[str, float]:
    """Return the mean progress of the jobs of each type that run."""
    running, total = formulation.running(plan), defaultdict[str, float](float)
    for entry in plan:
        one = formulation.configurations[entry.configuration]
        for name, count in one.jobs.items():
            total[name] += entry.count * count * one.progress[name]
    return {name: total[name] / count for name, count in running.items() if count}


def serving_figure(formulation: MixFormulation, plan: Plan) -> Figure:
    """Return bars of USD/h, one for each configuration, by the type whose requests its copies serve."""
    spent = _usd_by_type(formulation, plan)
    cost = {entry.configuration: formulation.usd_per_hour([entry]) for entry in plan}
    shown = sorted(cost, key=lambda name: -cost[name])[:MAX_TYPES]
    order = sorted(spent, key=lambda name: -sum(spent[name].values()))
    named = {name: spent[name] for name in order[: COLOURS - 1]}
    others = [spent[name] for name in order[COLOURS - 1 :]]
    rest = {one: math.fsum(own.get(one, 0.0) for own in others) for one in cost}
    parts = [*named.items(), *([("other types", rest)] if others else ())]
    idle = {name: max(0.0, cost[name] - sum(own.get(name, 0.0) for own in spent.values())) for name in shown}
    fills = [colour(index) for index in range(len(parts))] + ["@taken"]
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": plot_text(name, 30),
            "y": [plot_text(one, 36) for one in shown],
            "x": [usd.get(one, 0.0) for one in shown],
            "marker": {"color": fill},
            "hovertemplate": f"%{{y}}: {plot_text(name)}, %{{x:.4g}} USD/h<extra></extra>",
        }
        for (name, usd), fill in zip([*parts, ("idle", idle)], fills, strict=True)
    ]
    y = axis("", autorange="reversed", type="category")
    height = HEAD + ROW * len(shown)
    more = {"barmode": "stack", "showlegend": True, "legend": LEGEND_ABOVE | {"traceorder": "normal"}}
    return plot_of(traces, axis("USD/h"), y, height, margin={"l": 8, "r": 16, "t": 40, "b": 48}, **more)


def sharing_figure(formulation: MixFormulation, plan: Plan) -> Figure:
    """Return a matrix of types: how many groups hold jobs of both, or of one alone, and their progress."""
    most = formulation.running(plan).most_common(MAX_TYPES)
    shown = [one.name for one in formulation.instance.types if one.name in dict(most)]
    groups: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    speed: dict[tuple[str, str], float] = defaultdict(float)
    for entry in plan:
        one = formulation.configurations[entry.configuration]
        members = [name for name in shown for _ in range(min(one.jobs.get(name, 0), 2))]
        alone = sum(one.jobs.values()) == 1
        for pair in {(ALONE, members[0])} if alone and members else {*combinations(members, 2)}:
            groups[pair][one.hardware] += entry.count
            own = [one.progress[name] for name in pair if name != ALONE]
            speed[pair] += entry.count * math.fsum(own) / len(own)
    total = {pair: models.total() for pair, models in groups.items()}
    largest = max(total.values(), default=1)

    def words(pair: tuple[str, str]) -> str:
        models = ", ".join(f"{n:,} on {plot_text(name)}" for name, n in groups[pair].most_common())
        progress = 100 * speed[pair] / total[pair]
        return f"{' + '.join(map(plot_text, pair))}<br>{models}<br>progress {progress:.0f} %"

    # Each pair stands twice, so that the row of a type has all with which it shares.
    places = [*groups, *((b, a) for a, b in groups if ALONE != a != b)]
    pairs = [pair if pair in groups else pair[::-1] for pair in places]
    trace = markers(
        [plot_text(first, 24) for first, _ in places],
        [plot_text(second, 24) for _, second in places],
        customdata=[*map(words, pairs)],
        hovertemplate="%{customdata}<extra></extra>",
        marker={
            "size": [max(SMALLEST, LARGEST * math.sqrt(total[pair] / largest)) for pair in pairs],
            "color": [round(100 * speed[pair] / total[pair], 1) for pair in pairs],
            "colorscale": [[0, "@low"], [0.5, "@middle"], [1, "@high"]],
            "opacity": 1,
            "line": {"color": "@muted", "width": 1},
            "colorbar": {
                "title": {"text": "progress [%]", "side": "right"},
                "thickness": 12,
                "outlinewidth": 0,
                "tickfont": {"color": "@muted"},
            },
        },
    )
    labels = [plot_text(name, 24) for name in shown]
    x = axis("", type="category", categoryarray=[ALONE, *labels], range=[-0.6, len(labels) + 0.6])
    y = axis("", type="category", categoryarray=labels, range=[len(labels) - 0.4, -0.6])
    return plot_of([trace], x | {"tickangle": -40}, y, HEAD + ROW * len(labels))
