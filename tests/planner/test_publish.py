"""Pages, plots and exports as calls: of answers that pass the check, and of no others.

Exported plans: that they say what the plan says, in valid syntax, and that unverified ones are refused.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import Command
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_documents import ALLOCATION, CONSOLIDATION, STAGING, put

import clusterplan
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.common.hostlist import expand_hostlist
from clusterplan.instances.consolidation.job import Group, PlacementJob
from clusterplan.instances.documents import parse_instance
from clusterplan.planner.api import solve
from clusterplan.planner.publish import export_plan, notes, plan_text, plot, report
from clusterplan.solvers.common.result import Result


@pytest.fixture(scope="module")
def solved() -> tuple[clusterplan.Instance, clusterplan.Result]:
    instance = clusterplan.parse_instance(ALLOCATION)
    return instance, clusterplan.solve(instance)


def test_a_report_is_the_page(solved: Any, tmp_path: Path) -> None:
    """As text and, if that is asked for, as a file."""
    page = report(*solved, tmp_path / "new" / "r.html")
    assert page.startswith("<!doctype html>") or page.startswith("<!DOCTYPE html>")
    assert (tmp_path / "new" / "r.html").read_text(encoding="utf-8") == page


def test_an_answer_that_is_wrong_is_not_published(solved: Any) -> None:
    instance, result = solved
    forged = result.model_copy(update={"objective": 1.0})
    for call in (report, export_plan):
        with pytest.raises(clusterplan.OptionError, match="verification failed"):
            call(instance, forged)
    other = clusterplan.parse_instance(STAGING)
    for call in (report, plot):
        with pytest.raises(clusterplan.OptionError, match=r"another instance|changed"):
            call(other, result)


def test_plots_have_colours_and_not_their_names(solved: Any) -> None:
    """Names in an instance that look like colours stay names."""
    figures = plot(*solved)
    assert list(figures) == ["times"]
    assert figures["times"]["data"]
    colours = re.findall(r'"[a-z]*color": "([^"]*)"', json.dumps(figures))
    assert colours
    assert all(re.fullmatch(r"#[0-9a-f]{6}|rgba\([0-9.,]+\)", colour) for colour in colours)
    jobs = [{**job, "name": f"@s{k}"} for k, job in enumerate(ALLOCATION["jobs"])]
    instance = clusterplan.parse_instance({**ALLOCATION, "jobs": jobs})
    assert "@s0" in json.dumps(plot(instance, clusterplan.solve(instance)))


def test_a_frontier_has_a_page_and_a_plot() -> None:
    instance = clusterplan.parse_instance(STAGING)
    frontier = clusterplan.pareto(instance)
    assert list(plot(instance, frontier)) == ["frontier"]
    assert instance.name in report(instance, frontier)


def test_a_plan_is_exported_after_its_check() -> None:
    instance = clusterplan.parse_instance(CONSOLIDATION)
    result = clusterplan.solve(instance)
    data = json.loads(export_plan(instance, result))
    assert (data["kind"], data["complete"]) == ("consolidation", True)
    with pytest.raises(clusterplan.OptionError, match="'html'; there are: json"):
        export_plan(instance, result, "html")


def export_plan_solved(document: dict[str, Any], **over: Any) -> tuple[str, str]:
    """Write a document and its result into the current folder; return their names."""
    put("d.yaml", document)
    result = solve(parse_instance(document)).model_copy(update=over)
    Path("r.json").write_text(result.to_json() + "\n", encoding="utf-8")
    return "d.yaml", "r.json"


def jobs(*listed: dict[str, Any], gpus: int = 4, count: int = 2, name: str = "n") -> dict[str, Any]:
    servers = [{"name": name, "count": count, "capacity": {"gpu": gpus}}]
    return {**CONSOLIDATION, "servers": servers, "jobs": list(listed)}


INSTANCE = parse_instance(CONSOLIDATION)
RESULT = solve(INSTANCE)


def planned(*placements: JobPlacement) -> Result:
    """Return a result with these placements; `export_plan` looks at nothing else."""
    return RESULT.model_copy(update={"plan": placements})


def exported(format: Any, *placements: JobPlacement) -> str:
    """Export placements of jobs whose tasks ask for no GPUs."""
    asked = tuple(
        PlacementJob(
            name=entry.job, groups=tuple(Group(name=name, tasks=1, demand={"cpu": 1}) for name in entry.tasks)
        )
        for entry in placements
    )
    return plan_text(INSTANCE.model_copy(update={"jobs": asked}), planned(*placements), format)


# JSON


# Slurm


# Clusters that run


RUNNING = (
    {"name": "keeps", "tasks": 2, "task_demand": {"gpu": 1}, "current": {"n-0": 2}},
    {"name": "moves", "tasks": 2, "task_demand": {"gpu": 1}, "current": {"n-0": 1, "n-1": 1}},
    {"name": "starts", "tasks": 1, "task_demand": {"gpu": 2}},
    {"name": "stops", "tasks": 1, "task_demand": {"gpu": 1}, "current": {"n-1": 1}},
    {"name": "waits", "tasks": 1, "task_demand": {"gpu": 9}},
)
ACTIONS = (
    JobPlacement(job="keeps", servers={"n-0": 2}, action="keep"),
    JobPlacement(job="moves", servers={"n-1": 2}, action="move"),
    JobPlacement(job="starts", servers={"n-0": 1}, action="start"),
    JobPlacement(job="stops", placed=False, reason="r", action="stop"),
    JobPlacement(job="waits", placed=False, reason="r", action="wait"),
)


def test_actions() -> None:
    """Jobs to start and to move are written; the others are said, and JSON has the action of each."""
    instance, result = parse_instance(jobs(*RUNNING)), planned(*ACTIONS)
    text = plan_text(instance, result, "slurm-options")
    assert [line.split()[0] for line in text.splitlines()] == ["moves", "starts"]
    every = plan_text(instance, result, "slurm-options", every=True)
    assert [line.split()[0] for line in every.splitlines()] == ["keeps", "moves", "starts"]
    found = documents(plan_text(instance, result, "kubernetes"))
    assert [document["metadata"]["name"] for document in found] == ["moves", "starts"]
    assert len(documents(plan_text(instance, result, "kubernetes-affinity", every=True))) == 3
    assert list(notes(instance, result, "kubernetes")) == [
        "1 job keeps running where it is",
        "to stop: stops: runs on n-1 1",
        "to move: moves: from n-0 1 to n-1 1",
        "not placed: 2 jobs (stops, waits): r",
    ]
    data = json.loads(plan_text(instance, result, "json"))
    assert data["actions"] == {entry.job: entry.action for entry in ACTIONS}
    assert data["runs_now_on"] == {"moves": {"n-0": 1, "n-1": 1}, "stops": {"n-1": 1}}


names = st.text(min_size=1, max_size=30).filter(lambda text: text.isprintable() and bool(text.strip()))
hosts = st.from_regex(r"[a-z][a-z0-9-]{0,3}[0-9](\.[a-z0-9]{1,2})?[0-9]{0,3}[a-z0-9]", fullmatch=True)
placed = st.dictionaries(hosts, st.integers(1, 3), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(names, placed, min_size=1, max_size=4))
def test_slurm_words_say_what_the_plan_says(plan: dict[str, dict[str, int]]) -> None:
    """Whatever the names, a line is the job's name and options that give back servers and tasks."""
    lines = exported(
        "slurm-options", *(JobPlacement(job=job, servers=servers) for job, servers in plan.items())
    )
    assert lines.count("\n") == len(plan)
    for line, (job, servers) in zip(lines.split("\n"), plan.items(), strict=False):
        first, *options = shlex.split(line)
        given = dict(option.removeprefix("--").split("=", 1) for option in options)
        listed = expand_hostlist(given["nodelist"])
        each = int(given.get("ntasks-per-node", 1))
        assert first == job
        assert Counter({name: count * each for name, count in Counter(listed).items()}) == Counter(servers)
        assert int(given["ntasks"]) == sum(servers.values())


@pytest.mark.parametrize("name", ["n 1", "-n", "n;rm", "n[1-2]", "a,b", "a/b", "ä", "$(x)", "n*2"])
def test_names_that_slurm_cannot_have(name: str) -> None:
    """A server whose name is no node's is refused, not quoted."""
    with pytest.raises(InstanceError, match=r"plan: job 'j': the server .* cannot be a Slurm node"):
        exported("slurm-options", JobPlacement(job="j", servers={name: 1}))


# Kubernetes


def documents(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text))


def terms(document: dict[str, Any]) -> list[dict[str, Any]]:
    affinity = document["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    found: list[dict[str, Any]] = affinity["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    return found


def nodes(document: dict[str, Any]) -> list[str]:
    """Return the nodes of a document, each of which has a term of its own."""
    return [name for term in terms(document) for field in term["matchFields"] for name in field["values"]]


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(names, placed, min_size=1, max_size=4))
def test_kubernetes_documents_say_what_the_plan_says(plan: dict[str, dict[str, int]]) -> None:
    """Whatever the names, each document is valid YAML with a DNS label of its own."""
    text = exported("kubernetes", *(JobPlacement(job=job, servers=servers) for job, servers in plan.items()))
    found = documents(text)
    assert [document["metadata"]["annotations"]["clusterplan/job"] for document in found] == list(plan)
    labels = [document["metadata"]["name"] for document in found]
    assert len(set(labels)) == len(labels)
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", label) for label in labels)
    for document, servers in zip(found, plan.values(), strict=True):
        assert nodes(document) == list(servers)


def test_names_that_yaml_could_take_for_something_else() -> None:
    """Numbers, truth values and nothing stay text."""
    text = exported("kubernetes", JobPlacement(job="on", servers={"1e3": 1, "null": 1, "0x1f": 2, "no": 1}))
    (only,) = documents(text)
    assert only["metadata"]["name"] == "on"
    assert nodes(only) == ["1e3", "null", "0x1f", "no"]
    assert 'values: ["1e3"]' in text


def test_clashing_and_impossible_object_names() -> None:
    """Names that become the same label, or none, get a digest; a job and a group never share a label."""
    text = exported(
        "kubernetes",
        JobPlacement(job="A b", servers={"n": 1}),
        JobPlacement(job="a-b", servers={"n": 1}),
        JobPlacement(job="日本", servers={"n": 1}),
        JobPlacement(job="a", groups={"b": {"n": 1}}),
        JobPlacement(job="x" * 100, servers={"n": 1}),
    )
    labels = [document["metadata"]["name"] for document in documents(text)]
    assert len(set(labels)) == 5
    assert labels[0] == "a-b"
    assert labels[2].startswith("job-")
    assert len(labels[4]) == 63


@pytest.mark.parametrize("name", ["n 1", "n:1", 'n"1', "n#", "-n", "ä", "n.", "N", "a..b", "a_b"])
def test_names_that_no_node_can_have(name: str) -> None:
    """A server that cannot be a node of Kubernetes is refused instead of breaking the YAML."""
    with pytest.raises(InstanceError, match=r"plan: job 'j': the server .* cannot be a Kubernetes node"):
        exported("kubernetes", JobPlacement(job="j", servers={name: 1}))


# What is refused


def test_files_that_do_not_hold_one_result(run: Command) -> None:
    """Several results are a fault of the file."""
    instance, result = export_plan_solved(CONSOLIDATION)
    text = Path(result).read_text()
    code, _, err = run("export-plan", instance, put("two.json", text + text))
    assert (code, err) == (3, "two.json: has 2 results of the instance; give a file with one\n")


def test_frontiers_are_not_exported(run: Command) -> None:
    """A frontier has many plans."""
    put("s.yaml", STAGING)
    assert run("pareto", "s.yaml", "--output", "f")[0] == 0
    code, _, err = run("export-plan", "s.yaml", "f/frontier.json")
    assert code == 3
    assert "is a frontier, which has many plans" in err
