"""Planning again: an earlier result, made to fit, begins the solve of an instance that has changed."""

from __future__ import annotations

from typing import Any

import pytest

import clusterplan
from clusterplan.formulations.registry import formulate
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.registry import KINDS


def with_changed_jobs(instance: Any, **changes: Any) -> Any:
    """Return an instance without its first job, with a larger second one, and with a new one."""
    gone, grown, *others = instance.jobs
    larger = grown.model_copy(update={"tasks": grown.tasks + 1})
    return instance.replace(jobs=(*others, larger, gone.model_copy(update={"name": "new"})), **changes)


def adapted(instance: Any, plan: Any) -> dict[str, Any]:
    """Return the entries of a plan that is made to fit, by job, which break no constraint."""
    formulation = formulate(instance)
    made = KINDS[instance.kind].adapted(formulation, formulation.choices(plan))
    assert formulation.violations(made) == []
    return {entry.job: entry for entry in made}


CLUSTERS: list[dict[str, Any]] = [
    {},
    {"must_place_share": 1.0},
    {"devices": True, "resources": 3},
]


@pytest.mark.parametrize("options", CLUSTERS, ids=["amounts", "must place", "devices"])
def test_unchanged_jobs_keep_their_servers_and_others_are_placed(options: dict[str, Any]) -> None:
    instance = generate_consolidation(16, 16, load=0.4, seed=3, **options)
    plan = clusterplan.solve(instance, time_limit_s=5).plan
    changed = with_changed_jobs(instance)
    now, before = adapted(changed, plan), {entry.job: entry for entry in plan}
    assert now.keys() == {job.name for job in changed.jobs}
    unchanged = [job.name for job in instance.jobs[2:] if before[job.name].placed]
    assert {name: now[name].tasks for name in unchanged} == {name: before[name].tasks for name in unchanged}
    assert now["new"].placed


def test_tasks_on_servers_that_are_gone_drained_or_smaller_move() -> None:
    instance = generate_consolidation(6, 12, seed=1, load=0.5)
    plan = clusterplan.solve(instance).plan
    used = next(name for entry in plan for name in entry.used_servers)
    without = tuple(server for server in instance.expanded_servers if server.name != used)
    full = dict.fromkeys(instance.resource_names, 0.0)
    smaller = [
        s.model_copy(update={"free": full}) if s.name == used else s for s in instance.expanded_servers
    ]
    for changes in ({"servers": without}, {"servers": tuple(smaller)}, {"drain": (used,)}):
        now = adapted(instance.replace(**changes), plan)
        for entry in plan:
            kept = used not in entry.used_servers
            assert not kept or now[entry.job].tasks == entry.tasks
            assert used not in now[entry.job].used_servers


def test_a_job_whose_devices_changed_is_placed_anew() -> None:
    """It asked for whole devices, and asks for a share of one now; or the servers have none any more."""
    whole = {"name": "a", "tasks": 2, "task_demand": {}, "devices": {"gpu": 1}, "value": 1.0}
    other = whole | {"name": "b", "tasks": 1}
    servers = [{"name": name, "capacity": {"cpu": 4}, "devices": {"gpu": {"count": 2}}} for name in "xy"]
    document = {"schema_version": 1, "kind": "consolidation", "name": "d", "servers": servers}
    plan = clusterplan.solve(clusterplan.parse_instance(document | {"jobs": [whole, other]})).plan
    shared = {key: value for key, value in whole.items() if key != "devices"} | {"share": {"gpu": 500}}
    now = adapted(clusterplan.parse_instance(document | {"jobs": [shared, other]}), plan)
    assert now["a"].placed
    assert now["b"].tasks == plan[1].tasks


def test_a_job_that_must_be_placed_without_room_leaves_the_plan_out(caplog: pytest.LogCaptureFixture) -> None:
    instance = generate_consolidation(2, 4, seed=1)
    result = clusterplan.solve(instance)
    huge = instance.jobs[0].model_copy(update={"name": "huge", "tasks": 2, "must_place": True, "value": 1.0})
    room = max(server.capacity["gpu"] for server in instance.expanded_servers)
    changed = instance.replace(jobs=(*instance.jobs, huge.model_copy(update={"task_demand": {"gpu": room}})))
    again = clusterplan.solve(changed, warm_start=result)
    assert "what is new finds no room" in caplog.text
    assert again.objectives == clusterplan.solve(changed).objectives


def test_stages_get_the_fewest_units_that_keep_the_floor() -> None:
    """Where the old numbers of units are no plan any more."""
    instance = generate_staging(5, 2, "loose", seed=2)
    plan = clusterplan.solve(instance).plan
    more = [stage.model_copy(update={"units": stage.units + 10**8}) for stage in plan]
    formulation = formulate(instance)
    made = KINDS["staging"].adapted(formulation, more)
    assert formulation.violations(made) == []
    for i, stage in enumerate(made):
        fewer = [*made[:i], stage.model_copy(update={"units": max(1, stage.units - 1)}), *made[i + 1 :]]
        assert stage.units == 1 or formulation.violations(fewer)


INSTANCES: dict[str, Any] = {
    "allocation": lambda: generate_allocation(8, 2, 0.7, seed=5),
    "allocation on servers": lambda: generate_allocation(6, servers=6, seed=4),
    "consolidation": lambda: generate_consolidation(6, 12, seed=5),
    "devices": lambda: generate_consolidation(4, 6, seed=5, devices=True, resources=3),
    "staging": lambda: generate_staging(4, 2, "loose", seed=5),
    "scheduling": lambda: generate_scheduling(5, 4, seed=1),
}


@pytest.mark.parametrize("name", INSTANCES)
def test_an_earlier_result_never_makes_the_answer_worse(name: str) -> None:
    """Also of an instance from which the last job has gone; the result does not repeat the earlier plan."""
    instance = INSTANCES[name]()
    first = clusterplan.solve(instance, time_limit_s=5)
    jobs = getattr(instance, "jobs", None)
    for changed in [instance] if jobs is None else [instance, instance.replace(jobs=jobs[:-1])]:
        again = clusterplan.solve(changed, warm_start=first, keep_cuts=True, time_limit_s=5)
        assert clusterplan.verify(changed, again).ok
        objective = formulate(changed).objectives[0]
        cold = clusterplan.solve(changed, time_limit_s=5).objectives[0].value
        value = again.objectives[0].value
        assert value == pytest.approx(cold) or objective.better(value, cold)
        assert (again.options.warm_start, again.options.warm_prices) == (None, None)
        assert again.options.warm_start_sha256 == first.plan_sha256
        assert type(again).model_validate_json(again.to_json()) == again


def test_a_result_gives_its_plan_and_its_prices() -> None:
    result = clusterplan.solve(generate_allocation(4, 2, seed=1))
    options = SolveOptions(warm_start=result.model_copy(update={"cuts": ({"gpu": 1.0},)}))
    assert options == SolveOptions(
        warm_start=result.plan, warm_prices={**(result.certificate or {}), "cuts": ({"gpu": 1.0},)}
    )
    assert {key: part for key, part in options.warm_prices.items() if key != "cuts"} == result.certificate
    instance = generate_allocation(4, 2, seed=1)
    stated = clusterplan.verify(instance, result.model_copy(update={"cuts": ({"gpu": 1.0},)})).stated
    assert stated[0].endswith(", cuts")
    with pytest.raises(clusterplan.OptionError, match="no plan"):
        clusterplan.solve(generate_allocation(4, 2), warm_start=result.model_copy(update={"plan": None}))


@pytest.mark.parametrize("prices", [{"goals": "x"}, {"cuts": 3}, {"resources": {"gpu": -1}}, {"": [[]] * 9}])
@pytest.mark.parametrize("name", INSTANCES)
def test_prices_that_do_not_fit_are_ignored(name: str, prices: dict[str, Any]) -> None:
    instance = INSTANCES[name]()
    result = clusterplan.solve(instance, warm_prices=prices, time_limit_s=5)
    assert clusterplan.verify(instance, result).ok
