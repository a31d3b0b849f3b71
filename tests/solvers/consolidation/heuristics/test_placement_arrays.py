"""Placements as arrays, and how tasks are placed on them."""

from __future__ import annotations

from device_instances import job, placement, server

from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation.heuristics.list_heuristics import BestFit, ConsolidateOrWait
from clusterplan.solvers.consolidation.heuristics.local_search import first_state
from clusterplan.solvers.consolidation.heuristics.placement_arrays import LOSSES, PlacementArrays
from clusterplan.solvers.consolidation.heuristics.placer import Request

PAIR = [{"name": "ps", "tasks": 1, "demand": {"cpu": 2}}, {"name": "w", "tasks": 2, "demand": {"gpu": 1}}]


def three() -> tuple[ConsolidationFormulation, list[JobPlacement]]:
    """Return a job on two servers, one of two groups on one, one of two groups on two."""
    jobs = [job("a", 3, spread="required"), {"name": "b", "groups": PAIR}, {"name": "c", "groups": PAIR}]
    servers = [server("n", gpu=4, cpu=4), {**server("m", gpu=4, cpu=4), "gpu_model": "v100"}]
    plan = [
        JobPlacement(job="a", servers={"n": 1, "m": 2}),
        JobPlacement(job="b", groups={"ps": {"n": 1}, "w": {"n": 2}}),
        JobPlacement(job="c", groups={"ps": {"n": 1}, "w": {"m": 2}}),
    ]
    return ConsolidationFormulation(placement(["value"], servers, jobs)), plan


def test_units_and_what_stays() -> None:
    """A job of one group counts its tasks; one of two groups is a unit, or stays if it is on two servers."""
    arrays = PlacementArrays(*three())
    cluster = arrays.cluster
    assert cluster.units[cluster.of_class].tolist() == [3, 1, 1]
    assert cluster.most[cluster.of_class].tolist() == [1, 1, 0]
    assert cluster.demand[cluster.of_class].tolist() == [[1, 0], [2, 2], [2, 2]]
    assert arrays.movable.tolist() == [True, True, False]
    assert cluster.taken.tolist() == [True, True]
    assert cluster.free.tolist() == [[4, 2], [2, 4]]


def test_pieces_are_the_plan() -> None:
    """The plan of the first pieces is the one that was given; jobs without pieces are not placed."""
    formulation, plan = three()
    plan[0] = JobPlacement(job="a", servers={"n": 3})
    arrays = PlacementArrays(formulation, plan)
    counts, server_of, units = arrays.pieces()
    assert first_state(arrays.cluster, (counts, server_of, units)).left.tolist() == [[-1, 0], [2, 4]]
    assert arrays.plan(counts, server_of, units) == plan
    left_out = arrays.plan(counts * [0, 1, 1], server_of, units)
    assert [entry.placed for entry in left_out] == [False, True, True]


def test_eligible_servers_of_each_job() -> None:
    """Jobs that accept the same GPU models share a row."""
    jobs = [job("a"), job("b", gpu_model="v100"), job("c")]
    servers = [{**server("n", gpu=4), "gpu_model": "p100"}, {**server("m", gpu=4), "gpu_model": "v100"}]
    waiting = [JobPlacement(job=name, placed=False) for name in "abc"]
    arrays = PlacementArrays(ConsolidationFormulation(placement(["value"], servers, jobs)), waiting)
    cluster = arrays.cluster
    assert cluster.kind[cluster.of_class].tolist() == [0, 1, 0]
    assert cluster.allowed.tolist() == [[True, True], [False, True]]


def test_a_job_on_two_servers_loses_spread_and_speed() -> None:
    """One server more than it needs, and half of its value of two, against the plan on one server."""
    jobs = [job("a", 2, spread="preferred", speed_by_servers={1: 1.0, 2: 0.5})]
    formulation = ConsolidationFormulation(
        placement(["spread", "slowdown"], [server(name, gpu=2) for name in "mn"], jobs)
    )
    found = []
    for servers in ({"m": 1, "n": 1}, {"n": 2}):
        arrays = PlacementArrays(formulation, [JobPlacement(job="a", servers=servers)])
        found.append(first_state(arrays.cluster, arrays.pieces()).total)
    change = dict(zip(LOSSES, found[0] - found[1], strict=True))
    assert (change["spread"], change["slowdown"], change["value"]) == (1, 1, 0)


def test_traffic_counts_only_beyond_a_limit() -> None:
    """Two tasks of 3 Gbit/s on a server with 1: 7, which is 2 more than 5."""
    group = {"name": "w", "tasks": 2, "demand": {"gpu": 1}, "traffic_gbit_per_s": 3}
    servers = [{**server("n", gpu=4), "traffic_gbit_per_s": 1}]
    formulation = ConsolidationFormulation(
        placement(["traffic"], servers, [{"name": "a", "groups": [group]}])
    )
    arrays = PlacementArrays(formulation, [JobPlacement(job="a", groups={"w": {"n": 2}})])
    for most, beyond in ((5.0, 2.0), (7.0, 0.0)):
        state = first_state(arrays.cluster._replace(most_traffic=most), arrays.pieces())
        assert state.total[LOSSES.index("traffic")] == beyond


def test_tasks_fill_what_is_left_group_after_group() -> None:
    """Two of the first group leave one GPU, which one task of the second takes."""
    request = Request((((0, 2.0),), ((0, 1.0), (1, 4.0))), (2, 3), None)
    assert request.load((2, 3), (5.0, 8.0)) == (2, 1)
    assert request.after((2, 1), (5.0, 8.0)) == (0.0, 4.0)


def test_sums_may_fill_a_server_up_to_rounding() -> None:
    """Three tenths and six tenths are nine tenths, whatever floats say."""
    assert Request((((0, 0.3),),), (3,), None).load((3,), (0.3 * 3,)) == (3,)
    assert Request((((0, 0.1),),), (9,), None).load((9,), (0.3,)) == (3,)


def test_what_must_be_placed_goes_first() -> None:
    """Though it is worth least; where it does not fit there is no plan, and the message says so."""
    jobs = [job("a", 2, value=9), job("b", 2, value=1, must_place=True)]
    formulation = ConsolidationFormulation(placement(["value"], [server(gpu=2)], jobs))
    plan = BestFit().solve(formulation, SolveOptions(), Clock()).plan
    assert [entry.placed for entry in plan] == [False, True]
    jobs = [job("a", 3, must_place=True)]
    servers = [server("n", gpu=2), server("m", gpu=2)]
    free = [{**servers[0], "free": {"gpu": 1}}, servers[1]]
    outcome = ConsolidateOrWait().solve(
        ConsolidationFormulation(placement(["value"], [*free, server("l", gpu=3)], jobs)),
        SolveOptions(),
        Clock(),
    )
    assert outcome.plan is not None
    busy = [{**server("l", gpu=3), "free": {"gpu": 0}}, *free]
    outcome = ConsolidateOrWait().solve(
        ConsolidationFormulation(placement(["value"], busy, jobs)), SolveOptions(), Clock()
    )
    assert outcome.plan is None
    assert outcome.message == (
        "consolidate-or-wait: no room is left on 1 server for job 'a', which must be placed"
    )


def test_without_time_nothing_optional_is_placed() -> None:
    """The plan is empty, and says that time was the limit."""
    formulation = ConsolidationFormulation(placement(["value"], [server(gpu=2)], [job("a")]))
    outcome = BestFit().solve(formulation, SolveOptions(), Clock(0.0))
    assert outcome.limit == "time"
    assert not outcome.plan[0].placed
