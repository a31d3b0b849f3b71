"""A time limit holds for building, pricing and checking too, and depth of calls limits no instance."""

from __future__ import annotations

import itertools
import math
import random
import stat
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from device_instances import placement

import clusterplan
from clusterplan.formulations.common import clock as clocks
from clusterplan.formulations.common.clock import (
    CHECK_INTERVAL,
    Clock,
    check_model_size,
    check_time,
    until_time_limit,
)
from clusterplan.formulations.consolidation.explain import TOO_COMPLEX_TEXT
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.formulations.registry import formulate, milp_model
from clusterplan.formulations.staging.check.interval_bounds import IntervalBounds
from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.formulations.staging.milp import Columns
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.common.base import Instance
from clusterplan.instances.common.errors import OutOfTimeError, TooLargeError
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.instances.staging.generate_ctr import generate_ctr
from clusterplan.planner.exit_codes import LIMIT_NO_PLAN, code_of_frontier
from clusterplan.planner.stored_results import verify_frontier
from clusterplan.planner.verification import verify
from clusterplan.solvers.allocation.heuristics import choose_by_gain
from clusterplan.solvers.backends import BACKENDS
from clusterplan.solvers.common import conclude as conclude_module
from clusterplan.solvers.common.base import Outcome, Solver
from clusterplan.solvers.common.conclude import conclude
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation.cp_sat import CP_SAT
from clusterplan.solvers.consolidation.patterns import master as consolidation_master
from clusterplan.solvers.consolidation.patterns.column_generation import PatternProgram
from clusterplan.solvers.consolidation.patterns.pricing import _PatternLister
from clusterplan.solvers.run import diagnose, solve_with
from clusterplan.solvers.staging.cp_sat import StagingCpSat
from clusterplan.solvers.staging.heterps.type_search import NOT_EVALUATED, TypeSearch
from clusterplan.solvers.staging.intervals import Segments


class Ticks(Clock):
    """A clock whose time is up once it was asked often enough.

    Attributes
    ----------
    asked
        How often it was.
    """

    def __init__(self, asks: float = math.inf) -> None:
        super().__init__(1.0)
        self.asks, self.asked = asks, 0

    @property
    def elapsed_s(self) -> float:
        """Count."""
        self.asked += 1
        return 2.0 if self.asked > self.asks else 0.0


def consolidation(servers: list[dict[str, Any]], jobs: list[dict[str, Any]], *objectives: str) -> Any:
    """Return an instance."""
    return placement(list(objectives or ("value", "spread", "servers")), servers, jobs)


def diverse(servers: int, jobs: int, groups: int = 1) -> Any:
    """Return servers and jobs of which no two are alike."""
    rng = random.Random(1)
    listed = [
        {
            "name": f"n{n}",
            "rack": f"r{n // 8}",
            "capacity": {"gpu": rng.randint(4, 16), "cpu": round(rng.uniform(16, 128), 2)},
        }
        for n in range(servers)
    ]
    asked = []
    for j in range(jobs):
        parts = [
            {
                "name": f"g{g}",
                "tasks": rng.randint(1, 9),
                "demand": {"gpu": 1, "cpu": round(rng.uniform(0.5, 16), 2)},
                "traffic_gbit_per_s": 0.5,
            }
            for g in range(groups)
        ]
        kinds: dict[str, Any] = {"groups": parts}
        if groups == 1:
            kinds = {
                "tasks": parts[0]["tasks"],
                "task_demand": parts[0]["demand"],
                "traffic_gbit_per_s": 0.5,
                "speed_by_servers": {1: 1.0, 2: 0.9},
            }
        asked.append({"name": f"j{j}", "spread": rng.choice(["preferred", "required", "free"]), **kinds})
    return consolidation(listed, asked, "value", "spread", "servers", "racks", "slowdown", "traffic")


def wide(tasks: int, servers: int) -> Any:
    """Return one job of very many tasks on servers of a few of them each."""
    rng = random.Random(1)
    listed = [{"name": f"n{n}", "capacity": {"gpu": rng.randint(1, 3)}} for n in range(servers)]
    return consolidation(
        listed, [{"name": "wide", "tasks": tasks, "task_demand": {"gpu": 1}, "spread": "preferred"}]
    )


STAGING = generate_staging(12, 3, "loose", seed=1)
ALLOCATION = generate_allocation(20, 2, seed=1)
MAKESPAN = ALLOCATION.model_copy(update={"objective": "makespan"})


def staging() -> StagingFormulation:
    """Return the mathematics of a small chain."""
    return StagingFormulation(STAGING)


def fewest() -> None:
    """Find how few servers could hold a job with groups of tasks."""
    instance = diverse(6, 3, groups=2)
    ConsolidationFormulation(instance).fewest(instance.jobs[0])


def covered_check() -> None:
    """Check the certificate of a chain."""
    result = clusterplan.solve(STAGING, "exact")
    staging().certified_bounds(result.certificate)


def master() -> None:
    """Build the class model, and price its columns."""
    built = consolidation_master.RestrictedMaster(ConsolidationFormulation(diverse(6, 6)).classes)
    PatternProgram(built, SolveOptions(), Clock()).relax("value")


BUILDERS: dict[str, Callable[[], object]] = {
    "textbook model of allocation": lambda: milp_model(formulate(ALLOCATION)),
    "textbook model of a makespan": lambda: milp_model(formulate(MAKESPAN)),
    "textbook model of staging": lambda: milp_model(staging()),
    "textbook model of consolidation": lambda: milp_model(formulate(diverse(4, 6))),
    "CP-SAT model of a makespan": lambda: CP_SAT.model(formulate(MAKESPAN)),  # type: ignore[arg-type]
    "CP-SAT model of staging": lambda: StagingCpSat().model(staging()),
    "CP-SAT model of consolidation": lambda: CP_SAT.model(ConsolidationFormulation(diverse(4, 6))),
    "menu": lambda: formulate(ALLOCATION).elementary_bounds(),
    "table of stages": lambda: staging().table,
    "columns of stages": lambda: Columns(staging()).all,
    "segments of layers": lambda: Segments.of(staging(), staging().latest_s),
    "classes": lambda: ConsolidationFormulation(diverse(6, 6)).classes,
    "class model": master,
    "fewest servers for groups": fewest,
    "check of a chain": covered_check,
}


@pytest.mark.parametrize("name", BUILDERS)
def test_what_is_built_or_checked_looks_at_the_clock(name: str) -> None:
    """Wherever the time is up, work that has nothing to show before its end is given up soon."""
    BUILDERS[name]()  # loops that it needs are compiled
    clock = Ticks()
    with clock.enforced():
        BUILDERS[name]()
    needed = clock.asked
    assert needed
    for asks in {0, needed // 3, 2 * needed // 3}:
        clock = Ticks(asks)
        with clock.enforced(), pytest.raises(OutOfTimeError, match="takes longer than there is time"):
            BUILDERS[name]()


def test_the_innermost_clock_counts_and_each_thread_has_its_own() -> None:
    """A block that is given all the time it takes is not ended by the clock around it."""
    with Clock(0.0).enforced():
        with Clock().enforced():
            check_time()
        with pytest.raises(OutOfTimeError):
            check_time()
    check_time()


def test_a_model_that_cannot_be_built_is_refused_with_its_size() -> None:
    """By memory always, by time where there is a limit; the text says what to do."""
    check_model_size(clocks.MAX_TERMS, "the model")
    with pytest.raises(TooLargeError, match=r"10,000,001 coefficients, and at most 10,000,000 .* exact"):
        check_model_size(clocks.MAX_TERMS + 1, "the model")
    with Clock(2.0).enforced():
        check_model_size(clocks.TERMS_PER_S, "the model")
        with pytest.raises(
            TooLargeError, match=r"3,000,000 coefficients, .* left of the time limit; raise it"
        ):
            check_model_size(3 * clocks.TERMS_PER_S, "the model")


@pytest.mark.parametrize("solver", ["milp:highs", "cp-sat"])
@pytest.mark.parametrize("instance", [MAKESPAN, STAGING, diverse(4, 6)], ids=lambda instance: instance.kind)
def test_the_estimate_is_about_the_size_of_the_model(
    instance: Instance, solver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model is refused where the cap is half its size, and not where it is four times that."""
    terms = sum(len(row) for row in milp_model(formulate(instance)).problem.constraints())
    monkeypatch.setattr(clocks, "MAX_TERMS", terms // 2)
    with pytest.raises(TooLargeError, match="coefficients, and at most"):
        clusterplan.solve(instance, solver)
    monkeypatch.setattr(clocks, "MAX_TERMS", 4 * terms)
    assert clusterplan.solve(instance, solver, SolveOptions(time_limit_s=0.05)).status != "error"


LIMIT_S = 0.5
CAP_S = 15.0
"""Far below what each of these took before, and far above what it should."""

LONG: dict[str, tuple[Callable[[], Instance], list[str]]] = {
    "servers and jobs that all differ": (
        lambda: diverse(300, 500),
        ["exact", "milp:highs", "milp:cbc", "cp-sat", "best-fit"],
    ),
    "jobs with groups of tasks": (lambda: diverse(150, 150, groups=3), ["exact", "best-fit"]),
    "a chain of hundreds of layers": (
        lambda: generate_staging(500, 12, "loose", seed=1),
        ["exact", "milp:highs", "cp-sat"],
    ),
    "thousands of jobs": (lambda: generate_allocation(4000, 3, 0.9, seed=1), ["milp:cbc", "cp-sat"]),
}


@pytest.mark.parametrize(
    ("name", "solver"),
    [
        pytest.param(name, s, marks=[] if s == "exact" else [pytest.mark.slow])
        for name, (_, solvers) in LONG.items()
        for s in solvers
    ],
)
def test_a_large_instance_ends_soon_after_its_time_limit(name: str, solver: str) -> None:
    """Whatever was found is verified, and what stopped the method is said."""
    instance = LONG[name][0]()
    began = time.perf_counter()
    result = clusterplan.solve(instance, solver, SolveOptions(time_limit_s=LIMIT_S, threads=1))
    assert result.status in ("feasible", "unknown")
    assert result.limit == "time" or solver == "best-fit"
    assert time.perf_counter() - began < CAP_S


class Endless(Solver):
    """Prepares its search for ever."""

    name, kinds, proves = "endless", ("allocation", "staging", "consolidation"), True
    features = frozenset({"warm_start"})

    def solve(self, formulation: Any, options: Any, clock: Any) -> Outcome:
        """Build without end."""
        while True:
            check_time()


def test_a_search_that_never_begins_is_the_time_limit_and_not_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There is no plan, or the one to start from."""
    monkeypatch.setattr(conclude_module, "GRACE_S", 0.0)
    result = solve_with(STAGING, Endless(), SolveOptions(time_limit_s=0.01))
    assert (result.status, result.limit, result.plan) == ("unknown", "time", None)
    assert "could not begin to search" in (result.message or "")
    assert verify(STAGING, result).ok
    best = clusterplan.solve(STAGING, "exact")
    start = tuple(stage.model_dump() for stage in best.plan or ())
    again = solve_with(STAGING, Endless(), SolveOptions(time_limit_s=0.01, warm_start=start))
    assert (again.status, again.limit, again.objective) == ("feasible", "time", best.objective)
    assert verify(STAGING, again).ok


def test_without_a_time_limit_nothing_is_given_up() -> None:
    """The clock that is enforced has no limit."""
    result = clusterplan.solve(generate_consolidation(6, 8, seed=1), "exact")
    assert result.limit == "none"
    assert result.status == "optimal"


def test_the_check_of_a_plan_goes_on_when_the_time_is_up() -> None:
    """No plan is shown unverified, and none is lost because its check would come too late."""
    formulation = formulate(diverse(6, 6, groups=2))
    plan = clusterplan.solve(formulation.instance, "best-fit").plan
    fresh = formulate(formulation.instance)
    with Clock(0.0).enforced():
        result = conclude(fresh, "exact", SolveOptions(time_limit_s=1e-3), Outcome(plan), 1.0)
    assert result.plan is not None
    assert verify(formulation.instance, result).ok


def test_a_certificate_that_takes_too_long_to_check_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """What counting proves is certified then; the certificate stays for `verify`, which takes its time."""
    full = clusterplan.solve(STAGING, "exact", SolveOptions(time_limit_s=60))
    original = IntervalBounds.unproven

    def slow(self: IntervalBounds, intervals: Any) -> Any:
        with Clock(0.0).enforced():
            return original(self, intervals)

    monkeypatch.setattr(conclude_module, "GRACE_S", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(IntervalBounds, "unproven", slow)
        patch.setattr(conclude_module, "check_deadline", lambda *_: Clock(0.0))
        cut = clusterplan.solve(STAGING, "exact", SolveOptions(time_limit_s=60))
    assert (cut.status, cut.limit, cut.objective) == ("optimal", "none", full.objective)
    assert cut.certified_bound == formulate(STAGING).elementary_bounds()[0]
    assert cut.certificate is not None
    assert "no time to check the certificate" in (cut.message or "")
    assert verify(STAGING, cut).ok
    better = cut.objectives[0].model_copy(update={"certified_bound": (full.certified_bound or 0.0) * 1.01})
    forged = cut.model_copy(update={"objectives": (better,), "certified_bound": better.certified_bound})
    assert not verify(STAGING, forged).ok


def test_prices_that_there_is_no_time_for_prove_nothing() -> None:
    """The check of a placement goes on with what counting gives, wherever it is stopped."""
    instance = generate_consolidation(20, 30, load=1.2, seed=1)
    result = clusterplan.solve(instance, "exact")
    values = [record.value or 0.0 for record in result.objectives]
    elementary = formulate(instance).elementary_bounds()
    clock = Ticks()
    with clock.enforced():
        full = formulate(instance).certified_bounds(result.certificate, values)
    assert full == tuple(record.certified_bound for record in result.objectives)
    for share in (0.1, 0.5, 0.9):
        with Ticks(share * clock.asked).enforced():
            bounds = formulate(instance).certified_bounds(result.certificate, values)
        for least, bound, most in zip(elementary, bounds, full, strict=True):
            assert bound in (least, most)


def test_a_search_over_stage_times_keeps_what_it_has_when_a_step_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The plan and the bounds from before the step are the answer."""
    from clusterplan.solvers.staging import search as staging_search

    original, steps = staging_search.Search._split, iter(range(100))

    def stopped(*arguments: Any) -> Any:
        if next(steps) == 3:
            raise OutOfTimeError("no time")
        return original(*arguments)

    monkeypatch.setattr(staging_search.Search, "_split", stopped)
    instance = generate_ctr(16, 0)
    result = clusterplan.solve(instance, "exact", SolveOptions(time_limit_s=60))
    assert result.limit == "time"
    assert result.plan is not None
    assert verify(instance, result).ok


def test_an_objective_that_is_given_up_leaves_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was settled is written back to named servers, and the message names what was not."""
    original = PatternProgram.relax

    def relax(self: PatternProgram, goal: str) -> Any:
        if goal == "spread":
            raise OutOfTimeError("no time")
        return original(self, goal)

    monkeypatch.setattr(PatternProgram, "relax", relax)
    instance = generate_consolidation(8, 14, load=1.3, seed=1)
    instance = instance.model_copy(update={"objectives": ("value", "spread", "servers")})
    result = clusterplan.solve(instance, "exact", SolveOptions(time_limit_s=60))
    assert result.objectives[0].proven
    assert "spread and what follows without classes: no time" in (result.message or "")
    assert verify(instance, result).ok


def test_a_choice_of_types_that_cannot_be_judged_in_time_is_the_worst() -> None:
    """The search ends with the best of those that were judged."""
    plan = clusterplan.solve(STAGING, "exact").plan or ()
    names = [kind.name for kind in STAGING.types]
    types = [
        names.index(stage.type) for stage in plan for _ in range(stage.first_layer, stage.last_layer + 1)
    ]
    clock = Ticks()
    search = TypeSearch(staging(), "exact", clock)
    with clock.enforced():
        clock.asks = clock.asked + 1
        assert search.fitness(types) == NOT_EVALUATED
        assert search.over
        clock.asks = math.inf
        assert search.fitness(types).feasible


def test_cbc_that_does_not_stop_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that ignores its limit costs a second more, and no exception."""
    import pulp

    program = tmp_path / "cbc"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(pulp.PULP_CBC_CMD, "pulp_cbc_path", str(program))
    monkeypatch.setattr("clusterplan.solvers.backends.mip_solvers.GRACE_S", 0.1)
    model = milp_model(staging())
    model.minimise(model.objectives[0], 1.0)
    began = time.perf_counter()
    # On a busy machine, too, the model is written before the time is up.
    answer = BACKENDS["cbc"].minimise(model.problem, SolveOptions(gap=0.0), Clock(2.0))
    assert (answer.values, answer.limit) == (None, "time")
    assert time.perf_counter() - began < CAP_S


def test_a_job_of_thousands_of_tasks_nests_no_calls() -> None:
    """Its cuts are thousands of pieces deep; the plan covers all its tasks."""
    instance = wide(4200, 2200)
    result = clusterplan.solve(instance, "exact", SolveOptions(time_limit_s=2))
    assert result.plan is not None
    assert result.objectives[0].value == 4200
    assert verify(instance, result).ok


def recursive_cuts(
    rows: list[tuple[int, ...]], tasks: tuple[int, ...], servers: int, top: int
) -> Iterator[tuple[int, ...]]:
    """Yield the ways to write tasks as a sum of rows in falling order, as the definition says."""
    if servers == 0:
        yield from [] if any(tasks) else [()]
        return
    for i in range(top, -1, -1):
        rest = tuple(t - c for t, c in zip(tasks, rows[i], strict=True))
        if min(rest) >= 0:
            yield from ((i, *more) for more in recursive_cuts(rows, rest, servers - 1, i))


def test_cuts_are_listed_as_their_definition_says() -> None:
    """Every way to cut a job is there once, the largest pieces first."""
    rng = random.Random(1)
    for _ in range(200):
        groups = rng.randint(1, 2)
        rows = sorted({tuple(rng.randint(0, 3) for _ in range(groups)) for _ in range(4)} - {(0,) * groups})
        tasks, servers = tuple(rng.randint(0, 6) for _ in range(groups)), rng.randint(0, 5)
        found = list(
            _PatternLister(np.array(rows).reshape(-1, groups), mergeable=False).partitions(tasks, servers)
        )
        assert found == list(recursive_cuts(rows, tasks, servers, len(rows) - 1))


@pytest.mark.parametrize(
    ("instance", "what"),
    [
        (generate_allocation(1500, 2, seed=1), "1,500 jobs"),
        (generate_staging(300, 2, "loose", seed=1), "300 layers"),
        (wide(2, 1500), "1,500 servers"),
        (consolidation([{"name": "n", "capacity": {"gpu": 1}}], [{"name": f"j{j}", "tasks": 1,
          "task_demand": {"gpu": 1}} for j in range(1500)]), "1,500 jobs"),
    ],
)  # fmt: skip
def test_brute_force_refuses_what_it_cannot_enumerate(instance: Instance, what: str) -> None:
    """It says how much there is, and what to use."""
    with pytest.raises(TooLargeError, match=rf"tiny instances: there are {what}, .*--solver exact"):
        clusterplan.solve(instance, "brute-force", SolveOptions(time_limit_s=1))


@pytest.mark.parametrize(
    "instance",
    [generate_allocation(200, 2, seed=1), generate_staging(60, 3, "loose", seed=1), diverse(190, 60)],
)
def test_brute_force_stops_at_the_limit_with_what_it_has(instance: Instance) -> None:
    """On instances that it takes but cannot finish."""
    began = time.perf_counter()
    result = clusterplan.solve(instance, "brute-force", SolveOptions(time_limit_s=0.3))
    assert result.limit == "time"
    assert result.status in ("feasible", "unknown")
    assert time.perf_counter() - began < CAP_S


def test_a_heuristic_places_what_it_gets_to() -> None:
    """Jobs that there was no time for wait; one that must be placed is no plan."""
    instance = diverse(20, 12, groups=2)
    formulation = ConsolidationFormulation(instance)
    solver = clusterplan.solvers.registry.find_solver("best-fit", "consolidation")
    clock = Ticks()
    everything = solver.solve(formulation, SolveOptions(), clock).plan
    clock = Ticks(clock.asked // 2)
    outcome = solver.solve(ConsolidationFormulation(instance), SolveOptions(), clock)
    assert outcome.limit == "time"
    placed = sum(entry.placed for entry in outcome.plan)
    assert 0 < placed < sum(entry.placed for entry in everything or ())
    assert not formulation.violations(outcome.plan)


def test_reasons_of_jobs_with_many_groups_are_not_worked_out_without_end() -> None:
    """Where it would take minutes to say why each job waits, the sentence says so."""
    instance = diverse(120, 60, groups=3)
    plan = tuple({"job": job.name, "placed": False} for job in instance.jobs)
    formulation = ConsolidationFormulation(instance)
    reasons = [entry.reason for entry in formulation.finish(formulation.parse_plan(plan))]
    assert TOO_COMPLEX_TEXT in reasons
    assert reasons[0] != TOO_COMPLEX_TEXT


def test_a_diagnosis_has_what_is_left_of_the_limit() -> None:
    """Without time there is the plain sentence, of every kind."""
    for instance in (ALLOCATION, STAGING, diverse(4, 6)):
        diagnosis = diagnose(formulate(instance), None, 0.0)
        assert diagnosis.reasons == ("no plan keeps all constraints together",)


def test_marginal_gain_that_has_no_time_is_no_plan() -> None:
    """It is the last resort of other methods, which go on without."""
    formulation = formulate(ALLOCATION)
    assert choose_by_gain(formulation, Clock()) is not None  # type: ignore[arg-type]
    clock = Ticks(0)
    assert choose_by_gain(formulation, clock) is not None  # type: ignore[arg-type]


def test_a_frontier_that_cannot_begin_in_time_is_partial(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no points, says that the time was up, and passes its check."""
    monkeypatch.setattr(conclude_module, "GRACE_S", 0.0)
    chain = generate_staging(200, 8, "loose", seed=1)
    jobs = generate_allocation(2000, 3, 0.5, seed=1)
    options = SolveOptions(time_limit_s=1e-3)
    for instance, frontier in (
        (chain, clusterplan.pareto(chain, options)),
        (jobs, clusterplan.pareto(jobs, options, prices={"gpu": 1.0})),
    ):
        assert (frontier.status, frontier.limit, frontier.points) == ("partial", "time", ())
        assert code_of_frontier(frontier) == LIMIT_NO_PLAN
        assert verify_frontier(instance, frontier).ok


def test_a_table_of_stages_of_an_allocation_menu_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of marginal gain are the same whether the menu is looked at whole or job by job."""
    instance = generate_allocation(40, 3, 0.7, seed=2)
    whole = clusterplan.solve(instance, "marginal-gain-joint").plan
    monkeypatch.setattr("clusterplan.formulations.allocation.configurations.BLOCK_SIZE", 1)
    assert clusterplan.solve(instance, "marginal-gain-joint").plan == whole


def test_pytorch_is_not_loaded_where_that_takes_longer_than_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    result = clusterplan.solve(generate_staging(4, 2, seed=1), "reinforce-rnn", time_limit_s=1)
    assert (result.status, result.limit) == ("unknown", "time")
    assert "loading PyTorch takes longer" in (result.message or "")


def test_shares_of_the_time_that_is_left() -> None:
    """A part of it, or so many seconds; without a limit a share has none either."""
    hour, endless = Clock(3600.0), Clock()
    share = hour.share(0.25).limit_s
    assert share is not None
    assert 890 < share <= 900
    assert endless.share(0.25).limit_s is None
    assert hour.at_most(5.0).limit_s == endless.at_most(5.0).limit_s == 5.0
    assert Clock(0.0).at_most(5.0).limit_s == 0.0


def test_items_are_yielded_until_the_time_is_up() -> None:
    """The clock is looked at now and then, and before the first item; outside of a clock there is no end."""
    assert list(until_time_limit(range(5))) == [0, 1, 2, 3, 4]
    with Clock(0.0).enforced(), pytest.raises(OutOfTimeError):
        next(until_time_limit([1]))
    clock = Clock(3600.0)
    with clock.enforced():
        items = until_time_limit(itertools.count())
        assert next(items) == 0
        clock.limit_s = 0.0
        with pytest.raises(OutOfTimeError):
            list(itertools.islice(items, 2 * CHECK_INTERVAL))
