"""Even loads: bounds by counting and by residues, the search, cuts and Optimus' PAA, against enumeration."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from device_instances import job, placement, server

import clusterplan
from clusterplan import SolveOptions
from clusterplan.formulations.consolidation.check.loads import load_bounds
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.solvers.consolidation.list_assignment import blocks_of
from clusterplan.solvers.consolidation.number_partitioning import even_blocks

PARAMETER = 32e-9
"""Traffic of one parameter [Gbit/s]."""
PAPER = {4: 349_672, 8: 59_907, 10: 104_576}
"""Servers → difference of parameters of PAA on ResNet-50."""


def partitioning(
    sizes: list[int], servers: int, before: tuple[int, ...] = (), **fields: Any
) -> ConsolidationInstance:
    """Return blocks of these sizes in Gbit/s, and servers with room for as many requests each as is given."""
    most = fields.pop("most", len(sizes))
    jobs = [
        job(f"b{n}", 1, {"requests": 1}, must_place=True, traffic_gbit_per_s=s) for n, s in enumerate(sizes)
    ]
    rows = [
        {**server(f"s{n}", requests=most), "traffic_gbit_per_s": before[n] if before else 0}
        for n in range(servers)
    ]
    return placement(fields.pop("objectives", ["imbalance", "traffic"]), rows, jobs, **fields)


def random_sizes(rng: random.Random) -> list[int]:
    """Return few sizes, of which most are multiples of a step."""
    step = rng.choice((1, 5, 8, 16))
    return [
        step * rng.randint(1, 9) if rng.random() < 0.7 else rng.randint(1, 40)
        for _ in range(rng.randint(1, 6))
    ]


def loads_of(sizes: list[int], servers: int, before: tuple[int, ...] = ()) -> list[list[int]]:
    """Return the loads of every way to spread the sizes over the servers."""
    ways = []
    for places in itertools.product(range(servers), repeat=len(sizes)):
        loads = [*before] or [0] * servers
        for size, n in zip(sizes, places, strict=True):
            loads[n] += size
        ways.append(loads)
    return ways


@pytest.mark.parametrize("seed", range(300))
def test_bounds_are_never_above_the_optimum(seed: int) -> None:
    """With and without traffic that is there already; optional blocks count for nothing."""
    rng = random.Random(seed)
    sizes, servers = random_sizes(rng), rng.choice((1, 2, 3, 4))
    before = tuple(rng.choice((0, 7)) for _ in range(servers)) if seed % 3 == 0 else ()
    instance = partitioning(sizes, servers, before)
    largest, excess = load_bounds(ConsolidationFormulation(instance))
    ways = loads_of(sizes, servers, before)
    assert max(sizes) <= largest <= min(map(max, ways))
    assert excess <= min(max(loads) - min(loads) for loads in ways)
    optional = instance.model_copy(
        update={"jobs": tuple(each.model_copy(update={"must_place": False}) for each in instance.jobs)}
    )
    assert load_bounds(ConsolidationFormulation(optional))[1] == 0


def test_residues_prove_what_counting_does_not() -> None:
    """Of 16, 16, 16 and 16 + 3 on two servers, 3 are left on one side; on three, a block more as well."""
    for servers, proven in ((2, 3), (3, 16)):
        assert load_bounds(ConsolidationFormulation(partitioning([16, 16, 16, 19], servers)))[1] == proven


def test_where_even_loads_are_all_that_counts() -> None:
    """Blocks are counted in their common unit; another objective or optional jobs are another problem."""
    blocks = blocks_of(ConsolidationFormulation(partitioning([6, 4], 2, (0, 2))))
    assert blocks is not None
    assert (blocks.tasks, blocks.sizes.tolist(), blocks.before.tolist()) == ([1, 1], [3, 2], [0, 1])
    for objectives, even in (
        (["traffic"], True),
        (["spread", "traffic"], False),
        (["traffic", "servers"], False),
    ):
        formulation = ConsolidationFormulation(partitioning([6, 4], 2, objectives=objectives))
        assert (even_blocks(formulation) is not None) == even
    assert blocks_of(ConsolidationFormulation(placement(["traffic"], [server(gpu=1)], [job("a")]))) is None


@pytest.mark.parametrize("objectives", [["imbalance", "traffic"], ["traffic", "imbalance"], ["traffic"]])
@pytest.mark.parametrize("most", [3, 6])
@pytest.mark.parametrize("seed", range(3))
def test_methods_agree(objectives: list[str], most: int, seed: int) -> None:
    """Where a server has room for at most so many blocks."""
    rng = random.Random(seed)
    sizes = [*random_sizes(rng), 8, 3][:6]
    instance = partitioning(sizes, 2, objectives=objectives, most=most)
    found = []
    for method in ("exact", "brute-force", "milp:highs", "cp-sat"):
        result = clusterplan.solve(instance, method, SolveOptions(time_limit_s=20, threads=1))
        assert (result.status, clusterplan.verify(instance, result).ok) == ("optimal", True), method
        found.append([record.value for record in result.objectives])
    assert found == [found[0]] * 4


@pytest.mark.parametrize("seed", range(5))
def test_tiny_cuts_agree_with_enumeration(seed: int) -> None:
    """Three blocks of up to four parameters on two servers."""
    rng = random.Random(seed)
    jobs = [
        job(f"b{n}", rng.randint(1, 4), {"p": 1}, must_place=True, spread="preferred", traffic_gbit_per_s=1)
        for n in range(3)
    ]
    instance = placement(["imbalance", "spread"], [server(f"s{n}", p=12) for n in range(2)], jobs)
    results = [clusterplan.solve(instance, method) for method in ("exact", "brute-force")]
    assert [[record.value for record in result.objectives] for result in results] == [
        [record.value for record in results[1].objectives]
    ] * 2


def test_a_block_has_room_on_one_server_alone() -> None:
    """What the search does not find is found in another way; too little room is diagnosed."""
    jobs = [
        job(name, 1, {"cpu": cpu}, must_place=True, traffic_gbit_per_s=size)
        for name, cpu, size in (("a", 1, 9), ("b", 1, 8), ("c", 3, 1))
    ]
    for wide, status in ((3, "optimal"), (2, "infeasible")):
        servers = [server("narrow", cpu=2), server("wide", cpu=wide)]
        result = clusterplan.solve(placement(["traffic"], servers, jobs), "exact")
        assert result.status == status


@pytest.mark.parametrize("servers", PAPER)
def test_paa_has_the_published_loads(servers: int) -> None:
    """Of ResNet-50: the paper prints 0.1 M parameters, 1 request and 157 requests on 10 servers."""
    instance = clusterplan.import_tensors(servers, model="resnet50-v2")
    result = clusterplan.solve(instance, "paa")
    assert round(result.objectives[0].value / PARAMETER) == PAPER[servers]
    assert len(result.plan) == 157
    assert clusterplan.verify(instance, result).ok


@pytest.mark.parametrize("servers", range(11, 21))
def test_paa_cuts_blocks_that_are_larger_than_the_average(servers: int) -> None:
    """Three to five slices more than blocks."""
    instance = clusterplan.import_tensors(servers, model="resnet50-v2", cuts=True)
    result = clusterplan.solve(instance, "paa")
    requests = sum(len(entry.servers) for entry in result.plan)
    assert 160 <= requests <= 162


def test_paa_places_tasks_without_traffic_at_once() -> None:
    """A thousand million of them are one slice."""
    jobs = [job("many", 10**9, {"gpu": 0}, must_place=True)]
    result = clusterplan.solve(placement(["value"], [server("a", gpu=1)], jobs), "paa", time_limit_s=20)
    assert result.plan is not None


def test_the_largest_load_of_whole_steps_is_proven() -> None:
    """Five blocks of 4 on two servers, with small ones that could fill any gap: 12, not the mean of 10.5."""
    result = clusterplan.solve(partitioning([4, 4, 4, 4, 4, 1], 2, objectives=["traffic"]))
    assert (result.status, result.objective, result.certified_bound) == ("optimal", 12, 12)


def test_paa_says_what_it_does_not_place() -> None:
    """Jobs that may be left out, and blocks without room."""
    optional = placement(["traffic"], [server(gpu=1)], [job("a")])
    full = partitioning([3, 2, 1], 2, most=1)
    assert "must_place" in str(clusterplan.solve(optional, "paa").message)
    assert clusterplan.solve(full, "paa").plan is None


@pytest.mark.parametrize("model", ["vgg16", "bert-base"])
@pytest.mark.parametrize("servers", range(2, 21))
def test_cuts_reach_the_even_share(model: str, servers: int) -> None:
    """Each server has the average, rounded, and at most P − 1 blocks are cut."""
    instance = clusterplan.import_tensors(servers, model=model, cuts=True)
    result = clusterplan.solve(instance, "exact", SolveOptions(time_limit_s=1))
    total = sum(each.tasks or 0 for each in instance.jobs)
    values = {record.name: record.value for record in result.objectives}
    assert round(values["traffic"] / PARAMETER) == -(-total // servers)
    assert round(values["imbalance"] / PARAMETER) == (total % servers > 0)
    assert values["spread"] <= servers - 1
    assert clusterplan.verify(instance, result).ok


@pytest.mark.parametrize(("servers", "excess"), [(2, 34), (3, 37), (4, 58), (5, 40), (9, 61)])
def test_resnet50_is_proven_by_residues(servers: int, excess: int) -> None:
    """In parameters, of the least excess of the largest over the smallest load."""
    instance = clusterplan.import_tensors(servers, model="resnet50-v2")
    result = clusterplan.solve(instance, "exact", SolveOptions(time_limit_s=60))
    assert result.status == "optimal"
    assert round(result.objectives[0].value / PARAMETER) == excess


@pytest.mark.slow
@pytest.mark.parametrize("servers", range(2, 21))
def test_resnet50_is_close_to_the_bound(servers: int) -> None:
    """The largest load: within 0.04 % up to 10 servers, of 7 within 0.11 %; beyond, the largest block."""
    instance = clusterplan.import_tensors(servers, model="resnet50-v2", any_requests=True)
    traffic = clusterplan.solve(instance, "exact", SolveOptions(time_limit_s=5)).objectives[1]
    assert traffic.gap is not None
    assert traffic.gap <= (0 if servers > 10 else 1.1e-3 if servers == 7 else 4e-4)


@pytest.mark.slow
def test_resnet50_on_ten_servers_within_twenty_seconds() -> None:
    """A 24th of the difference that PAA leaves, with as many requests on each server."""
    instance = clusterplan.import_tensors(10, model="resnet50-v2")
    result = clusterplan.solve(instance, "exact", SolveOptions(time_limit_s=20))
    assert result.objectives[0].value <= 4_400 * PARAMETER
    assert {sum(name in entry.servers for entry in result.plan) for name in ("ps-1", "ps-10")} == {16, 15}
