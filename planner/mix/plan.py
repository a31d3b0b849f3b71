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
        text_column("configuration", "configuration"),
        figure_column("copies", "count"),
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
    """Yield pairs of a type of which jobs wait, and how many of them."""
    return ((name, f"{left:,} × {name}") for name, left in waiting(instance, plan).items())


def as_data(instance: MixInstance, plan: Plan) -> Fields:
    """Return the copies of each configuration as plain data; named jobs are handed out group by group."""
    known = MixFormulation(instance).configurations
    names = {one.name: iter(one.names) for one in instance.types if one.names}

    def row(entry: Copies) -> Fields:
        one = known[entry.configuration]
        made: Fields = {"configuration": one.name, "copies": entry.count}
        made |= {"hardware": one.hardware, "devices": one.devices}
        if instance.serves:
            return made | {"requests_per_s": entry.requests_per_s, "busy": busy(one, entry)}
        members = [(names[name], count) for name, count in one.jobs.items() if name in names]
        made |= {"jobs": one.jobs, "progress": one.progress}
        if not members:
            return made
        groups = [[job for own, n in members for job in islice(own, n)] for _ in range(entry.count)]
        return made | {"names": groups}

    rows = [row(entry) for entry in plan]
    left = {name: [*jobs] for name, jobs in names.items()}
    return {"configurations": rows, "waiting": waiting(instance, plan), "waiting_names": left}


def answer(instance: MixInstance, plan: Plan) -> str:
    """Return a plan in one sentence: its largest configurations, and what they cost or who shares."""
    form = "{:,} × {}" if instance.serves else "{:,} × ({})"
    ordered = sorted(plan, key=lambda entry: -entry.count)
    chosen = listed([form.format(entry.count, entry.configuration) for entry in ordered], FEW) or "nothing"
    formulation = MixFormulation(instance)
    if instance.serves:
        served, cost = math.fsum(formulation.served(plan).values()), formulation.usd_per_hour(plan)
        return f"{chosen}: {short(cost, 4)} USD/h, serves {short(served, 4)} requests/s."
    running, waits = formulation.running(plan).total(), sum(waiting(instance, plan).values())
    shared = f"{sharing(formulation, plan):,} of {counted(running, 'job')} share a device"
    return f"{chosen}; {shared}{f', {waits:,} wait' if waits else ''}."


def sharing(formulation: MixFormulation, plan: Plan) -> int:
    """Return how many jobs share their devices with another one."""
    groups = ((entry.count, formulation.configurations[entry.configuration].jobs) for entry in plan)
    return sum(copies * sum(jobs.values()) for copies, jobs in groups if sum(jobs.values()) > 1)


def remarks(instance: MixInstance, plan: Plan) -> Iterator[str]:
    """Yield lines on who waits, and on the limits of the data that a plan rests on."""
    wait, jobs = waiting(instance, plan), sum(one.count or 0 for one in instance.types)
    if wait:
        names = listed([text for _, text in left_out(instance, plan)])
        yield f"{sum(wait.values()):,} of {counted(jobs, 'job')} wait: {names}"
    if wait and not MixFormulation(instance).live:
        yield (
            "no group may run: each asks for more devices or jobs than there are, or is below "
            "least_progress, which is a share: 0.8 is 80 %"
        )
    if not instance.serves and plan:
        least = 100 * MixFormulation(instance).evaluate(plan)[1]
        more = "; a larger weight lets others run, and least_progress leaves slow groups out" if wait else ""
        yield f"the least progress of a job that runs is {least:.0f} %{more}"
    elif any(len(entry.requests_per_s or {}) > 1 for entry in plan):
        yield "copies that serve several types share their time; latency under mixed batches was not measured"
    if instance.assumptions:
        yield f"{counted(len(instance.assumptions), 'assumption')}: see `assumptions` in the instance"


def measures(instance: MixInstance, plan: Plan) -> Measures:
    """Return what a plan costs or makes, and how well devices or jobs are served."""
    formulation = MixFormulation(instance)
    value, known = formulation.evaluate(plan)[0], formulation.configurations
    if instance.serves:
        time = math.fsum(entry.count * busy(known[entry.configuration], entry) for entry in plan)
        shares = [("busy", time, sum(entry.count for entry in plan))]
    else:
        jobs, running = sum(one.count or 0 for one in instance.types), formulation.running(plan).total()
        shared = sharing(formulation, plan)
        shares = [("jobs that run", running, jobs), ("jobs that share a device", shared, jobs)]
    figures = [
        Measure(name="USD/h" if instance.serves else "progress, in jobs", value=value),
        Measure(name="devices", value=formulation.devices(plan).total()),
        *(
            Measure(name=name, value=part / all_ if all_ else None, unit="share")
            for name, part, all_ in shares
        ),
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
    devices = (Amount(f"devices of {one.name}", now[one.name], then[one.name]) for one in instance.hardware)
    amounts = [*([cost] if instance.serves else ()), *devices]
    return changes_of("configuration", "change", old, new, amounts)
