"""Tiny random instances in which every feature is switched on and off at random."""

from __future__ import annotations

import random
from typing import Any

from fuzz.consolidation_documents import on_devices

from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.instances.mix.instance import MixInstance
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.instances.staging.instance import StagingInstance

SPEED_MODELS = ("ps_sync", "ps_async", "ring_allreduce", "table")


def variant_data(rng: random.Random, name: str, resources: list[str]) -> dict[str, Any]:
    """Return a variant with one of the four speed models."""
    model = rng.choice(SPEED_MODELS)
    step = rng.choice([1, 0.5, 0.1])
    variant: dict[str, Any] = {
        "name": name,
        "worker_demand": {r: round(rng.randint(0, 3) * step, 3) for r in resources},
        "speed": {"model": model},
    }
    if model == "table":
        configurations = [(w, p) for w in range(1, 5) for p in range(rng.choice([1, 3]))]
        rows = rng.sample(configurations, min(3, len(configurations)))
        variant["speed"]["rows"] = [
            {"workers": w, "ps": p, "steps_per_s": round(rng.uniform(0.5, 5), 3)} for w, p in rows
        ]
    else:
        count = 5 if model == "ps_sync" else 4
        theta = [round(rng.choice([0, 1, 1]) * rng.uniform(0.01, 2), 4) for _ in range(count)]
        variant["speed"]["theta"] = [theta[0] or 0.1, *theta[1:]]
        if model != "ps_async":
            variant["speed"]["batch"] = rng.choice([1, 16])
        variant["workers"] = {"min": 1, "max": rng.randint(1, 3)}
        if model != "ring_allreduce":
            variant["ps"] = {"min": 1, "max": rng.randint(1, 3)}
    if model != "ring_allreduce":
        variant["ps_demand"] = {r: round(rng.randint(0, 3) * step, 3) for r in resources}
    return variant


def random_allocation(seed: int) -> AllocationInstance:
    """Return one to four jobs over every speed model, with variants, restarts, deadlines and budgets."""
    rng = random.Random(seed)
    resources = ["cpu", "gpu", "memory_gib"][: rng.randint(1, 3)]
    jobs = []
    for index in range(rng.randint(1, 4)):
        names = ["a", "b"][: rng.randint(1, 2)]
        job: dict[str, Any] = {
            "name": f"job-{index}",
            "remaining_steps": rng.randint(10, 1000),
            "weight": rng.choice([1, 1, 2, 0.5, 0]),
            "stage": rng.choice(["beginning", "running"]),
            "variants": [variant_data(rng, name, resources) for name in names],
        }
        if rng.random() < 0.3:
            job |= {"optional": True, "unplaced_s": rng.randint(10, 5000)}
        if rng.random() < 0.3:
            job["current"] = {
                "variant": rng.choice(names),
                "ps": rng.randint(0, 2),
                "workers": rng.randint(1, 3),
            }
        if rng.random() < 0.5:
            job["restart_s"] = rng.randint(0, 300)
        if rng.random() < 0.2:
            job["deadline_s"] = rng.randint(200, 5000)
        jobs.append(job)
    data: dict[str, Any] = {
        "name": f"random-{seed}",
        "objective": rng.choice(["total_completion_time", "makespan"]),
        "resources": {r: rng.randint(3, 12) for r in resources},
        "jobs": jobs,
    }
    if rng.random() < 0.3:
        data["prices_usd_per_hour"] = {r: round(rng.uniform(0.1, 2), 2) for r in resources}
        data["budget_usd_per_hour"] = round(rng.uniform(2, 15), 2)
    return AllocationInstance.model_validate(data)


def random_staging(seed: int) -> StagingInstance:
    """Return two to four layers on one to three types, with limits, floors, budgets, memory, transfers."""
    rng = random.Random(seed)
    types = [f"t{index}" for index in range(rng.randint(1, 3))]
    layers = []
    for index in range(rng.randint(2, 4)):
        able = rng.sample(types, rng.randint(max(1, len(types) - 1), len(types)))
        share = rng.choice([0, 1, 0.5, 0.9, 0.99])
        layers.append(
            {
                "name": f"layer-{index}",
                "memory_gib": rng.choice([0, 1, 2.5]),
                "output_bytes": rng.choice([0, 1e7, 1e8]),
                "compute_s": {t: round(rng.uniform(0.1, 2), 3) for t in able},
                "communication_s": {t: round(rng.uniform(0, 1), 3) for t in able if rng.random() < 0.7},
                "compute_parallel": share
                if rng.random() < 0.5
                else {t: rng.choice([0, 0.8, 1]) for t in types},
                "communication_parallel": rng.choice([0, 0.5, 1]),
            }
        )
    data: dict[str, Any] = {
        "name": f"random-{seed}",
        "objective": rng.choice(["cost", "cost", "throughput", "time"]),
        "stage_rule": rng.choice(["maximal_runs", "free_cuts"]),
        "training": {"samples": rng.randint(1000, 100000), "epochs": rng.choice([1, 2.5])},
        "probe_batch": rng.choice([1, 32]),
        "link_gbit_per_s": rng.choice([None, 1, 10]),
        "types": [
            {
                "name": t,
                "price_usd_per_hour": round(rng.uniform(0.05, 5), 2),
                "limit": rng.randint(1, 4),
                "memory_gib": rng.choice([None, 3, 6]),
            }
            for t in types
        ],
        "layers": layers,
    }
    if rng.random() < 0.6:
        data["throughput_floor_samples_per_s"] = round(data["probe_batch"] / rng.uniform(0.3, 6), 4)
    if rng.random() < 0.3:
        data["hourly_budget_usd"] = round(rng.uniform(1, 20), 2)
    if rng.random() < 0.2:
        data["cost_limit_usd"] = round(rng.uniform(1, 500) * data["training"]["samples"] / 1e5, 2)
    return StagingInstance.model_validate(data)


OBJECTIVES = ["value", "spread", "servers", "racks", "migrations", "slowdown", "traffic"]


def random_consolidation(seed: int) -> ConsolidationInstance:
    """Return one to three jobs on two or three servers, over every objective in any order."""
    return ConsolidationInstance.model_validate(consolidation_data(random.Random(seed), f"random-{seed}"))


def random_devices(seed: int, **fields: Any) -> ConsolidationInstance:
    """Return such jobs and servers whose GPUs are single devices; fields replace those of the document."""
    rng = random.Random(seed)
    return ConsolidationInstance.model_validate(
        {**on_devices(rng, consolidation_data(rng, f"devices-{seed}")), **fields}
    )


def consolidation_data(rng: random.Random, title: str) -> dict[str, Any]:
    """Return the document of one to three jobs on two or three servers."""
    resources = ["gpu", "cpu"][: rng.randint(1, 2)]
    servers = []
    for index in range(rng.randint(2, 3)):
        capacity = {r: rng.randint(2, 4) for r in resources}
        servers.append(
            {
                "name": f"n{index}",
                "capacity": capacity,
                "free": {r: rng.randint(0, amount) for r, amount in capacity.items()}
                if rng.random() < 0.3
                else None,
                "rack": rng.choice([None, "r0", "r1"]),
                "gpu_model": rng.choice(["p100", "v100"]),
                "traffic_gbit_per_s": rng.choice([0, 0.5]),
            }
        )
    names = [server["name"] for server in servers]
    jobs = []
    for index in range(rng.randint(1, 3)):
        job: dict[str, Any] = {"name": f"job-{index}"}
        groups = []
        for name in ["ps", "worker"] if rng.random() < 0.3 else ["tasks"]:
            tasks = rng.randint(1, 2 if name == "ps" else 3)
            group: dict[str, Any] = {
                "name": name,
                "tasks": tasks,
                "demand": {r: rng.choice([0, 0.5, 1, 1, 2]) for r in resources},
                "traffic_gbit_per_s": rng.choice([0, 0.3, 1]),
            }
            if rng.random() < 0.3:
                group["current"] = {rng.choice(names): rng.randint(1, tasks)}
            groups.append(group)
        if len(groups) == 1:
            group = groups[0]
            job |= {"tasks": group["tasks"], "task_demand": group["demand"]}
            job |= {key: group[key] for key in ("traffic_gbit_per_s", "current") if key in group}
        else:
            job["groups"] = groups
        job["spread"] = rng.choice(["required", "preferred", "free", "from_skew"])
        if job["spread"] == "from_skew":
            job["skew"] = rng.choice([0.1, 0.7])
        if rng.random() < 0.5:
            job["value"] = rng.choice([1, 2, 2.5])
        if rng.random() < 0.2:
            job["must_place"] = True
        if rng.random() < 0.2:
            job["gpu_model"] = rng.choice(["p100", "v100"])
        if rng.random() < 0.4:
            job["speed_by_servers"] = {1: 1.0, 2: rng.choice([0.5, 0.8, 1.2]), 3: rng.choice([0.4, 0.9])}
        jobs.append(job)
    return {
        "schema_version": 1,
        "kind": "consolidation",
        "name": title,
        "objectives": rng.sample(OBJECTIVES, rng.randint(1, 4)),
        "servers": servers,
        "jobs": jobs,
    }


def unlike_consolidation(seed: int) -> ConsolidationInstance:
    """Return jobs and servers whose amounts and values have many digits: hardly any sums are equal."""
    rng = random.Random(seed)
    resources = ["gpu", "cpu", "memory"][: rng.randint(2, 3)]
    requests = [{r: rng.randint(1, 99_999) / 1000 for r in resources} for _ in range(rng.randint(2, 4))]
    jobs = []
    for index in range(rng.randint(3, 5)):
        job: dict[str, Any] = {
            "name": f"job-{index}",
            "tasks": rng.choice([1, 1, 1, 2]),
            "task_demand": rng.choice(requests),
            "value": rng.choice([0, rng.randint(1, 10**6) / 1000, rng.uniform(0.1, 9)]),
            "spread": rng.choice(["free", "free", "preferred", "required"]),
        }
        if rng.random() < 0.2:
            job["must_place"] = True
        if rng.random() < 0.2:
            job["gpu_model"] = rng.choice(["p100", "v100"])
        jobs.append(job)
    servers = []
    for index in range(rng.randint(2, 3)):
        # Some hold just what some of the jobs ask for together.
        some = rng.sample(jobs, rng.randint(1, 3))
        room = {r: sum(job["tasks"] * job["task_demand"][r] for job in some) for r in resources}
        wider = rng.choice([1, 1, rng.uniform(0.8, 1.5)])
        servers.append(
            {
                "name": f"n{index}",
                "capacity": {r: round(wider * amount, 3) for r, amount in room.items()},
                "gpu_model": rng.choice(["p100", "v100"]),
            }
        )
    return ConsolidationInstance.model_validate(
        {
            "name": f"unlike-{seed}",
            "objectives": rng.sample(["value", "servers", "spread"], rng.randint(1, 3)),
            "servers": servers,
            "jobs": jobs,
        }
    )


def random_scheduling(seed: int) -> SchedulingInstance:
    """Return one to four jobs without preemption, whose schedules brute force knows; one or two resources."""
    rng = random.Random(seed)
    resources = ["gpu", "cpu"][: rng.randint(1, 2)]
    step = rng.choice([1, 0.1])
    jobs = []
    for index in range(rng.randint(1, 4)):
        job: dict[str, Any] = {
            "name": f"job-{index}",
            "arrival_s": round(rng.randint(0, 20) * step, 3),
            "weight": rng.choice([1, 1, 2, 0.5]),
            "tasks": rng.randint(1, 2),
            "demand": {r: round(rng.randint(1, 3) * step, 3) for r in resources},
            "duration_s": round(rng.randint(1, 30) * step, 3),
        }
        if rng.random() < 0.3:
            job["estimate_s"] = rng.randint(1, 40)
        if rng.random() < 0.5:
            job["tenant"] = rng.choice(["a", "b"])
        jobs.append(job)
    return SchedulingInstance.model_validate(
        {
            "name": f"random-{seed}",
            "objective": rng.choice(["mean_completion_time", "makespan"]),
            "resources": {r: round(rng.randint(6, 9) * step, 3) for r in resources},
            "preemption": "none",
            "jobs": jobs,
        }
    )


def random_mix(seed: int) -> MixInstance:
    """Return one to three types of requests or of jobs, and two to five configurations in few copies each."""
    rng = random.Random(seed)
    types, models = [f"t{i}" for i in range(rng.randint(1, 3))], [f"m{i}" for i in range(rng.randint(1, 2))]
    serves = rng.random() < 0.5
    data: dict[str, Any] = {
        "name": f"random-{seed}",
        "types": [
            {"name": name, "requests_per_s": rng.choice([0, round(rng.uniform(0.1, 2), 2), 1.5])}
            if serves
            else {"name": name, "count": rng.randint(0, 4), "weight": rng.choice([1, 1, 2, 0.5])}
            for name in types
        ],
        "hardware": [
            {
                "name": name,
                "limit": rng.choice([None, 1, 2, 3, 4]),
                "price_usd_per_hour": rng.choice([0, 1, round(rng.uniform(0.5, 9), 2)]),
            }
            for name in models
        ],
        "configurations": [
            {
                "name": f"c{number}",
                "hardware": rng.choice(models),
                "devices": rng.choice([1, 1, 2]),
                **(_replica(rng, types) if serves else _group(rng, types)),
            }
            for number in range(rng.randint(2, 5))
        ],
    }
    if not serves:
        data["must_run"] = rng.random() < 0.3
        data["least_progress"] = rng.choice([None, None, 0.4])
    if rng.random() < 0.3:
        data["budget_usd_per_hour"] = round(rng.uniform(1, 20), 2)
    if rng.random() < 0.3:
        data["devices"] = rng.randint(0, 4)
    return MixInstance.model_validate(data)


def _replica(rng: random.Random, types: list[str]) -> dict[str, Any]:
    some = rng.sample(types, rng.randint(1, len(types)))
    return {"requests_per_s": {name: round(rng.uniform(0.7, 3), 2) for name in some}}


def _group(rng: random.Random, types: list[str]) -> dict[str, Any]:
    some = rng.sample(types, rng.randint(1, min(2, len(types))))
    progress = {name: rng.choice([1, 0.5, round(rng.uniform(0, 1), 3)]) for name in some}
    return {"jobs": {name: rng.choice([1, 1, 2]) for name in some}, "progress": progress}


RANDOM = {
    "allocation": random_allocation,
    "staging": random_staging,
    "consolidation": random_consolidation,
    "scheduling": random_scheduling,
    "mix": random_mix,
}
OF_CLUSTERS = {"devices": random_devices, "unlike": unlike_consolidation}
"""Further sorts of consolidation instances."""
