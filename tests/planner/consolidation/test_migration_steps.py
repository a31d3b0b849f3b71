"""The order of steps: nobody is placed before there is room, and the end is the plan.

The functions of the shell that scripts for Slurm and Kubernetes call.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest
from device_instances import device_instance, gpus, job, placement, server, sharing
from random_instances import random_consolidation
from step_replay import overfull, replay, steps

import clusterplan
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.planner.migration.steps import Step, shell_script


def moved(instance: ConsolidationInstance, **targets: dict[str, int] | None) -> list[JobPlacement]:
    """Return the entries of a plan: these servers, or nowhere, and for the others where they run."""
    found = []
    for each in instance.jobs:
        now = dict(each.task_groups[0].current)
        there = targets.get(each.name, now) or {}
        action: Any = ("keep" if there == now else "move") if there and now else "start" if there else None
        action = action or ("stop" if now else "wait")
        found.append(JobPlacement(job=each.name, placed=bool(there), servers=there, action=action))
    return found


def words(found: Sequence[Step]) -> list[str]:
    """Return the steps in short."""
    return [f"{step.do}{'!' if step.early else ''} {step.job}" for step in found]


def test_a_job_waits_until_its_place_is_free() -> None:
    """The start is held first, and follows the move that makes room for it; who waits is released last."""
    instance = placement(
        ["value"],
        [server("a", gpu=4), server("b", gpu=4)],
        [job("new", 4), job("old", 4, current={"a": 4}), job("later", 4)],
    )
    entries = moved(instance, new={"a": 4}, old={"b": 4})
    found = steps(instance, entries)
    assert words(found) == ["hold new", "hold later", "stop old", "place old", "place new", "release later"]
    assert found[2].tasks == {"tasks": {"a": 4}}
    assert found[3].servers == ["b"]
    replay(instance, entries, found)


def test_jobs_that_change_places_are_stopped_first() -> None:
    """Of two that wait for each other the smaller; of a chain none."""
    servers = [server("a", gpu=4), server("b", gpu=4), server("c", gpu=4)]
    jobs = [job("big", 4, current={"a": 4}), job("small", 3, current={"b": 3})]
    instance = placement(["value"], servers, jobs)
    entries = moved(instance, big={"b": 4}, small={"a": 3})
    found = steps(instance, entries)
    assert words(found) == ["stop! small", "stop big", "place big", "place small"]
    replay(instance, entries, found)
    entries = moved(instance, big={"b": 4}, small={"c": 3})
    assert words(steps(instance, entries)) == ["stop small", "place small", "stop big", "place big"]


def test_a_job_may_take_a_place_beside_itself() -> None:
    """What it has now is free for it."""
    instance = placement(["value"], [server("a", gpu=4), server("b", gpu=4)], [job("j", 4, current={"a": 4})])
    entries = moved(instance, j={"a": 3, "b": 1})
    assert words(steps(instance, entries)) == ["stop j", "place j"]


def test_what_is_stopped_is_released_at_the_end() -> None:
    """It waits again, after all others have started."""
    instance = placement(["value"], [server("a", gpu=4)], [job("old", 4, current={"a": 4}), job("new", 4)])
    entries = moved(instance, old=None, new={"a": 4})
    assert words(steps(instance, entries)) == ["hold new", "stop old", "place new", "release old"]


def test_a_plan_that_changes_nothing_has_no_steps() -> None:
    """Also where jobs wait."""
    instance = placement(["value"], [server("a", gpu=4)], [job("old", 4, current={"a": 4}), job("new", 4)])
    assert steps(instance, moved(instance)) == []


def test_a_plan_that_does_not_fit_is_refused() -> None:
    """A step that cannot be taken is not written."""
    instance = placement(["value"], [server("a", gpu=4)], [job("old", 4, current={"a": 4}), job("new", 1)])
    with pytest.raises(ValueError, match="do not hold what the plan places: a"):
        steps(instance, moved(instance, new={"a": 1}))


def test_shares_that_are_in_the_way_are_restarted() -> None:
    """Two kept jobs have half of a device each, and a third needs a whole one."""
    jobs = [
        sharing(name, 500, 1, current={"a": 1}, current_devices={"a": [{"gpu": [device]}]})
        for device, name in enumerate("kl")
    ]
    whole = job("new", 1, {"cpu": 1}, devices={"gpu": 1})
    instance = placement(["value"], [gpus("a", 2, 4)], [*jobs, whole])
    entries = [
        JobPlacement.model_validate({**entry.model_dump(), "devices": {"tasks": {"a": [{"gpu": [device]}]}}})
        for entry, device in zip(moved(instance, new={"a": 1}), (0, 0, 1), strict=True)
    ]
    assert words(steps(instance, entries)) == ["hold new", "stop! l", "place l", "place new"]


def exchanged(seed: int) -> tuple[ConsolidationInstance, list[JobPlacement]]:
    """Return full servers whose jobs run by one random packing and are planned by another."""
    choose = random.Random(seed)
    names = [f"n{number}" for number in range(choose.randint(2, 6))]
    sizes = [choose.choice((0.5, 1, 1, 2, 3, 4)) for _ in range(choose.randint(2, 16))]

    def packed() -> list[dict[str, int]]:
        left, found = dict.fromkeys(names, 4.0), []
        for size in sizes:
            able = [name for name in names if left[name] >= size]
            if not able or choose.random() < 0.1:
                found.append({})
                continue
            name = choose.choice(able)
            left[name] -= size
            found.append({name: 1})
        return found

    now, then = packed(), packed()
    jobs = [
        job(f"j{number}", 1, {"gpu": size}, **({"current": place} if place else {}))
        for number, (size, place) in enumerate(zip(sizes, now, strict=True))
    ]
    instance = placement(["value"], [server(name, gpu=4) for name in names], jobs)
    return instance, moved(instance, **{f"j{number}": place for number, place in enumerate(then)})


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_no_server_holds_too_much_at_any_moment(first: int) -> None:
    """On full servers most orders would fail; and a job is stopped early only where another waits for it."""
    for seed in range(first, first + 50):
        instance, entries = exchanged(seed)
        replay(instance, entries, steps(instance, entries))


def test_the_replay_finds_a_wrong_order() -> None:
    """With the stop of a move left until later, its place is taken twice."""
    instance, entries = exchanged(3)
    found = steps(instance, entries)
    failed = 0
    for number, step in enumerate(found):
        if step.do == "stop":
            with pytest.raises((AssertionError, KeyError)):
                replay(instance, entries, [*found[:number], *found[number + 1 :], step])
            failed += 1
    assert failed
    assert overfull(instance, {each.name: {"tasks": {"n0": 100}} for each in instance.jobs}) == {"n0"}


@pytest.mark.parametrize("solver", ["exact", "best-fit"])
@pytest.mark.parametrize("make", [random_consolidation, device_instance])
def test_steps_of_solved_plans(make: Any, solver: str) -> None:
    """Groups, spread, devices, shares and partitions as solvers place them."""
    for seed in range(10):
        instance = make(seed)
        result = clusterplan.solve(instance, solver=solver)
        if result.plan is not None:
            replay(instance, result.plan, steps(instance, result.plan))


@pytest.mark.parametrize(("manager", "only"), [("slurm", "place()"), ("kubernetes", "selector()")])
def test_what_is_shared_comes_first_and_the_shell_reads_it(manager: str, only: str) -> None:
    lines = list(shell_script([manager], {}, ":", ""))
    assert lines[0] == "set -euo pipefail"
    text = "\n".join(lines)
    assert text.count("fail() {") == 1
    assert text.index("fail() {") < text.index(only)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
