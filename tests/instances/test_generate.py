"""Synthetic instances are reproducible, say that they are synthetic, and are as asked."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from sample_documents import refused

import clusterplan
from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.formulations.staging.stages import received_s
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.instances.common.base import Instance
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.common.hardware import HardwareCatalogue
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.documents import load_catalogue, to_text
from clusterplan.instances.mix.generate import generate_mix
from clusterplan.instances.staging.generate import Parts, cheapest_path, generate_staging, used
from clusterplan.instances.staging.generate_ctr import generate_ctr
from clusterplan.instances.staging.instance import StagingInstance

MAKERS: list[Callable[[int], Instance]] = [
    lambda seed: generate_allocation(20, 4, 0.8, 0.2, seed),
    lambda seed: generate_staging(8, 3, "tight", True, True, seed),
    lambda seed: generate_ctr(6, seed),
    lambda seed: generate_mix(4, 2, 12, seed=seed),
    lambda seed: generate_mix(4, 2, sharing=True, seed=seed),
    lambda seed: generate_consolidation(16, 30, 8, 1.2, seed=seed),
    lambda seed: generate_consolidation(
        16, 30, load=1.2, seed=seed, resources=3, shapes=4, must_place_share=0.1
    ),
]


def on_servers(seed: int, jobs: int = 60, **options: Any) -> AllocationInstance:
    """Return an allocation at the usual number of jobs for each server, of which some run."""
    given = {"servers": 2 * jobs // 3, "running_share": 0.3, **options}
    return generate_allocation(jobs, seed=seed, **given)


@pytest.mark.parametrize("make", [*MAKERS, on_servers])
def test_a_seed_decides_everything(make: Callable[[int], Instance]) -> None:
    """The same seed gives the same document, another seed another, and both say synthetic."""
    assert make(1).sha256() == make(1).sha256()
    assert make(1).sha256() != make(2).sha256()
    assert "synthetic" in make(1).name
    assert make(1).assumptions
    assert "synthetic" in to_text(make(1))


@pytest.mark.parametrize("make", MAKERS)
def test_generated_instances_have_plans(make: Callable[[int], Instance]) -> None:
    """The kind's heuristic or prover finds a plan within seconds."""
    for seed in range(3):
        result = clusterplan.solve(make(seed), "auto", clusterplan.SolveOptions(time_limit_s=5))
        assert result.plan is not None, (seed, result.message, result.diagnosis)


@pytest.mark.parametrize("wrong", [{"types": 0}, {"hardware": 17}, {"configurations": 0}, {"load": 0}])
def test_a_mix_has_limits(wrong: dict[str, Any]) -> None:
    """Each is named in one line."""
    with refused("at most 100 types", OptionError):
        generate_mix(**wrong)


@pytest.mark.parametrize(("resources", "shapes"), [(1, 1), (2, 3), (3, 2), (3, 3), (4, 3)])
def test_jobs_on_servers_have_room(resources: int, shapes: int) -> None:
    """Those that run hold no more than there is, and leave room for the smallest configuration of all."""
    instance = on_servers(5, 120, resources=resources, shapes=shapes)
    table = instance.table()
    sizes = Counter(row.capacity["gpu"] for row in instance.expanded_servers.values())
    assert set(sizes) == {4.0, 8.0, 2.0} - {1: {2.0, 8.0}, 2: {2.0}, 3: set()}[shapes]
    assert (sizes.total(), len(table)) == (80, 120)
    assert set(table.worker_demand[:, 0]) == {1, 2, 3}
    assert not table.ps_demand[:, 0].any()
    rows = instance.expanded_servers.items()
    free = {name: np.array([row.capacity[each] for each in table.resources]) for name, row in rows}
    running = [j for j, job in enumerate(instance.jobs) if job.current is not None]
    assert 0.15 < len(running) / 120 < 0.45
    for j in running:
        current = instance.jobs[j].current
        assert current is not None
        assert instance.jobs[j].restart_s >= 30
        for server, tasks in (current.placement or {}).items():
            free[server] -= tasks.ps * table.ps_demand[j] + tasks.workers * table.worker_demand[j]
    assert min(amounts.min() for amounts in free.values()) >= 0
    waiting = np.setdiff1d(np.arange(120), running)
    least = (table.ps_demand + table.worker_demand)[waiting].sum(axis=0)
    assert (least <= sum(free.values())).all()
    workers = {job.current.workers for job in instance.jobs if job.current is not None}
    assert {1, 2} < workers <= {1, 2, 3, 4}


@pytest.mark.parametrize("load", [0.95, 1.4])
@pytest.mark.parametrize(
    "options",
    [
        {"servers": 64, "jobs": 80},
        {"servers": 10_000, "jobs": 15_000},
        {"servers": 1_000, "jobs": 2_000, "resources": 3, "shapes": 4},
        {"servers": 400, "jobs": 2_000},
        {"servers": 400, "jobs": 100, "resources": 3},
        {"servers": 50, "jobs": 60, "gpus_per_server": 4, "resources": 3},
    ],
)
def test_load_is_met(load: float, options: dict[str, Any]) -> None:
    """GPUs asked over GPUs free is what was asked for, whether that takes more room or smaller jobs."""
    instance = generate_consolidation(**options, load=load, seed=3)
    free = sum(server.available["gpu"] for server in instance.servers)
    assert sum(job.worth for job in instance.jobs) / free == pytest.approx(load, rel=0.01)
    total = sum(server.capacity["gpu"] for server in instance.servers)
    assert 0 < free <= total
    assert (len(instance.servers), len(instance.jobs)) == (options["servers"], options["jobs"])


def test_a_busy_cluster_is_partly_filled() -> None:
    """Servers with none and with all GPUs free stand beside all that lie between; most jobs have one GPU."""
    instance = generate_consolidation(1_000, 1_500, load=1.2, seed=1)
    room = np.bincount([int(server.available["gpu"]) for server in instance.servers], minlength=9)
    assert (room >= 10).all(), room
    sizes = [job.worth for job in instance.jobs]
    assert set(sizes) == {1, 2, 4, 8, 16, 32}
    assert 0.6 < sizes.count(1) / len(sizes) < 0.7
    assert all(job.tasks == job.worth for job in instance.jobs)


def test_requests_and_shapes_are_few() -> None:
    """With three resources there are few shapes and requests, and free room is what they leave."""
    instance = generate_consolidation(500, 1_000, load=1.1, seed=2, resources=3, shapes=4, rack_size=20)
    assert len({tuple(server.capacity.items()) for server in instance.servers}) == 4
    assert len({server.gpu_model for server in instance.servers}) == 4
    assert len({server.rack for server in instance.servers}) == 25
    assert 6 <= len({tuple((job.task_demand or {}).items()) for job in instance.jobs}) <= 12
    for job in instance.jobs:
        demand = (job.task_demand or {}).items()
        assert any(all(s.capacity[r] >= need for r, need in demand) for s in instance.servers)
    untouched = [server.free == server.capacity for server in instance.servers]
    assert 0 < sum(untouched) < 500


def test_shares_of_rules_are_met() -> None:
    """Spread rules and jobs that must be placed are as common as asked."""
    instance = generate_consolidation(
        100, 5_000, required_share=0.2, preferred_share=0.5, must_place_share=0.1, rack_size=0, load=10
    )
    rules = Counter(job.spread for job in instance.jobs)
    assert rules["required"] / 5_000 == pytest.approx(0.2, abs=0.02)
    assert rules["preferred"] / 5_000 == pytest.approx(0.5, abs=0.02)
    assert sum(job.must_place for job in instance.jobs) / 5_000 == pytest.approx(0.1, abs=0.02)
    assert {server.rack for server in instance.servers} == {None}


@pytest.mark.parametrize(
    "call",
    [
        lambda: generate_allocation(0),
        lambda: generate_allocation(3, 9),
        lambda: generate_allocation(3, tightness=2),
        lambda: generate_allocation(3, servers=2, spare=1),
        lambda: generate_allocation(3, shapes=2),
        lambda: generate_allocation(3, running_share=0.5),
        lambda: generate_allocation(3, servers=2, shapes=4),
        lambda: generate_allocation(30, servers=2),
        lambda: generate_staging(0, 1),
        lambda: generate_ctr(2),
        lambda: generate_ctr(16, floor=-1),
        lambda: generate_ctr(16, floor=math.nan),
        lambda: generate_consolidation(1, 1, load=-1),
        lambda: generate_consolidation(0, 1),
        lambda: generate_consolidation(1, 10_000, load=0.5),
        lambda: generate_consolidation(1, 1, resources=2),
        lambda: generate_consolidation(1, 1, shapes=99),
        lambda: generate_consolidation(1, 1, 8, shapes=2),
        lambda: generate_consolidation(1, 1, rack_size=-1),
        lambda: generate_consolidation(1, 1, must_place_share=1.5),
        lambda: generate_consolidation(1, 1, required_share=0.8, preferred_share=0.8),
    ],
)
def test_parameters_out_of_range_are_refused(call: Callable[[], Instance]) -> None:
    """The error says what is allowed."""
    with pytest.raises(clusterplan.OptionError, match="must"):
        call()


# Staging ---------------------------------------------------------------------------------------------


def units_used(instance: StagingInstance) -> dict[str, int]:
    """Return the units of each type in the best plan, found by trying every plan."""
    result = clusterplan.solve(instance, "brute-force", clusterplan.SolveOptions(time_limit_s=30))
    assert result.status == "optimal", result.message
    used = dict.fromkeys((kind.name for kind in instance.types), 0)
    for stage in result.plan or ():
        used[stage.type] += stage.units  # type: ignore[union-attr]
    return used


def test_tight_limits_bind() -> None:
    """The best plan uses all units of nearly all types."""
    scarce = []
    for seed in range(5):
        instance = generate_staging(6, 3, "tight", seed=seed)
        spent = units_used(instance)
        scarce += [spent[kind.name] == kind.limit for kind in instance.types]
    assert sum(scarce) >= 12, scarce


def cost_of_some_plan(instance: StagingInstance) -> float:
    """Return the cost of a plan within the limits that is the cheapest for its slowest stage."""
    formulation = StagingFormulation(instance)
    hardware = formulation.hardware
    parts = Parts(
        np.moveaxis(formulation.parts, 2, 0),
        received_s(instance),
        np.array([layer.memory_gib for layer in instance.layers]),
        np.array([kind.memory_gib or math.inf for kind in instance.types]),
    )
    slowest_s = instance.probe_batch / (instance.throughput_floor_samples_per_s or 1)
    costs = []
    for share in np.geomspace(0.15, 1, 60):
        stages = cheapest_path(parts, hardware.price, share * slowest_s) or []
        units = used(stages, len(instance.types))
        if stages and (units <= hardware.limit).all():
            plan = [formulation.stage(s.first, s.last, s.unit_type, s.units) for s in stages]
            hours = instance.training.samples * formulation.stage_time_s(plan) / instance.probe_batch / 3600
            costs.append(hours * float(units @ hardware.price))
    return min(costs, default=math.inf)


@pytest.mark.parametrize("seed", range(3))
def test_tight_limits_cost_money(seed: int) -> None:
    """Where every limit is lifted, there is a cheaper plan."""
    tight = generate_staging(6, 3, "tight", seed=seed)
    free = tight.model_copy(
        update={"types": tuple(kind.model_copy(update={"limit": None}) for kind in tight.types)}
    )
    result = clusterplan.solve(tight, "brute-force", clusterplan.SolveOptions(time_limit_s=30))
    assert result.status == "optimal"
    assert result.objective is not None
    assert cost_of_some_plan(free) < result.objective


@pytest.mark.parametrize("layers", [1, 2, 7])
@pytest.mark.parametrize("types", [1, 2, 5])
@pytest.mark.parametrize("limits", ["none", "loose", "tight"])
def test_every_shape_has_a_plan(layers: int, types: int, limits: str) -> None:
    """Few layers on many types, and a single type with a memory limit, have plans too."""
    for memory, transfers in itertools.product((False, True), repeat=2):
        instance = generate_staging(layers, types, limits, memory, transfers, seed=7)  # type: ignore[arg-type]
        assert (len(instance.layers), len(instance.types)) == (layers, types)
        limited = [kind.limit is not None for kind in instance.types]
        assert limited == [limits != "none"] * types
        if limits == "tight" and layers * types <= 14:
            result = clusterplan.solve(instance, "brute-force", clusterplan.SolveOptions(time_limit_s=20))
            assert result.plan is not None, (memory, transfers)
        elif limits != "tight":
            assert cost_of_some_plan(instance) < math.inf


def test_large_chains_are_quick_and_spread() -> None:
    """A tight instance of 300 layers and 64 types uses nearly all types; all limits are units of one plan."""
    instance = generate_staging(300, 64, "tight", True, True, 3)
    assert len(instance.layers) == 300
    assert sum(kind.limit or 0 for kind in instance.types) > 100


def test_ctr_runs_on_the_published_cluster(shared_data: Path) -> None:
    """Catalogue and generator have the prices and units of the published figures."""
    published = yaml.safe_load((shared_data / "published" / "heterps.yaml").read_text())
    catalogue = load_catalogue("catalogue:heterps")
    assert isinstance(catalogue, HardwareCatalogue)
    instance = generate_ctr()
    for row, machine, kind in zip(published["resource_types"], catalogue.types, instance.types, strict=True):
        assert row["name"] == machine.name == kind.name == kind.hardware
        assert row["price_usd_per_hour"] == machine.unit_price_usd_per_hour() == kind.price_usd_per_hour
        assert row["limit"] == kind.limit
    assert instance.link_gbit_per_s == published["network_gbit_per_s"]


def single_type_cost(instance: StagingInstance, name: str) -> float:
    """Return the least cost of a plan with one stage on one type; infinite where there is none."""
    formulation = StagingFormulation(instance)
    t, last = formulation.type_index[name], len(instance.layers) - 1
    most = int(formulation.hardware.limit[t])
    plans = [[formulation.stage(0, last, t, units)] for units in range(1, most + 1)]
    costs = (formulation.plan_cost_usd(plan) for plan in plans if not formulation.violations(plan))
    return min(costs, default=math.inf)


def test_ctr_needs_both_types() -> None:
    """For most seeds a mix of cores and V100 is cheaper than either alone."""
    mixed = 0
    for seed in range(10):
        instance = generate_ctr(8, seed, floor=20_000)
        alone = min(single_type_cost(instance, kind.name) for kind in instance.types)
        mixed += cost_of_some_plan(instance) < alone * (1 - 1e-9)
    assert mixed >= 8


def test_ctr_layers_are_of_their_kinds() -> None:
    """Lookups gain less than ten times from a V100, dense layers more than thirty times."""
    for seed in range(5):
        instance = generate_ctr(16, seed)
        gain = {
            layer.name: layer.compute_s["cpu-core"] / layer.compute_s["v100"] for layer in instance.layers
        }
        for layer in instance.layers:
            if layer.kind == "embedding":
                assert gain[layer.name] < 10
            elif layer.kind == "dense":
                assert gain[layer.name] > 30
        assert [layer.kind for layer in instance.layers].count("embedding") == 4
        assert "synthetic" in " ".join(instance.assumptions)
