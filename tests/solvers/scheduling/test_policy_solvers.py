"""Policies as solvers, and policies of one's own."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from malleable_instances import random_trace, rows_of, segments_of
from malleable_instances import rigid_trace as trace

import clusterplan
from clusterplan.formulations.common.clock import Clock
from clusterplan.formulations.common.compiled import garbage_collector_disabled
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.common.arrays import Floats, Ints
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.base import MethodOption
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.run import solve_with
from clusterplan.solvers.scheduling.engine import Engine
from clusterplan.solvers.scheduling.exact import CLAIRVOYANT
from clusterplan.solvers.scheduling.kind import SCHEDULING
from clusterplan.solvers.scheduling.own_policy import policy_solver
from clusterplan.solvers.scheduling.policies.contract import KeyPolicy
from clusterplan.solvers.scheduling.policies.service_disciplines import ShortestRemaining, ShortestService
from clusterplan.solvers.scheduling.policy_solvers import OPTIMUS_EXACT, POLICIES, limits_of, simulate
from clusterplan.solvers.scheduling.view import Knowledge, View

BY_NAME = {policy.name: policy for policy in (*POLICIES, OPTIMUS_EXACT)}


def solved(instance: SchedulingInstance, name: str, **settings: Any) -> tuple[float, list[tuple[Any, ...]]]:
    """Return objective and segments of a policy's plan, which must be feasible."""
    formulation = SchedulingFormulation(instance)
    options = SolveOptions(method_options=settings)
    BY_NAME[name].check_options(options)
    plan = BY_NAME[name].solve(formulation, options, Clock()).plan
    assert plan is not None
    return formulation.evaluate(plan)[0], segments_of(instance, plan)


TOY = trace((0, 2, 2), (0, 1, 8), (0, 2, 6), lease_s=1)
"""Three jobs of Tiresias (NSDI'19, figure 4) on two GPUs."""


def test_the_toy_of_tiresias_comes_out_as_published() -> None:
    """SRSF 9.33 s and LAS 11.67 s, with a lease of a second and ties to the first."""
    assert solved(TOY, "srsf")[0] == pytest.approx(28 / 3, abs=1e-12)
    assert solved(TOY, "las", queues="none")[0] == pytest.approx(35 / 3, abs=1e-12)


def test_the_head_of_a_queue_blocks_the_others_unless_it_is_backfilled() -> None:
    """The small third job ends before the second can start, the fourth would delay it."""
    there = trace((0, 1, 4), (1, 2, 4), (2, 1, 2), (2, 1, 3))
    assert [s[:2] for s in solved(there, "fifo")[1]] == [("a", 0), ("b", 4), ("c", 8), ("d", 8)]
    assert [s[:2] for s in solved(there, "fifo-backfill")[1]] == [("a", 0), ("c", 2), ("b", 4), ("d", 8)]


def test_backfilling_goes_by_estimates() -> None:
    """A job that claims to be long is not let in."""
    there = trace((0, 1, 4), (1, 2, 4), (2, 1, 2))
    rows = [{**job.model_dump(exclude_none=True), "estimate_s": 9} for job in there.jobs]
    assert [s[:2] for s in solved(there.replace(jobs=rows), "fifo-backfill")[1]][1] == ("b", 4)


def test_the_shortest_goes_first_and_stops_others_only_with_preemption() -> None:
    """By duration, remaining time, and remaining time × GPUs."""
    there = trace((0, 2, 9), (1, 1, 3), (1, 2, 2))
    assert solved(there, "sjf")[1] == [("a", 0, 9), ("c", 9, 11), ("b", 11, 14)]
    assert solved(there, "srtf")[1] == [("a", 0, 1), ("c", 1, 3), ("b", 3, 6), ("a", 6, 14)]
    assert solved(there, "srsf")[1] == [("a", 0, 1), ("b", 1, 4), ("c", 4, 6), ("a", 6, 14)]


def test_estimates_may_take_the_place_of_the_truth() -> None:
    """The job that claims to be short comes first."""
    there = trace((0, 2, 2), (0, 2, 3))
    rows = [{**job.model_dump(exclude_none=True), "estimate_s": 9 - job.duration_s} for job in there.jobs]
    there = there.replace(jobs=rows)
    assert [s[0] for s in solved(there, "srtf", by="estimate")[1]] == ["b", "a"]
    assert [s[0] for s in solved(there, "srtf")[1]] == ["a", "b"]


def test_jobs_take_turns_in_rounds() -> None:
    """Who ran goes behind who waits at the end of a round."""
    there = trace((0, 2, 3), (0, 2, 2))
    assert solved(there, "fair", round_s=1.0)[1] == [
        ("a", 0, 1),
        ("b", 1, 2),
        ("a", 2, 3),
        ("b", 3, 4),
        ("a", 4, 5),
    ]


def test_queues_let_a_job_fall() -> None:
    """At 4 GPU-seconds a job falls behind others."""
    there = trace((0, 2, 8), (1, 2, 20))
    assert solved(there, "las", queues="4")[1][:3] == [("a", 0, 2), ("b", 2, 4), ("a", 4, 10)]


def test_tenants_get_what_they_are_guaranteed() -> None:
    """Shares count for yarn-cs, and not for drf."""
    jobs = [(0, 1, 9)] * 8
    there = trace(*jobs, gpus=4)
    rows = [{**j.model_dump(exclude_none=True), "tenant": "xy"[k % 2]} for k, j in enumerate(there.jobs)]
    there = there.replace(jobs=rows, tenant_shares={"x": 3, "y": 1})

    def starts_of_x(name: str) -> int:
        return sum(start == 0 and "abcdefgh".index(job) % 2 == 0 for job, start, _ in solved(there, name)[1])

    assert starts_of_x("yarn-cs") == 3
    assert starts_of_x("drf") == 2


SHORT: list[tuple[str, dict[str, Any]]] = [
    ("gandiva-timeslice", {"round_s": 5}),
    ("themis", {"round_s": 4, "fairness": 0}),
    ("max-min", {"round_s": 7}),
    ("fair", {"round_s": 5}),
    ("optimus", {"interval_s": 30, "admission": "shortest", "reacts": True}),
    ("optimus-exact", {"interval_s": 6, "aim": "speeds", "reacts": True, "power": 0.5}),
]
"""Settings with which policies decide often."""


@pytest.mark.parametrize(("name", "settings"), [*((name, {}) for name in BY_NAME), *SHORT])
def test_every_plan_of_a_random_trace_is_feasible(name: str, settings: dict[str, Any]) -> None:
    """The checker knows only the segments; none is better than the elementary bound, evictions leave none."""
    for seed in range(24):
        there = random_trace(seed)
        formulation = SchedulingFormulation(there)
        outcome = BY_NAME[name].solve(formulation, SolveOptions(method_options=settings), Clock())
        if outcome.plan is None:
            assert there.preemption == "none"
            assert there.events
            continue
        assert formulation.violations(outcome.plan) == []
        bound = formulation.elementary_bounds()[0]
        assert bound is not None
        assert formulation.evaluate(outcome.plan)[0] >= bound


def test_limits_of_queues_have_to_rise() -> None:
    """And to be numbers."""
    assert limits_of("3250,7200") == (3250, 7200)
    assert limits_of("none") == ()
    for wrong in ("7200,3250", "x", "0,1", "1,inf"):
        with pytest.raises(OptionError, match="write GPU-seconds that rise"):
            limits_of(wrong)


def test_a_cluster_that_shrinks_under_a_job_without_preemption_is_said() -> None:
    """There is no plan of this policy then, and the message names the moment."""
    there = trace(
        (0, 2, 9),
        preemption="none",
        events=[{"at_s": 5, "change": {"gpu": -1}}, {"at_s": 9, "change": {"gpu": 1}}],
    )
    outcome = BY_NAME["fifo"].solve(SchedulingFormulation(there), SolveOptions(), Clock())
    assert outcome.plan is None
    lost = "fifo: running jobs lose their place at 5 s, and must not be interrupted"
    assert outcome.message == f"{lost}; evict: restart lets them begin again"


@pytest.mark.parametrize("collects", [True, False])
def test_the_garbage_collector_is_left_as_it_was(collects: bool) -> None:
    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        with garbage_collector_disabled():
            assert not gc.isenabled()
        assert gc.isenabled() is collects
    finally:
        (gc.enable if before else gc.disable)()


@pytest.mark.parametrize(
    ("name", "settings"),
    [("fair", {}), ("gandiva-timeslice", {}), ("max-min", {}), ("las", {"queues": "none"})],
)
def test_jobs_in_turn_end_though_a_restart_takes_longer_than_a_turn(
    name: str, settings: dict[str, Any]
) -> None:
    """A turn is twice as long as a restart then."""
    trace = generate_scheduling(12, 8, load=2.0, seed=5)
    formulation = SchedulingFormulation(trace.replace(preemption="costs", restart_s=5000.0))
    policy = BY_NAME[name]
    plan = policy.solve(formulation, SolveOptions(method_options=settings), Clock(60.0)).plan
    assert plan is not None
    assert formulation.violations(plan) == []


THREE = trace((0, 1, 500), (0, 1, 500), (0, 1, 500), gpus=1, preemption="costs", restart_s=30)


@pytest.mark.parametrize("lease_s", [1, 10, 30, 31])
def test_the_least_attained_end_though_a_lease_is_shorter_than_a_restart(lease_s: float) -> None:
    """A lease that ends lets nobody stop a job that has only restarted."""
    _, found = solved(THREE.replace(lease_s=lease_s), "las", queues="none")
    starts = [job for job, start, end in found if end - start <= 30]
    assert not starts


@pytest.mark.parametrize("seed", range(40))
def test_jobs_end_whatever_restarts_leases_and_queues_there_are(seed: int) -> None:
    """All three of about the same length, on one pool, where one job in two is wide."""
    rng = np.random.default_rng(seed)
    jobs = [(float(rng.integers(0, 90)), int(rng.integers(1, 3)), 200.0) for _ in range(5)]
    there = trace(
        *jobs, preemption="costs", restart_s=int(rng.integers(1, 100)), lease_s=int(rng.integers(0, 90))
    )
    queues = str(rng.choice(["none", "30", "10,20,40", "100"]))
    solved(there, "las", queues=queues)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("fair", {"round_s": 45.7}),
        ("gandiva-timeslice", {"round_s": 45.7}),
        ("gandiva-timeslice", {"round_s": 1e-6}),
        ("max-min", {"round_s": 45.7}),
        ("optimus", {"interval_s": 45.7}),
        ("themis", {"round_s": 45.7}),
    ],
)
def test_rounds_end_at_late_moments(name: str, settings: dict[str, Any]) -> None:
    """Seconds since 1970, or later, over a round that is no whole number of them, are rounded."""
    for first_s in (1532897400.0, 4.64e10):
        solved(trace((first_s, 1, 300), (first_s, 1, 300), (first_s + 7.5, 1, 300), gpus=1), name, **settings)


class WidestFirst(KeyPolicy):
    """Serves wide jobs first, or narrow ones."""

    knows = Knowledge.NOTHING

    def __init__(self, sign: float) -> None:
        self._sign = sign

    def key(self, view: View, jobs: Ints) -> Floats:
        """Return minus the width."""
        return -self._sign * view.width[jobs]


def test_it_is_made_from_its_settings_and_solves() -> None:
    """Its line says what it knows; placement is an option that all have."""
    made: list[Any] = []

    def make(settings: Mapping[str, Any]) -> WidestFirst:
        made.append(dict(settings))
        return WidestFirst(-1.0 if settings["narrow"] else 1.0)

    options = {"narrow": MethodOption(False, "narrow jobs first")}
    solver = policy_solver("widest", "wide jobs first", make, options)
    assert solver.what == "wide jobs first; knows nothing"
    assert list(solver.method_options) == ["narrow", "placement"]
    trace = generate_scheduling(40, 8, load=2.0)
    wide = solve_with(trace, solver, clusterplan.SolveOptions())
    narrow = solve_with(trace, solver, clusterplan.SolveOptions(method_options={"narrow": True}))
    assert wide.status == narrow.status == "feasible"
    assert wide.objective != narrow.objective
    assert [settings["narrow"] for settings in made] == [False, False, True]


def test_policies_prove_nothing_and_have_unlike_names() -> None:
    """But brute force may prove; the methods that `exact` tries are among them."""
    names = [solver.name for solver in SCHEDULING.solvers]
    assert {solver.name for solver in SCHEDULING.solvers if solver.proves} == {"brute-force"}
    assert set(CLAIRVOYANT) <= set(names)
    assert SCHEDULING.exact.name == "exact"


class LongestFirst(ShortestRemaining):
    """Turns the key of a policy of remaining times round."""

    def key(self, view: View, jobs: Ints) -> Floats:
        """Return minus the key."""
        return -super().key(view, jobs)


class InRounds(ShortestService):
    """Decides once in ten minutes."""

    round_s = 600.0

    def multiplier(self, view: View, jobs: Ints) -> Floats:
        """Return that of the policy, from the view that it keeps."""
        return super().multiplier(self.view, jobs)


@pytest.mark.parametrize("policy", [LongestFirst, InRounds, ShortestService])
def test_what_a_subclass_decides_is_not_left_out(policy: type[ShortestRemaining]) -> None:
    """The compiled loop, which knows multiplier and power alone, is not used then."""
    there = generate_scheduling(60, 16, load=1.5, seed=2)
    assert rows_of(simulate(there, policy())) == rows_of(Engine(there, policy()).run())
    assert policy().is_rule == (policy is ShortestService)
