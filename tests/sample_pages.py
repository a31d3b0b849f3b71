"""Pages of everything, with names that attack whoever does not escape them."""

from __future__ import annotations

import json
from functools import cache
from html.parser import HTMLParser
from typing import Any

from mix_instances import serving, sharing

import clusterplan
from clusterplan.planner.batch.comparison import Comparison
from clusterplan.planner.batch.comparison_rows import ComparisonRow
from clusterplan.planner.reports.comparison_page import comparison_page
from clusterplan.planner.reports.result_page import frontier_page, plan_page
from clusterplan.planner.reports.study_page import what_if_page
from clusterplan.planner.study import what_if

HOSTILE = (
    "<b>fett</b><img src=x onerror=window.pwned=1></script><script>window.pwned=1</script>"
    '<a href="javascript:window.pwned=1">x</a>%{y}|`&amp;\'名前'
)
"""A name that runs a script, loads an image or changes a table wherever it is not escaped."""


VOID = {"meta", "input", "br", "img", "link", "path", "circle", "hr"}


class Page(HTMLParser):
    """A page taken apart; anything unbalanced fails."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.raw: list[tuple[dict[str, str], str]] = []
        self.html = html
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append((tag, given))
        if tag == "script":
            self.raw.append((given, ""))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            given, text = self.raw[-1]
            self.raw[-1] = (given, text + data)
        elif not self.open or self.open[-1] != "style":
            self.texts.append(data)

    def all(self, *names: str) -> list[dict[str, str]]:
        return [attrs for tag, attrs in self.tags if tag in names]

    @property
    def data(self) -> Any:
        return next(json.loads(text) for attrs, text in self.raw if attrs.get("id") == "data")

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


@cache
def hostile_staging() -> clusterplan.StagingInstance:
    document = clusterplan.load("example:opt-350-three-gpus").document()
    first = document["types"][0]["name"]
    document["name"] = HOSTILE
    document["types"][0]["name"] = HOSTILE
    document["source"] = HOSTILE
    document["assumptions"] = [HOSTILE]
    for index, layer in enumerate(document["layers"]):
        layer["name"] = f"{index}{HOSTILE[:150]}"
        for key, value in layer.items():
            if isinstance(value, dict) and first in value:
                layer[key] = {HOSTILE if name == first else name: share for name, share in value.items()}
    return clusterplan.StagingInstance.model_validate(document)


@cache
def hostile_allocation() -> clusterplan.AllocationInstance:
    document = clusterplan.load("example:gavel-three-gpu-types").document()
    text = json.dumps(document).replace('"v100"', json.dumps(HOSTILE))
    document = json.loads(text)
    document["name"] = HOSTILE
    document["jobs"][0]["name"] = HOSTILE
    return clusterplan.AllocationInstance.model_validate(document)


def hostile_consolidation(servers: int = 3) -> clusterplan.ConsolidationInstance:
    """Return two racks, one of a single server, jobs that run, move and wait, and servers half taken."""
    document = {
        "schema_version": 1,
        "kind": "consolidation",
        "name": HOSTILE,
        "servers": [
            {"name": "free", "count": servers, "rack": HOSTILE, "capacity": {"gpu": 4, HOSTILE: 8}},
            {"name": HOSTILE, "capacity": {"gpu": 4, HOSTILE: 8}, "free": {"gpu": 3, HOSTILE: 8}},
        ],
        "jobs": [
            {"name": HOSTILE, "tasks": 4, "task_demand": {"gpu": 1, HOSTILE: 1}, "current": {HOSTILE: 2}},
            {"name": "klein", "tasks": 1, "task_demand": {"gpu": 1}},
            {"name": "groß", "tasks": 40 * servers, "task_demand": {"gpu": 1}},
        ],
    }
    return clusterplan.ConsolidationInstance.model_validate(document)


@cache
def hostile_mix(serves: bool) -> clusterplan.Instance:
    """Return requests, or jobs that share devices, with hostile names of types and hardware."""
    instance = serving() if serves else sharing()
    text = json.dumps(instance.document())
    for name in ("a", "chat", "v100", "h100"):
        text = text.replace(json.dumps(name), json.dumps(f"{name}{HOSTILE}"))
    return clusterplan.parse_instance(json.loads(text) | {"name": HOSTILE})


@cache
def staging_frontier() -> clusterplan.Frontier:
    return clusterplan.pareto(hostile_staging())


@cache
def cluster_frontier() -> clusterplan.AllocationFrontier:
    return clusterplan.pareto(hostile_allocation())


@cache
def infeasible(kind: str) -> clusterplan.Instance:
    """Return an instance without a plan."""
    if kind == "staging":
        return clusterplan.load("example:opt-350-three-gpus").model_copy(
            update={"throughput_floor_samples_per_s": 1e6}
        )
    if kind == "allocation":
        return clusterplan.load("example:optimus-testbed").model_copy(
            update={"resources": {"cpu": 1.0, "gpu": 1.0, "memory_gib": 1.0}}
        )
    instance = hostile_consolidation()
    jobs = tuple(job.model_copy(update={"must_place": True}) for job in instance.jobs)
    return instance.model_copy(update={"jobs": jobs})


def sample_comparison(instances: int = 5, name: str = "case", solver: str = "solver") -> Comparison:
    """Return six solvers: proven, heuristic, without a gap, infeasible, unknown and failed ones."""
    rows = []
    for index in range(instances):
        for number, status in enumerate(
            ("optimal", "feasible", "feasible", "infeasible", "unknown", "error")
        ):
            plan = number < 3
            gap = (
                None if not plan or number == 2 else (0.0 if number == 0 else 0.01 * (index % 7) ** 2 + 1e-4)
            )
            rows.append(
                ComparisonRow(
                    instance=f"{name} {index}",
                    kind="staging",
                    solver=f"{solver} {number}",
                    status=status,
                    objective_name="cost",
                    unit="USD",
                    objective=100.0 * (1 + (gap or 0.0)) + index if plan else None,
                    bound=100.0 + index if number == 0 else None,
                    gap=gap if number == 0 else None,
                    gap_to_best_bound=gap,
                    gap_to_best_plan=(gap or 0.0) if plan else None,
                    best=plan and not gap,
                    runtime_s=0.01 * (number + 1) * (1 + index % 11),
                    message=f"{name} <i>failed</i> | `why`" if status == "error" else None,
                )
            )
    return Comparison(rows=tuple(rows), left_out=(f"{name}: cannot be read",), versions={"clusterplan": "1"})


@cache
def all_pages() -> dict[str, str]:
    """Return every sort of page, with hostile names wherever a name can be."""
    staging, allocation, consolidation = hostile_staging(), hostile_allocation(), hostile_consolidation()
    solve = clusterplan.solve
    baselines = [solve(staging, name) for name in ("greedy", "single-type")]
    pages = {
        "frontier": frontier_page(staging, staging_frontier(), baselines),
        "clusters": frontier_page(allocation, cluster_frontier()),
        "comparison": comparison_page(sample_comparison(5, HOSTILE[:150], HOSTILE[:150])),
    }
    pages["what-if"] = what_if_page(what_if(consolidation, ["drain=*", "value=*:+1,add=free"]))
    for instance in (staging, allocation, consolidation):
        pages[f"plan-{instance.kind}"] = plan_page(instance, solve(instance))
    for serves in (True, False):
        pages["plan-requests" if serves else "plan-sharing"] = plan_page(
            hostile_mix(serves), solve(hostile_mix(serves))
        )
    pages["loads"] = frontier_page(
        hostile_mix(True), clusterplan.pareto(hostile_mix(True), least=90, most=110)
    )
    for kind in ("staging", "allocation", "consolidation"):
        without = infeasible(kind)
        pages[f"none-{kind}"] = plan_page(without, solve(without))
    return pages
