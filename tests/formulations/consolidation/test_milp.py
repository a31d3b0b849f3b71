"""The compact MILP models of consolidation, on amounts and on single devices."""

from __future__ import annotations

from typing import Any

import pytest
from device_instances import device_instance, job, placement, server, three_jobs
from random_instances import random_devices

import clusterplan
from clusterplan.formulations.consolidation.cluster_data import ClusterData
from clusterplan.formulations.consolidation.formulation import DeviceFormulation
from clusterplan.formulations.consolidation.milp import (
    CompactRows,
    DeviceRows,
    device_coefficients,
    milp_model,
    model_coefficients,
)
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.instances.consolidation.devices import DeviceDemand


def test_the_size_is_known_beforehand() -> None:
    """Coefficients are counted for each group of tasks and each server that holds one of them."""
    data = ClusterData(
        placement(["value"], [server("n", gpu=1), server("m", gpu=4)], [job("a", 1, {"gpu": 2})])
    )
    assert model_coefficients(data) == 5 + 1 + 2
    assert model_coefficients(three_jobs("value")) == 3 * 2 * (5 + 1 + 2)


def test_a_plan_is_encoded_and_decoded() -> None:
    """Its start values keep every constraint, and mean the plan."""
    formulation = three_jobs("value", "servers", "spread")
    model = milp_model(formulation)
    assert [part.objective.name for part in model.objectives] == ["value", "servers", "spread"]
    plan = [
        JobPlacement(job="a", servers={"n": 3}),
        JobPlacement(job="b", servers={"m": 3}),
        JobPlacement(job="c", placed=False),
    ]
    start = model.encode(plan)
    assert [entry.servers for entry in model.decode(lambda x: start[x])] == [{"n": 3}, {"m": 3}, {}]
    for variable in model.problem.variables():
        variable.varValue = start.get(variable, 1.0)  # what is not encoded is a server in use
    assert model.problem.valid(1e-9)
    assert model.objectives[0].expression.value() == 6


def agrees_with_enumeration(instance: clusterplan.Instance, solver: str) -> None:
    """Expect the status and values of brute force."""
    best, found = (clusterplan.solve(instance, solver=name) for name in ("brute-force", solver))
    assert found.status == best.status
    assert [o.value for o in found.objectives] == pytest.approx([o.value for o in best.objectives])


@pytest.mark.parametrize("seed", range(12))
def test_its_optimum_is_that_of_enumeration(seed: int) -> None:
    """In every objective; and it starts from the plan that was found."""
    agrees_with_enumeration(device_instance(seed, jobs=3), "milp:highs")


@pytest.mark.parametrize("seed", range(12))
def test_a_plan_written_as_values_keeps_every_row(seed: int) -> None:
    """The plan of best-fit, by the model's own rows."""
    instance = device_instance(seed)
    formulation, result = DeviceFormulation(instance), clusterplan.solve(instance, solver="best-fit")
    if result.plan is None:
        return
    model = milp_model(formulation)
    start = model.encode(formulation.parse_plan([entry.model_dump() for entry in result.plan]))
    names = {variable.name: value for variable, value in start.items()}
    for row in model.problem.constraints():
        if all(variable.name in names for variable in row):
            left = sum(c * names[v.name] for v, c in row.items()) + row.constant
            assert {-1: left <= 1e-9, 0: abs(left) <= 1e-9, 1: left >= -1e-9}[row.sense], row


@pytest.mark.parametrize("solver", ["milp:highs", "cp-sat", "exact"])
@pytest.mark.parametrize("seed", range(16))
def test_moves_between_devices_are_those_of_enumeration(solver: str, seed: int) -> None:
    """Where they count, with tasks that run on one another's devices, or on none that there is."""
    instance = random_devices(seed, device_moves=True, objectives=("migrations", "value"))
    agrees_with_enumeration(instance, solver)


def test_rows_speak_of_devices_that_others_leave() -> None:
    """A device that others hold whole has no content; a shared one only shares that fit."""
    instance = placement(
        None,
        [
            {
                "name": "n",
                "capacity": {"cpu": 8},
                "devices": {
                    "gpu": {"count": 3, "taken": [{"device": 0}, {"device": 1, "share": 700}]},
                },
            }
        ],
        [{"name": f"j{s}", "tasks": 1, "task_demand": {}, "share": {"gpu": s}} for s in (300, 400)],
    )
    formulation = DeviceFormulation(instance)
    model = CompactRows("devices")
    rows = DeviceRows(model)
    tasks = {(job, "tasks", "n"): model.make("x", 1, 1) for job in ("j300", "j400")}
    rows.write(formulation.jobs, formulation.servers, tasks)
    contents = {(i, ask) for _, _, i, ask, _ in rows.contents}
    assert contents == {
        (1, DeviceDemand(share=300)),
        (2, DeviceDemand(share=300)),
        (2, DeviceDemand(share=400)),
    }
    made = [variable.name[0] for variable in model.problem.variables()]
    assert sorted(made) == ["a", "a", "a", "p", "q", "x", "x"]


def test_the_size_grows_with_devices_and_what_is_asked_of_them() -> None:
    """Two devices with one share each; then with a profile of two slots that starts at three places, too."""
    server = {"name": "n", "capacity": {"cpu": 8}, "devices": {"gpu": {"count": 2, "geometry": "a100-40"}}}
    jobs: list[dict[str, Any]] = [{"name": "s", "tasks": 1, "task_demand": {}, "share": {"gpu": 300}}]
    document = {"schema_version": 1, "kind": "consolidation", "name": "size", "servers": [server]}
    sizes = []
    for more in ({}, {"name": "p", "tasks": 1, "task_demand": {}, "profile": {"gpu": "2g.10gb"}, "value": 1}):
        found = clusterplan.parse_instance({**document, "jobs": [*jobs, more] if more else jobs})
        formulation = DeviceFormulation(found)
        sizes.append(device_coefficients(formulation.jobs.values(), formulation.servers.values()))
        assert model_coefficients(formulation) > sizes[-1]
    assert sizes == [2 * (4 + 2), 2 * (4 + 2 + 3 * 3)]
