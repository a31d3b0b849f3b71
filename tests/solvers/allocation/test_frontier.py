"""The frontier of completion time against hourly cost: against brute force, its check, and the command."""

from __future__ import annotations

import csv
import json
import math
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from allocation_instances import allocation, on_servers
from command_line import run_here
from joint_brute_force import optimum as joint_optimum
from joint_brute_force import random_joint
from random_instances import random_allocation
from sample_documents import put

import clusterplan
from clusterplan.formulations.allocation.check import configurations as check
from clusterplan.formulations.allocation.cluster_grids import ZERO, ClusterGrid, cluster_grid_of
from clusterplan.formulations.allocation.formulation import AllocationFormulation
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.instances.common.errors import OptionError, TooLargeError
from clusterplan.planner.pareto import frontier_table
from clusterplan.planner.stored_results import verify_frontier, verify_stored
from clusterplan.solvers.allocation.frontier import (
    Bound,
    ClusterSearch,
    Incumbent,
    _bound_of,
    point_of,
)
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions

PRICES = {"cpu": 0.03, "gpu": 1.0}


def optimum(instance: AllocationInstance) -> float:
    """Return the least Σ ω t, by trying every plan; infinite if there is none."""
    if instance.servers is not None:
        value = joint_optimum(instance)
        return math.inf if value is None else value
    if AllocationFormulation(instance).elementary_infeasibility() is not None:
        return math.inf
    result = clusterplan.solve(instance, "brute-force")
    return math.inf if result.plan is None else float(result.objective or 0.0)


def some_steps(grid: ClusterGrid, most: int) -> list[Fraction]:
    """Return every step, or so many of them from the first to the last."""
    steps = [ZERO]
    while steps[-1] < grid.last and len(steps) <= most:
        steps.append(grid.next(steps[-1]))
    if steps[-1] >= grid.last:
        return steps
    return [grid.at_most(grid.last * Fraction(k, most)) for k in range(most + 1)]


def random_case(seed: int) -> tuple[AllocationInstance, dict[str, float], float | None]:
    """Return a tiny instance, some with amounts that are not whole, with prices and a most to spend."""
    instance, rng = random_allocation(seed), random.Random(seed)
    if seed % 4 == 0:
        resources = {
            name: round(c * rng.choice([0.77, 1, 1.31]), 2) for name, c in instance.resources.items()
        }
        instance = instance.model_copy(update={"resources": resources})
    given = {name: rng.choice([0.1, 0.25, 0.5, 1, 2]) for name in instance.resources if rng.random() < 0.7}
    return instance, given, rng.choice([None, None, 6.0, 0.3])


def check_every_cluster(grid: ClusterGrid, frontier: clusterplan.AllocationFrontier, most: int) -> int:
    """Assert what a frontier claims for every cluster of a tiny instance; return how many have a plan."""
    points = [(point.rate_usd_per_hour, point.mean_completion_s) for point in frontier.points]
    before, planned = math.inf, 0
    for step in some_steps(grid, most):
        value = optimum(grid.cluster(step)) / grid.weight
        assert value <= before * (1 + 1e-9)
        cost = grid.rate(step) * (1 + 2e-9)
        reached = min((mean for rate, mean in points if rate <= cost), default=math.inf)
        assert math.isinf(value) == math.isinf(reached), step
        if not math.isinf(value):
            planned += 1
            assert reached * (1 - frontier.certified_error) <= value * (1 + 2e-9), step
        before = value
    return planned


@pytest.mark.slow
@pytest.mark.parametrize("mix", ["fixed", "any"])
@pytest.mark.parametrize("error", [0.0, 0.05])
def test_every_cluster_by_brute_force(mix: Any, error: float) -> None:
    """For every cluster some point costs no more and is as good, up to the error; the check agrees."""
    planned, infeasible, several = 0, 0, 0
    for seed in range(40):
        instance, given, most_usd = random_case(seed)
        prices = {**instance.prices_usd_per_hour, **given}
        try:
            frontier = clusterplan.pareto(instance, error=error, mix=mix, prices=given, most_usd=most_usd)
        except OptionError:
            assert not prices or mix == "any" or not any(job.weight for job in instance.jobs), seed
            continue
        checked = verify_frontier(instance, frontier)
        assert checked.ok, (seed, checked.faults)
        assert frontier.status == ("complete" if frontier.points else "infeasible"), seed
        if frontier.points:
            assert frontier.certified_error <= max(error, 1e-9), seed
        else:
            assert frontier.diagnosis is not None
            assert any("infeasible" in line for line in checked.confirmed), (seed, checked)
        grid = cluster_grid_of(instance, mix, prices, most_usd)
        planned += check_every_cluster(grid, frontier, 60)
        infeasible += frontier.status == "infeasible"
        several += len(frontier.points) > 2
    assert planned > 100
    assert infeasible > 3
    assert several > 3


@pytest.mark.parametrize("seeds", [range(10), pytest.param(range(10, 60), marks=pytest.mark.slow)])
def test_every_number_of_servers_by_brute_force(seeds: range) -> None:
    """Of each shape the first ones are kept, and there are more beyond; jobs on servers left out restart."""
    planned, several = 0, 0
    for seed in seeds:
        instance = random_joint(seed)
        if not (instance.resources["gpu"] and any(job.weight for job in instance.jobs)):
            continue
        frontier = clusterplan.pareto(instance, prices={"gpu": 1.0}, options=SolveOptions(seed=seed))
        checked = verify_frontier(instance, frontier)
        assert checked.ok, (seed, checked.faults)
        grid = cluster_grid_of(instance, "fixed", {"gpu": 1.0}, None)
        assert frontier.most_usd_per_hour == grid.most_usd == 2 * instance.resources["gpu"]
        planned += check_every_cluster(grid, frontier, 60)
        several += len(frontier.points) > 2
    assert planned > 2 * len(seeds)
    assert several >= len(seeds) / 10


def test_a_frontier_of_servers_ends_where_it_says() -> None:
    """Nothing is claimed beyond, and no cluster of very many servers is made, whatever a document says."""
    instance = on_servers([{"name": "n", "capacity": {"gpu": 4, "cpu": 8}}], {"a": {}, "b": {}})
    frontier = clusterplan.pareto(instance, prices={"gpu": 1.0})
    assert verify_frontier(instance, frontier).ok
    dearest = frontier.points[0]
    large = {name: 1e9 * amount for name, amount in dearest.capacities.items()}
    huge = dearest.model_copy(
        update={"rate_usd_per_hour": 1e9 * dearest.rate_usd_per_hour, "capacities": large}
    )
    for update, fault in (
        ({"most_usd_per_hour": None}, "most_usd_per_hour: is missing"),
        ({"most_usd_per_hour": 1e12}, "over 100,000 servers"),
        ({"points": (huge, *frontier.points)}, "is no cluster of the mix fixed"),
    ):
        assert fault in str(verify_frontier(instance, frontier.model_copy(update=update)).faults)
    with pytest.raises(TooLargeError, match="lower --most-usd"):
        clusterplan.pareto(instance, prices={"gpu": 1.0}, most_usd=1e9)


def test_added_servers_have_names_of_their_own() -> None:
    """The same in every cluster, and short, whatever the instance calls its servers."""
    names = ["n", "more0-0-0", "x" * 199]
    instance = on_servers([{"name": name, "capacity": {"gpu": 2, "cpu": 2}} for name in names], {"a": {}})
    grid = cluster_grid_of(instance, "fixed", {"gpu": 1.0}, None)
    smaller, larger = ([*grid.cluster(Fraction(k, 3)).expanded_servers] for k in (5, 6))
    assert (len(smaller), len(larger)) == (5, 6)
    assert larger[:5] == smaller
    assert smaller[:4] == [*names, "more1-0-0"]


@pytest.mark.slow
@pytest.mark.parametrize("mix", ["fixed", "any"])
def test_the_current_cluster_is_a_point_too(mix: Any) -> None:
    """The instance's own cluster is solved without its budget."""
    instance = clusterplan.load("example:gavel-three-gpu-types")
    frontier = clusterplan.pareto(instance, mix=mix)
    assert frontier.status == "complete"
    assert frontier.certified_error <= frontier.error == 0.01
    free = instance.model_copy(update={"budget_usd_per_hour": None})
    own = clusterplan.solve(free, "exact")
    weight = sum(job.weight for job in instance.jobs)
    assert frontier.current.capacities == instance.resources
    assert frontier.current.rate_usd_per_hour == pytest.approx(5.76)
    assert frontier.current.mean_completion_s == pytest.approx(own.objective / weight, rel=2e-4)
    if mix == "fixed":
        assert any(point.capacities == instance.resources for point in frontier.points)
        assert frontier.points[0].bound_s == frontier.points[0].mean_completion_s
    else:
        as_fast = [p for p in frontier.points if p.mean_completion_s <= frontier.current.mean_completion_s]
        assert min(point.rate_usd_per_hour for point in as_fast) <= 5.76 + 1e-9


@pytest.mark.slow
def test_any_mix_is_never_worse_than_the_fixed_one() -> None:
    """Where all resources have a price, every scaled cluster is one of those that the mix `any` looks at."""
    instance = clusterplan.load("example:gavel-three-gpu-types")
    fixed = clusterplan.pareto(instance, mix="fixed")
    free = clusterplan.pareto(instance, mix="any")
    for point in fixed.points:
        best = min(p.mean_completion_s for p in free.points if p.rate_usd_per_hour <= point.rate_usd_per_hour)
        assert best * (1 - 0.01) <= point.mean_completion_s


def test_clusters_are_scaled_without_rounding_errors() -> None:
    """0.1 of 30 is 3 and not 2; amounts that are not whole are scaled in parts; the rest scales along."""
    instance = clusterplan.load("example:optimus-testbed")
    instance = instance.model_copy(update={"resources": {"cpu": 30.0, "memory_gib": 7.3, "gpu": 10.0}})
    grid = cluster_grid_of(instance, "fixed", {"gpu": 1.0}, None)
    step = ZERO
    for count in range(1, 200):
        step = grid.next(step)
        cluster = grid.cluster(step).resources
        assert (cluster["gpu"], cluster["cpu"]) == (count, 3 * count)
        assert cluster["memory_gib"] == pytest.approx(0.73 * count)
        assert grid.step_of(float(count), cluster) == step
        assert grid.previous(step) == Fraction(count - 1, 10)
    assert grid.step_of(3.0, {**grid.cluster(Fraction(3, 10)).resources, "cpu": 10.0}) is None
    assert any("memory_gib in parts" in line for line in grid.assumptions())
    assert any("scale along at no cost: cpu, memory_gib" in line for line in grid.assumptions())


@pytest.mark.slow
def test_most_usd_ends_the_frontier() -> None:
    """No point costs more per hour, and the certificate speaks of no dearer cluster."""
    instance = clusterplan.load("example:gavel-three-gpu-types")
    for mix in ("fixed", "any"):
        frontier = clusterplan.pareto(instance, mix=mix, most_usd=8.0)
        assert frontier.status == "complete"
        assert frontier.most_usd_per_hour == 8.0
        assert max(point.rate_usd_per_hour for point in frontier.points) <= 8.0
        assert verify_frontier(instance, frontier).ok
        assert any("at most 8 USD/h" in line for line in frontier_table(frontier)[1])
    poor = clusterplan.pareto(instance, most_usd=0.2)
    assert poor.status == "infeasible"
    assert poor.diagnosis is not None
    assert poor.current is not None
    assert verify_frontier(instance, poor).ok


def test_what_an_allocation_frontier_needs() -> None:
    """Prices, a resource that has one, and a job with a weight; each refusal says what to do."""
    instance = clusterplan.load("example:optimus-testbed")
    with pytest.raises(OptionError, match=r"prices_usd_per_hour.*--price NAME=USD.*cpu, memory_gib, gpu"):
        clusterplan.pareto(instance)
    refused: list[tuple[dict[str, Any], str]] = [
        ({"error": 1.5}, "below 1"),
        ({"most_usd": -1.0}, "above 0"),
        ({"prices": {"tpu": 1.0}}, "unknown resource 'tpu'"),
        ({"prices": {"gpu": -1.0}}, "price of gpu is -1"),
        ({"prices": {"gpu": 1.0}, "mix": "some"}, "allowed: fixed, any"),
        ({"prices": {"gpu": 1.0}, "options": SolveOptions(memory_limit_gib=1.0)}, "memory_limit_gib"),
    ]
    for asked, why in refused:
        with pytest.raises(OptionError, match=why):
            clusterplan.pareto(instance, **asked)
    none_there = instance.model_copy(update={"resources": {**instance.resources, "tpu": 0.0}})
    with pytest.raises(OptionError, match="has none of the resources with a price"):
        clusterplan.pareto(none_there, prices={"tpu": 1.0})
    with pytest.raises(OptionError, match="no task takes any"):
        clusterplan.pareto(none_there, prices={"tpu": 1.0}, mix="any")
    idle = instance.model_copy(
        update={"jobs": tuple(job.model_copy(update={"weight": 0.0}) for job in instance.jobs)}
    )
    with pytest.raises(OptionError, match="every job has weight 0"):
        clusterplan.pareto(idle, prices={"gpu": 1.0})


@pytest.mark.slow
def test_endless_ranges_need_a_limit() -> None:
    """Where nothing limits the cluster, ranges must; the most to spend does as well."""
    speed = {"model": "ps_async", "theta": [1.0, 0.1, 0.1, 0.1]}
    variant = {"name": "v", "worker_demand": {"gpu": 1}, "ps_demand": {"gpu": 1}, "speed": speed}
    variant |= {"workers": {"min": 1, "max": 100_000}, "ps": {"min": 1, "max": 100_000}}
    jobs = [{"name": "j", "remaining_steps": 1000, "variants": [variant]}]
    instance = allocation({"gpu": 8}, jobs, prices_usd_per_hour={"gpu": 1})
    with pytest.raises(TooLargeError, match="--most-usd"):
        clusterplan.pareto(instance)
    for mix in ("fixed", "any"):
        frontier = clusterplan.pareto(instance, most_usd=30.0, mix=mix)
        assert frontier.status == "complete"
        assert verify_frontier(instance, frontier).ok


def test_given_prices_go_before_those_of_the_instance() -> None:
    """They are stored, named as an assumption, and the check says that they are not the instance's."""
    instance = clusterplan.load("example:gavel-three-gpu-types")
    frontier = clusterplan.pareto(instance, prices={"v100": 3.0, "k80": 0.0})
    assert frontier.prices_usd_per_hour == {"v100": 3.0, "p100": 0.43}
    assert any("v100 costs 3 USD/h, as given" in line for line in frontier.assumptions)
    assert any("no cost: k80" in line for line in frontier.assumptions)
    checked = verify_frontier(instance, frontier)
    assert checked.ok
    assert checked.complete
    assert any("v100 costs 3 USD/h" in line for line in checked.stated)


CHANGES: list[tuple[str, Any]] = [
    ("points/M/mean_completion_s", 0.999),
    ("points/M/rate_usd_per_hour", 0.9),
    ("points/M/capacities/N", 2.0),
    ("points/M/capacities", {}),
    ("points/M/bound_s", 1.01),
    ("points/M/bound_s", 0.9),
    ("points/M/certified_bound_s", 0.99),
    ("points/M/certificate/prices", {}),
    ("points/M/certificate/prices", {"nothing": 1.0}),
    ("points/M/certificate", {"prices": {}, "cutoff": 1.0}),
    ("points/M/certificate", None),
    ("points/M/plan/0/workers", 2),
    ("points/M/plan", lambda plan: plan[::-1]),
    ("points/M/plan", lambda plan: plan[1:]),
    ("points", lambda points: points[: len(points) // 2] + points[len(points) // 2 + 1 :]),
    ("points", lambda points: points[:-1]),
    ("points", lambda points: points[len(points) // 2 :]),
    ("points", lambda points: points[::-1]),
    ("others", []),
    ("certified_error", 0.5),
    ("weight", 2.0),
    ("prices_usd_per_hour/N", 2.0),
    ("prices_usd_per_hour", {}),
    ("prices_usd_per_hour", {"nothing": 1.0}),
    ("instance_sha256", "0"),
    ("current/capacities/N", 2.0),
    ("current/mean_completion_s", 0.9),
    ("current/rate_usd_per_hour", 0.9),
    ("kind", "staging"),
    ("others/O/rate_usd_per_hour", 1.5),
]
"""Fields of a frontier, with a factor of a number, or another value.

M is a point in the middle, N a resource, O a cluster without a plan.
"""


def altered(data: dict[str, Any], path: str, change: Any) -> dict[str, Any]:
    """Return a stored frontier with another value at a path."""
    middle = len(data["points"]) // 2
    name = next(iter(data["points"][middle]["capacities"]))
    other = next(index for index, other in enumerate(data["others"]) if other["no_plan"])
    meant: dict[str, Any] = {"M": middle, "N": name, "O": other, "0": 0}
    *above, last = [meant.get(key, key) for key in path.split("/")]
    copy = at = json.loads(json.dumps(data))
    for key in above:
        at = at[key]
    if callable(change):
        at[last] = change(at[last])
    else:
        at[last] = at[last] * change if isinstance(change, int | float) else change
    assert copy != data
    return dict(copy)


@pytest.mark.parametrize(
    ("servers", "mix"),
    [(False, "fixed"), (True, "fixed"), pytest.param(False, "any", marks=pytest.mark.slow)],
)
def test_altered_frontiers_are_rejected(servers: bool, mix: Any) -> None:
    """Every figure, plan, bound, certificate and cluster that is changed is found."""
    prices = {"gpu": 2.0} if servers else None
    instance = clusterplan.load("example:gavel-three-gpu-types")
    if servers:
        instance = generate_allocation(8, servers=8, shapes=3, seed=1)
    frontier = clusterplan.pareto(instance, mix=mix, error=0.1, prices=prices)
    data = json.loads(frontier.to_json())
    assert verify_stored(instance, data, "f").ok
    assert clusterplan.AllocationFrontier.model_validate(data) == frontier
    for path, change in CHANGES:
        if servers and (path, change) == ("points/M/bound_s", 1.01):
            continue  # of a plan that is not proven, a higher bound is stated and not checked
        checked = verify_stored(instance, altered(data, path, change), "f")
        assert not checked.ok, path
        assert checked.faults, path


def test_frontiers_of_another_kind_are_told_apart() -> None:
    """An allocation's frontier is none of a staging instance, and none of moves."""
    instance = clusterplan.load("example:gavel-three-gpu-types")
    frontier = clusterplan.pareto(instance, error=0.3)
    other = verify_stored(clusterplan.load("example:heterps-ctr"), json.loads(frontier.to_json()), "f")
    assert other.faults == ("the result is of kind allocation; the instance is of kind staging",)
    placed = clusterplan.load("example:tiresias-testbed")
    data = {"kind": "consolidation", "instance_sha256": "", "points": []}
    assert "instance: is missing" in verify_stored(placed, data, "f").faults[0]


def test_a_time_limit_leaves_a_partial_frontier_with_its_error() -> None:
    """What was found in time is there, and the error that is certified is what is proven."""
    instance = generate_allocation(2000, 3, 0.5, seed=1)
    frontier = clusterplan.pareto(instance, SolveOptions(time_limit_s=1.0), prices=PRICES, error=1e-4)
    assert frontier.status == "partial"
    assert frontier.limit == "time"
    assert frontier.certified_error is None or frontier.certified_error > frontier.error
    assert verify_frontier(instance, frontier).ok
    nothing = clusterplan.pareto(instance, SolveOptions(time_limit_s=1e-6), prices=PRICES)
    assert nothing.status == "partial"
    assert verify_frontier(instance, nothing).ok


@pytest.mark.slow
def test_a_thousand_jobs_are_certified() -> None:
    """Held in columns, with a resource that has no price; the table is thinned."""
    instance = generate_allocation(1000, 3, 0.5, seed=1)
    frontier = clusterplan.pareto(instance, SolveOptions(threads=1, seed=0), prices=PRICES, error=0.05)
    assert frontier.status == "complete"
    assert frontier.certified_error <= 0.05
    checked = verify_frontier(instance, frontier)
    assert checked.ok, checked.faults
    fine = clusterplan.pareto(instance, prices=PRICES, error=0.01)
    table, lines = frontier_table(fine)
    assert len(table.rows) <= 40 < len(fine.points)
    assert any("points are shown" in line for line in lines)
    assert any(line.startswith("certified: ") for line in lines)


@pytest.mark.slow
def test_the_command_writes_tables_that_verify(tmp_path: Path) -> None:
    """CSV and JSON are written, agree with each other, and `verify` accepts the JSON and no other."""
    name, folder = "example:optimus-testbed", tmp_path / "new" / "dir"
    given = ("--price", "gpu=1.2", "--price", "cpu=0.03", "--error", "0.05")
    done = run_here("pareto", name, *given, "--output", str(folder))
    assert done.returncode == 0, done.stderr
    printed = run_here("pareto", name, *given).stdout
    for text in (
        "USD/h",
        "mean completion",
        "scarcest",
        "certified: ",
        "own cluster: 20.6",
        "gpu costs 1.2",
    ):
        assert text in printed, text
    stored = json.loads((folder / "frontier.json").read_text())
    assert stored["kind"] == "allocation"
    with (folder / "frontier.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row, point in zip(rows, stored["points"], strict=True):
        assert float(row["mean_completion_s"]) == point["mean_completion_s"]
        assert float(row["capacity.gpu"]) == point["capacities"]["gpu"]
    checked = run_here("verify", name, str(folder / "frontier.json"))
    assert checked.returncode == 0, checked.stdout
    assert "no plan beats the points" in checked.stdout
    stored["points"][0]["mean_completion_s"] *= 0.9
    put(folder / "frontier.json", stored)
    assert run_here("verify", name, str(folder / "frontier.json")).returncode == 7


def test_the_command_takes_mixes_and_refuses_what_has_no_meaning() -> None:
    """`--mix any`, formats, and prices in one line each."""
    name = "example:gavel-three-gpu-types"
    as_json = run_here("pareto", name, "--mix", "any", "--error", "0.1", "--format", "json", "-q")
    assert as_json.returncode == 0, as_json.stderr
    assert json.loads(as_json.stdout)["mix"] == "any"
    as_csv = run_here("pareto", name, "--error", "0.3", "--format", "csv")
    assert as_csv.stdout.startswith("rate_usd_per_hour,mean_completion_s")
    done = run_here("pareto", "example:heterps-ctr", "--price", "v100=1")
    assert done.returncode == 2
    assert "for allocation and scheduling instances" in done.stderr


def test_the_schema_covers_the_frontiers_of_all_kinds() -> None:
    """One schema for all that have one."""
    done = run_here("schema", "frontier")
    schema = json.loads(done.stdout)
    names = {part["$ref"].rsplit("/", 1)[1] for part in schema["anyOf"]}
    assert names == {"Frontier", "AllocationFrontier", "MixFrontier", "MovesFrontier", "SchedulingFrontier"}


def search(clock: Clock | None = None) -> ClusterSearch:
    """Return a search over clusters of any mix of twenty jobs."""
    instance = generate_allocation(20, 3, 0.5, seed=1)
    grid = cluster_grid_of(instance, "any", {"gpu": 1.0}, None)
    return ClusterSearch(instance, grid, SolveOptions(threads=1), 0.05, clock or Clock())


def test_the_dearest_and_the_least_cluster_are_solved_whatever_the_time() -> None:
    """A frontier without points would say nothing."""
    run = search(Clock(0.0))
    run.run()
    assert run.limit == "time"
    assert run.grid.last in run.known


def test_a_weaker_bound_replaces_none() -> None:
    """Of two bounds of a step the better one stays."""
    run, step = search(), Fraction(1)
    run._update_bound(step, Bound(5.0, 4.0, None))
    run._update_bound(step, Bound(3.0, 3.0, None))
    assert run.known[step].certified == 4
    run._update_bound(step, Bound(5.0, 4.5, None))
    assert run.known[step].certified == 4.5


def test_a_bound_above_its_plan_by_rounding_is_what_its_certificate_proves() -> None:
    """The plan may belong to a cheaper step; a point's bounds are no more than its own plan's value."""
    grid = search().grid
    instance = grid.instance
    formulation, solved = AllocationFormulation(instance), clusterplan.solve(instance, "exact")
    assert solved.objective is not None
    proven = formulation.certified_bounds(solved.certificate)[0]
    for bound, certified in ((7.0, proven), (5.0, 5.0)):
        change = {"objective": 7.0, "bound": 7.0, "certified_bound": bound}
        assert _bound_of(formulation, solved.model_copy(update=change)).certified == certified
    value, plan = solved.objective, tuple(solved.plan or ())
    found = Incumbent(value, instance.resources, grid.cost_of(instance.resources), plan)
    point = point_of(grid, found, Bound(2 * value, 1.5 * value, solved.certificate))
    assert point.bound_s == point.certified_bound_s == point.mean_completion_s


@pytest.fixture(scope="module")
def small() -> tuple[AllocationInstance, clusterplan.AllocationFrontier]:
    """Return five jobs, and their frontier to 10 %."""
    instance = generate_allocation(5, 2, 0.5, seed=6)
    frontier = clusterplan.pareto(instance, error=0.1, prices={"cpu": 1.0, "gpu": 3.0})
    assert isinstance(frontier, clusterplan.AllocationFrontier)
    return instance, frontier


def test_what_the_check_shares_with_the_methods_is_said(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it derives only a sample of the configurations."""
    monkeypatch.setattr(check, "MAX_DERIVED", 0)
    verification = verify_frontier(*small)
    assert not verification.faults
    assert sum("shared with the methods" in line for line in verification.confirmed) == 1


def test_points_are_shown_in_tables(small: Any) -> None:
    """As text, as a frame with capacities and dual prices, and in a notebook."""
    frontier = small[1]
    table, lines = frontier_table(frontier)
    assert len(table.rows) == len(frontier.points)
    assert any(line.startswith("certified: for every cluster") for line in lines)
    assert any(line.startswith("the instance's own cluster") for line in lines)
    frame, first = frontier.to_frame(), frontier.points[0]
    bare = frontier.model_copy(update={"points": (first.model_copy(update={"prices": None}),)})
    assert frame["rate_usd_per_hour"].tolist() == [point.rate_usd_per_hour for point in frontier.points]
    assert frame["capacity.gpu"].tolist()[0] == first.capacities["gpu"]
    assert frame["price.gpu"].tolist()[0] == first.prices["gpu"]
    assert bare.to_frame()["price.gpu"].isna().all()
    html = frontier._repr_html_()
    assert f"frontier of {len(frontier.points)} clusters" in html
    assert first.cluster in html
