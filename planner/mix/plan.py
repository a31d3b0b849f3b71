"""Output of mix plans: text table, plain data, the answer in a sentence, and what a plan rests on.

Beside it stand the changes of instances that scenarios may contain, and those between two plans.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from ...formulations.mix.formulation import MixFormulation
from ...formulations.mix.plan import Copies, Plan
from ...instances.common.errors import OptionError
from ...instances.common.fields import Fields
from ...instances.mix.instance import Configuration, MixInstance
from ..batch.comparison_rows import Measure, Measures
from ..changes import Amount, Changes, ScenarioChange, changes_of, of_field, of_rows
from ..reports.page import CellColumn, as_text_column, figure_column, share, text_column
from ..reports.text import TextColumn, counted, listed, short

FEW = 3
"""Most configurations that the answer names."""


def busy(one: Configuration, entry: Copies) -> float:
    """Return the share of their time in which the copies of a replica serve requests."""
    rates = (entry.requests_per_s or {}).items()
    return math.fsum(rate / one.requests_per_s[name] for name, rate in rates) / entry.count


def cell_columns(instance: MixInstance) -> list[CellColumn[Copies]]:
    """Return the columns of the table of chosen configurations, on pages and in terminals."""
    formulation = MixFormulation(instance)
    known = formulation.configurations
    first: list[CellColumn[Copies]] = [
        text_column("configuration", lambda e: e.configuration),
        figure_column("copies", lambda e: e.count),
        text_column("hardware", lambda e: known[e.configuration].hardware),
        figure_column("devices", lambda e: known[e.configuration].devices * e.count),
    ]
    if not instance.serves:
        return [
            *first,
            text_column("progress of each job", lambda e: progress_text(known[e.configuration]), wide=True),
        ]
    return [
        *first,
        figure_column("USD/h", lambda e: formulation.usd_per_hour([e])),
        text_column("serves, requests/s", lambda e: rates_text(e.requests_per_s or {}), wide=True),
        figure_column("busy", lambda e: busy(known[e.configuration], e), share),
    ]


def progress_text(one: Configuration) -> str:
    """Return the jobs of a group as text, each type with its progress, such as ``a 93 %, 2 × b 61 %``."""
    return ", ".join(
        f"{f'{count} × ' if count > 1 else ''}{name} {100 * one.progress[name]:.0f} %"
        for name, count in one.jobs.items()
    )


def rates_text(rates: Mapping[str, float]) -> str:
    """Return requests per second by type as text."""
    return ", ".join(f"{name} {short(rate, 4)}" for name, rate in rates.items())


def columns(instance: MixInstance, entries: Plan) -> list[TextColumn[Copies]]:
    """Return the columns of the text table of a plan."""
    del entries
    return [*map(as_text_column, cell_columns(instance))]


def waiting(instance: MixInstance, plan: Plan) -> dict[str, int]:
    """Return how many jobs of each type wait, for the types of which some do."""
    running = MixFormulation(instance).running(plan)
    return {one.name: left for one in instance.types if one.count and (left := one.count - running[one.name])}


def left_out(instance: MixInstance, plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield pairs of a type of which jobs wait, and how many."""
    counts = {one.name: one.count or 0 for one in instance.types}
    for name, left in waiting(instance, plan).items():
        yield name, f"{left:,} of {counted(counts[name], 'job')} wait"


def as_data(instance: MixInstance, plan: Plan) -> Fields:
    """Return the copies of each configuration as plain data; named jobs are handed out group by group."""
    formulation = MixFormulation(instance)
    names = {one.name: iter(one.names) for one in instance.types if one.names}

    def row(entry: Copies) -> Fields:
        one = formulation.configurations[entry.configuration]
        made: Fields = {"configuration": one.name, "copies": entry.count}
        made |= {"hardware": one.hardware, "devices": one.devices}
        if instance.serves:
            return made | {"requests_per_s": entry.requests_per_s, "busy": busy(one, entry)}
        if names.keys() & one.jobs.keys():
            members = [(names[name], count) for name, count in one.jobs.items() if name in names]
            made["names"] = [
                [job for own, count in members for job in islice(own, count)] for _ in range(entry.count)
            ]
        return made | {"jobs": dict(one.jobs), "progress": dict(one.progress)}

    rows = [row(entry) for entry in plan]
    waits = {
        name: {"count": left, **({"names": [*names[name]]} if name in names else {})}
        for name, left in waiting(instance, plan).items()
    }
    return {"configurations": rows, "devices": dict(formulation.devices(plan)), "waiting": waits}


def sharing(instance: MixInstance, plan: Plan) -> int:
    """Return how many jobs share their devices with another one."""
    known = MixFormulation(instance).configurations
    members = ((entry.count, sum(known[entry.configuration].jobs.values())) for entry in plan)
    return sum(copies * jobs for copies, jobs in members if jobs > 1)


def answer(instance: MixInstance, plan: Plan) -> str:
    """Return a plan in one sentence: its largest configurations, and what they are worth or cost."""
    ordered = sorted(plan, key=lambda entry: -entry.count)
    names = [e.configuration if instance.serves else f"({e.configuration})" for e in ordered]
    times = [f"{entry.count:,} × {name}" for entry, name in zip(ordered, names, strict=True)]
    chosen = listed(times, FEW) or "nothing"
    formulation = MixFormulation(instance)
    if instance.serves:
        requests = math.fsum(one.requests_per_s or 0.0 for one in instance.types)
        cost = short(formulation.usd_per_hour(plan), 4)
        return f"{chosen}: {cost} USD/h, serves {short(requests, 4)} requests/s."
    running, wait = formulation.running(plan).total(), sum(waiting(instance, plan).values())
    waits = f", {wait:,} wait" if wait else ""
    return f"{chosen}; {sharing(instance, plan):,} of {counted(running, 'job')} share a device{waits}."


def remarks(instance: MixInstance, plan: Plan) -> Iterator[str]:
    """Yield lines on the limits of the data that a plan rests on."""
    known = MixFormulation(instance).configurations
    if instance.serves:
        several = sum(len(entry.requests_per_s or {}) > 1 for entry in plan)
        if several:
            yield (
                f"copies of {counted(several, 'configuration')} serve several types, each in a share "
                "of their time; latency under mixed batches was not measured"
            )
    elif plan:
        slowest = min((known[entry.configuration] for entry in plan), key=lambda k: min(k.progress.values()))
        least = 100 * min(slowest.progress.values())
        yield f"the least progress of a job that runs is {least:.0f} %, in {slowest.name}"
        yield (
            "progress is relative to one reference for all groups, so that jobs which are fast there come "
            "first; weights of types, or least_progress, protect the others"
        )
    if instance.assumptions:
        yield f"{counted(len(instance.assumptions), 'assumption')}: see `assumptions` in the instance"


def measures(instance: MixInstance, plan: Plan) -> Measures:
    """Return what a plan makes of jobs and devices."""
    formulation = MixFormulation(instance)
    devices = formulation.devices(plan).total()
    figures = [Measure(name="devices", value=devices)]
    if instance.serves:
        copies = sum(entry.count for entry in plan)
        time = math.fsum(
            entry.count * busy(formulation.configurations[entry.configuration], entry) for entry in plan
        )
        figures.append(Measure(name="busy", value=time / copies if copies else None, unit="share"))
    else:
        running, jobs = formulation.running(plan).total(), sum(one.count or 0 for one in instance.types)
        shares = {"jobs that run": running, "jobs that share a device": sharing(instance, plan)}
        figures += [
            Measure(name=name, value=count / jobs if jobs else None, unit="share")
            for name, count in shares.items()
        ]
    return Measures(figures=tuple(figures))


def what_if(instance: MixInstance) -> dict[str, ScenarioChange]:
    """Return the types of scenario change by key, such as `limit` or `rate`."""
    of_hardware = {
        "limit": of_rows("limit=HARDWARE:N", "hardware", "hardware", "limit"),
        "price": of_rows("price=HARDWARE:USD", "hardware", "hardware", "price_usd_per_hour"),
        "devices": of_field("devices=N", "devices"),
        "budget": of_field("budget=USD", "budget_usd_per_hour"),
    }
    if instance.serves:
        return of_hardware | {"rate": of_rows("rate=TYPE:X", "types", "type", "requests_per_s")}
    return of_hardware | {
        "count": ScenarioChange("count=TYPE:N", _counts),
        "weight": of_rows("weight=TYPE:X", "types", "type", "weight"),
        "least-progress": of_field("least-progress=X", "least_progress"),
    }


def _counts(instance: MixInstance, text: str) -> Mapping[str, Any]:
    """Return the types with other counts; jobs have no names then, since it is not said which they are."""
    fields = of_rows("count=TYPE:N", "types", "type", "count").fields(instance, text)
    return {"types": [{key: row[key] for key in row if key != "names"} for row in fields["types"]]}


def changes(instance: MixInstance, before: Plan | None, after: Plan) -> Changes:
    """Return the configurations of which two plans have different copies, and the devices of each model.

    Raises
    ------
    OptionError
        If `before` is None: instances of a mix do not describe a running plan.
    """
    if before is None:
        raise OptionError("an instance of mix does not say what runs now; give two results to compare")
    old, new = ({e.configuration: counted(e.count, "copy", "copies") for e in p} for p in (before, after))
    formulation = MixFormulation(instance)
    now, then = formulation.devices(before), formulation.devices(after)
    cost = Amount("USD per hour", formulation.usd_per_hour(before), formulation.usd_per_hour(after))
    return changes_of(
        "configuration",
        "change",
        old,
        new,
        [
            *([cost] if instance.serves else ()),
            *(
                Amount(f"devices of {each.name}", now[each.name], then[each.name], each.limit)
                for each in instance.hardware
                if now[each.name] or then[each.name]
            ),
        ],
    )
