"""Single devices in tables, as data, and in the forms of cluster managers."""

from __future__ import annotations

import clusterplan
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.instances.consolidation.devices import DeviceSlot
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.planner.consolidation.devices import beside, in_words
from clusterplan.planner.consolidation.kubernetes import kubernetes_lines
from clusterplan.planner.consolidation.page import consolidation_parts
from clusterplan.planner.consolidation.plan import as_data, columns
from clusterplan.planner.consolidation.slurm import slurm_lines, slurm_notes
from clusterplan.planner.output.text import cells_of

DOCUMENT = {
    "schema_version": 1,
    "kind": "consolidation",
    "name": "views",
    "servers": [
        {"name": "n", "capacity": {"cpu": 8}, "devices": {"gpu": {"count": 4, "geometry": "a100-40"}}}
    ],
    "jobs": [
        {"name": "w", "tasks": 1, "task_demand": {"cpu": 1}, "devices": {"gpu": 2}},
        {"name": "p", "tasks": 1, "task_demand": {"cpu": 1}, "profile": {"gpu": "4g.20gb"}, "value": 1},
    ],
}
PLAN = (
    JobPlacement.model_validate(
        {"job": "w", "servers": {"n": 1}, "devices": {"tasks": {"n": [{"gpu": [0, 1]}]}}}
    ),
    JobPlacement.model_validate(
        {"job": "p", "servers": {"n": 1}, "devices": {"tasks": {"n": [{"gpu": {"device": 2, "slot": 0}}]}}}
    ),
)


def _instance() -> ConsolidationInstance:
    found = clusterplan.parse_instance(DOCUMENT)
    assert isinstance(found, ConsolidationInstance)
    return found


def test_words() -> None:
    """Several devices of a task, the slot of a partition, and not all of many tasks."""
    assert in_words([{"gpu": (0, 1), "npu": (3,)}, {"gpu": DeviceSlot(device=2, slot=4)}]) == (
        "gpu 0+1, npu 3; gpu 2 slot 4"
    )
    assert in_words([{"gpu": (0,)}] * 9) == "gpu 0; gpu 0; gpu 0; gpu 0; 5 more"
    assert beside(None, "tasks", "n") == ""


def test_the_table_and_the_data_name_devices() -> None:
    """Beside the server; the data has them as the plan has."""
    assert [row[2] for row in cells_of(columns(PLAN), PLAN)] == ["1×n (gpu 0+1)", "1×n (gpu 2 slot 0)"]
    data = as_data(_instance(), PLAN)
    assert data["devices"]["p"] == {"tasks": {"n": ({"gpu": {"device": 2, "slot": 0}},)}}
    assert "devices" not in as_data(_instance(), [JobPlacement(job="w", placed=False)])


def test_the_page_shows_devices_as_amounts() -> None:
    """A bar for the GPUs, of which two and a half are in use, and the devices in the table of jobs."""
    result = clusterplan.solve(_instance(), solver="exact")
    parts = consolidation_parts(_instance(), result)
    bars = {name: words for name, _, words in parts["bars"]}
    assert bars["gpu"] == "2.5 of the 4 that were free"
    assert "gpu" in str(parts["jobs"].rows)
    # Ruled slots would be taken for devices.
    assert parts["on_devices"]
    assert parts["slots"](4.0) == 1


def test_forms_of_cluster_managers() -> None:
    """Kubernetes as a comment; Slurm asks for whole devices, and says what it cannot."""
    lines = list(kubernetes_lines(_instance(), PLAN))
    assert "# Devices on n: gpu 2 slot 0. Affinity does not choose devices." in lines
    assert [line.rsplit(" ", 1)[1] for line in slurm_lines(_instance(), PLAN)] == [
        "--gres=gpu:2",
        "--ntasks-per-node=1",
    ]
    assert next(iter(slurm_notes(_instance(), PLAN))).startswith("Slurm chooses devices itself")
