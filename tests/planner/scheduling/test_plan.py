"""Schedules as people read them, their changes and frontiers."""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.formulations.common.clock import Clock
from clusterplan.formulations.scheduling.evaluation import usage_over_time
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.formulations.scheduling.plan import Segment
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.planner.api import solve
from clusterplan.planner.changes import Amount, Change, changed_instance
from clusterplan.planner.pareto import pareto
from clusterplan.planner.reports.result_page import frontier_page
from clusterplan.planner.scheduling.changes import answer, changes, what_if
from clusterplan.planner.scheduling.frontier import SchedulingFrontierPage
from clusterplan.planner.scheduling.kind import MAX_SEGMENTS, SCHEDULING
from clusterplan.planner.scheduling.plan import (
    MAX_POINTS,
    WaitAnalysis,
    WaitStatistics,
    as_data,
    columns,
    rounded_down,
    scheduling_parts,
    summary_sentences,
    thinned,
)
from clusterplan.planner.sensitivity import what_if as compared
from clusterplan.solvers.common.conclude import conclude
from clusterplan.solvers.common.result import Result, SolveOptions
from clusterplan.solvers.scheduling.frontier import SchedulingFrontier, SizeBound
from clusterplan.solvers.scheduling.policy_solvers import POLICIES

INSTANCE = SchedulingInstance.model_validate(
    {
        "name": "t",
        "resources": {"gpu": 2},
        "jobs": [
            {"name": "wide", "demand": {"gpu": 2}, "duration_s": 4},
            {"name": "thin", "demand": {"gpu": 1}, "duration_s": 3, "arrival_s": 1},
        ],
    }
)


def plan(*segments: tuple[str, float, float]) -> list[Segment]:
    """Return segments."""
    return [Segment(job=job, start_s=start, end_s=end) for job, start, end in segments]


IN_TURN = plan(("wide", 0, 4), ("thin", 4, 7))
STOPPED = plan(("wide", 0, 1), ("thin", 1, 4), ("wide", 4, 7))


def test_columns_name_servers_only_where_there_are_any() -> None:
    """Start and end are numbers."""
    assert [title for title, *_ in columns(IN_TURN)] == ["job", "starts at s", "ends at s"]
    placed = Segment(job="wide", start_s=0, end_s=4, servers={"s": 2})
    assert [cell(placed) for *_, cell in columns([placed])] == ["wide", "0", "4", "2×s"]


def test_plain_data_hold_segments_and_figures() -> None:
    """As export-plan writes them."""
    data = as_data(INSTANCE, IN_TURN)
    assert data["metrics"]["mean_s"] == 5
    assert data["segments"][1] == {
        "job": "thin",
        "start_s": 4,
        "end_s": 7,
        "configuration": "",
        "servers": {},
    }


def test_the_answer_says_how_long_jobs_take_and_wait() -> None:
    """In one sentence."""
    sentence = answer(INSTANCE, IN_TURN)
    assert sentence.startswith("2 jobs take 5")
    assert "of which they wait 1.5" in sentence


def test_two_schedules_are_compared() -> None:
    """Both jobs run at other times, and the mean is the same."""
    found = changes(INSTANCE, IN_TURN, STOPPED)
    assert found.changes == [
        Change("wide", "move", "0–4 s", "0–7 s in 2 parts"),
        Change("thin", "move", "4–7 s", "1–4 s"),
    ]
    assert found.amounts[0] == Amount("mean completion time [s]", 5, 5)
    assert found.amounts[-1] == Amount("preemptions", 0, 1)


def test_nothing_says_what_runs_now() -> None:
    """So a plan alone changes nothing that is known."""
    with pytest.raises(OptionError, match="give two results"):
        changes(INSTANCE, None, IN_TURN)


def test_it_names_the_distance_from_what_prices_prove() -> None:
    instance = generate_scheduling(12, 4, load=3.0, seed=1)
    result = solve(instance, "srsf")
    said = summary_sentences(instance, result)
    assert said.startswith("With srsf a job is done ")
    assert "as far as the lengths of jobs alone can tell" in said
    record = result.objectives[0]
    assert record.value is not None
    bound = 0.95 * record.value
    proven = result.model_copy(
        update={
            "certificate": {"edges_s": [0.0], "prices": {}},
            "objectives": (record.model_copy(update={"certified_bound": bound}),),
        }
    )
    assert "(5.0 % away). Jobs wait " in summary_sentences(instance, proven)
    best = record.model_copy(update={"certified_bound": record.value})
    assert "no scheduler can be below that" in summary_sentences(
        instance, result.model_copy(update={"objectives": (best,)})
    )
    none = record.model_copy(update={"certified_bound": None})
    assert "no scheduler" not in summary_sentences(
        instance, result.model_copy(update={"objectives": (none,)})
    )


def test_weights_and_the_makespan_have_words_of_their_own() -> None:
    instance = generate_scheduling(6, 4, seed=1)
    rows = [job.model_dump(exclude_none=True) for job in instance.jobs]
    weighted = instance.replace(jobs=[{**row, "weight": k + 1} for k, row in enumerate(rows)])
    assert "on weighted average" in summary_sentences(weighted, solve(weighted, "fifo"))
    makespan = instance.replace(objective="makespan")
    assert summary_sentences(makespan, solve(makespan, "fifo")).startswith(
        "With fifo all jobs are done after "
    )


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0, 0.0), (1.23456, 1.234), (9999.9, 9999.0), (12345.0, 12340.0)]
)
def test_a_bound_is_rounded_down(value: float, shown: float) -> None:
    assert rounded_down(value) == pytest.approx(shown)


def waits_of(jobs: dict[str, tuple[float, int, float]], runs: list[tuple[str, float, float]]) -> WaitAnalysis:
    """Return the waits of jobs (arrival, GPUs, duration) on four GPUs that run at these times."""
    rows = [
        {"name": name, "arrival_s": at, "tasks": gpus, "demand": {"gpu": 1}, "duration_s": length}
        for name, (at, gpus, length) in jobs.items()
    ]
    document = {"kind": "scheduling", "name": "t", "resources": {"gpu": 4}, "jobs": rows}
    instance = SchedulingInstance.model_validate(document)
    plan = [Segment(job=name, start_s=start, end_s=end) for name, start, end in runs]
    formulation = SchedulingFormulation(instance)
    assert not formulation.violations(plan)
    segments = formulation.segments(plan)
    return WaitAnalysis(instance, segments, usage_over_time(instance, segments), 0)


def test_a_queue_that_was_there_is_the_reason() -> None:
    """Two jobs of an hour on all GPUs are before the third; one of them has run for half an hour."""
    jobs = {"a": (0.0, 4, 3600.0), "b": (0.0, 4, 3600.0), "c": (1800.0, 1, 60.0)}
    runs = [("a", 0.0, 3600.0), ("b", 3600.0, 7200.0), ("c", 7200.0, 7260.0)]
    wait = waits_of(jobs, runs).of(2)
    assert (wait.earlier, wait.earlier_hours, wait.later) == (2, pytest.approx(6.0), 0)
    assert wait.in_use == pytest.approx(4.0)
    assert wait.reason("gpu") == "wanted 1 of 4 gpu; came behind 2 jobs with 6 gpu-hours left"


def test_later_jobs_that_overtake_are_the_reason() -> None:
    """A wide job is stopped for two that come later, of which one has less work."""
    jobs = {"wide": (0.0, 4, 100.0), "short": (10.0, 4, 20.0), "long": (20.0, 4, 300.0)}
    runs = [("wide", 0.0, 10.0), ("short", 10.0, 30.0), ("long", 30.0, 330.0), ("wide", 330.0, 420.0)]
    wait = waits_of(jobs, runs).of(0)
    assert (wait.later, wait.later_less, wait.later_share) == (2, 1, 1.0)
    assert "2 later jobs took 100 % of the gpu in use meanwhile, 1 of them with less work" in wait.reason(
        "gpu"
    )


def test_what_was_idle_is_said() -> None:
    """Where nothing else ran, too."""
    jobs = {"a": (0.0, 2, 100.0), "b": (0.0, 1, 50.0)}
    wait = waits_of(jobs, [("a", 0.0, 100.0), ("b", 100.0, 150.0)]).of(1)
    assert wait.reason("gpu").endswith("2 gpu were idle on average")
    lazy = waits_of({"a": (0.0, 2, 100.0)}, [("a", 50.0, 150.0)]).of(0)
    assert lazy.in_use == 0.0
    assert lazy.reason("gpu") == "wanted 2 of 4 gpu; 4 gpu were idle on average"
    assert WaitStatistics(1.0, 100.0, 99.5, 0, 0, 0.0, 0, 0.0).reason("gpu") == "others used 99.50 of 100 gpu"


def test_a_thinned_curve_keeps_its_peaks() -> None:
    """Of many points few are left, in order, and the largest value is among them."""
    at_s = np.sort(np.random.default_rng(1).uniform(0, 100, 20_000))
    values = np.zeros(20_000)
    values[7_777] = 5
    times, kept = thinned(at_s, values)
    assert len(times) <= MAX_POINTS
    assert (np.diff(times) > 0).all()
    assert kept.max() == 5
    assert thinned(at_s[:9], values[:9])[0].tolist() == at_s[:9].tolist()


def made() -> tuple[SchedulingFormulation, Result]:
    """Return a trace and its result by first come, first served."""
    formulation = SchedulingFormulation(generate_scheduling(40, 8, load=3.0, seed=2))
    outcome = POLICIES[0].solve(formulation, SolveOptions(), Clock())
    return formulation, conclude(formulation, "fifo", SolveOptions(), outcome, 0.1)


def test_the_page_shows_the_queue_and_who_waited_most() -> None:
    """The longest wait stands in the first row; at its peak the curve of the queue is the longest queue."""
    formulation, result = made()
    parts = scheduling_parts(formulation.instance, result)
    assert set(parts["data"]["figures"]) == {"queue", "use", "times", "gantt"}
    (queue,) = parts["data"]["figures"]["queue"]["data"]
    assert max(queue["y"]) > 1
    waits = [row[5].value for row in parts["waited"].rows]
    assert waits == sorted(waits, reverse=True)
    assert waits[0] > 0


def test_without_a_plan_the_page_says_what_the_instance_is() -> None:
    """And shows no curves."""
    formulation, result = made()
    parts = scheduling_parts(formulation.instance, result.model_copy(update={"plan": None}))
    assert parts["data"] == {"figures": {}}
    assert ("jobs", "40") in parts["about"]


def test_prices_of_a_certificate_are_shown() -> None:
    """Over the time of the schedule; a Gantt chart has a line for each job and a bar for each segment."""
    formulation, result = made()
    assert result.plan is not None
    prices = {"edges_s": [0.0, 100.0, 200.0], "prices": {"gpu": [3.0, 1.5, 0.0]}}
    priced = result.model_copy(update={"certificate": prices})
    figures = scheduling_parts(formulation.instance, priced)["data"]["figures"]
    assert figures["price"]["data"][0]["y"][:2] == [3.0, 1.5]
    there, runs = figures["gantt"]["data"]
    assert len(there["x"]) == 3 * 40
    assert len(runs["x"]) == 3 * len(result.plan)


def on_servers() -> SchedulingInstance:
    pool = generate_scheduling(5, 32, seed=1)
    servers = [{"name": name, "count": 8, "capacity": {"gpu": 8}} for name in ("a100", "v100")]
    return pool.replace(resources={}, servers=servers)


def test_a_pool_grows_and_shrinks() -> None:
    pool = generate_scheduling(5, 64, seed=1)
    known = what_if(pool)
    assert list(known) == ["gpu", "remove"]
    assert changed_instance(pool, "gpu=+10", known).document()["resources"] == {"gpu": 74.0}
    assert changed_instance(pool, "gpu=-50%", known).document()["resources"] == {"gpu": 32.0}
    gone = pool.jobs[0].name
    assert gone not in {
        job["name"] for job in changed_instance(pool, f"remove={gone}", known).document()["jobs"]
    }
    with pytest.raises(OptionError, match="gpu=none: a cluster has so many"):
        changed_instance(pool, "gpu=none", known)
    with pytest.raises(OptionError, match=r"gpu\+10' is no change; there are: gpu=\+10, remove=JOB"):
        changed_instance(pool, "gpu+10", known)
    with pytest.raises(OptionError, match="makes no valid instance"):
        changed_instance(pool, "gpu=0", known)


def test_servers_are_added_and_drained() -> None:
    made = on_servers()
    known = what_if(made)
    assert changed_instance(made, "add=2xa100", known).pool == {"gpu": 144.0}
    assert changed_instance(made, "drain=v*", known).pool == {"gpu": 64.0}
    fewer = changed_instance(made, "drain=v100-3", known)
    assert isinstance(fewer, SchedulingInstance)
    assert fewer.pool == {"gpu": 120.0}
    assert [server.name for server in fewer.servers][:4] == ["a100", "v100-0", "v100-1", "v100-2"]
    assert changed_instance(fewer, "drain=v100-[0-6]", known).pool == {"gpu": 72.0}
    with pytest.raises(OptionError, match="leaves no server; jobs need one at least"):
        changed_instance(made, "drain=*", known)
    with pytest.raises(OptionError, match="there is no server 'h100'; there are: a100, v100"):
        changed_instance(made, "add=h100", known)


def test_more_gpus_are_never_worse_for_shortest_service_first_on_single_gpus() -> None:
    """The comparison says what ten more bring."""
    jobs = [
        {"name": f"j{k}", "arrival_s": 10.0 * k, "tasks": 1, "demand": {"gpu": 1}, "duration_s": 100.0 + k}
        for k in range(20)
    ]
    made = generate_scheduling(5, 64, seed=1).replace(resources={"gpu": 2}, jobs=jobs)
    found = compared(made, ["gpu=+10"], "srsf")
    row = next(row for row in found.rows() if row.scenario.name == "gpu=+10")
    assert row.difference is not None
    assert row.difference < 0
    assert found.headline().startswith("gpu=+10: mean_completion_time ")


def test_a_plan_may_have_many_entries_for_a_job() -> None:
    """Of the other kinds one for each row."""
    assert SCHEDULING.rows_of_plan == "jobs"
    assert SCHEDULING.entries_of_row == MAX_SEGMENTS > 1


TRACE = generate_scheduling(40, 32, load=2.0, seed=3)


def test_it_says_what_no_scheduler_can_beat() -> None:
    """For as much as there is."""
    frontier = pareto(TRACE, least=32, most=64, prices={"gpu": 2.0})
    page = frontier_page(TRACE, frontier)
    assert "On 32 gpu no scheduler averages less than" in page
    assert "USD/h" in page
    assert len(page) < 1_500_000


def test_the_bound_of_a_size_holds_down_to_the_next_smaller_one() -> None:
    """As steps: where each begins, and how high it is."""
    frontier = pareto(TRACE, least=32, most=64)
    assert isinstance(frontier, SchedulingFrontier)
    others = (SizeBound(size=32, bound_s=90), SizeBound(size=40, bound_s=70), SizeBound(size=64, bound_s=80))
    page = SchedulingFrontierPage(TRACE, frontier)
    page.frontier = frontier.model_copy(update={"points": (), "others": others})
    assert page._bounds() == [(32, 90), (33, 80), (41, 80)]


def test_it_says_where_the_instance_asks_for_something_else() -> None:
    """The makespan is not what the frontier shows."""
    for objective, said in (("makespan", True), ("mean_completion_time", False)):
        trace = TRACE.replace(objective=objective)
        page = frontier_page(trace, pareto(trace, least=32, most=64))
        assert ("the instance asks for the makespan" in page) == said
