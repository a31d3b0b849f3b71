"""Schedules as people read them, their changes and frontiers."""

from __future__ import annotations

import numpy as np
import pytest
import yaml
from malleable_instances import broken, described, plan_of

from clusterplan.formulations.scheduling.evaluation import usage_over_time
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.planner.api import solve
from clusterplan.planner.changes import Amount, Change, changed_instance
from clusterplan.planner.pareto import pareto
from clusterplan.planner.reports.frontier_page import lower_steps
from clusterplan.planner.reports.result_page import frontier_page
from clusterplan.planner.scheduling.kind import MAX_SEGMENTS, SCHEDULING
from clusterplan.planner.scheduling.plan import (
    MAX_POINTS,
    WaitAnalysis,
    WaitStatistics,
    answer,
    changes,
    columns,
    rounded_down,
    scheduling_parts,
    summary_sentences,
    thinned,
    what_if,
)
from clusterplan.planner.study import what_if as compared
from clusterplan.solvers.common.result import Result

INSTANCE = described("""
resources: {gpu: 2}
jobs:
- {name: wide, demand: {gpu: 2}, duration_s: 4}
- {name: thin, demand: {gpu: 1}, duration_s: 3, arrival_s: 1}
""")
IN_TURN = plan_of(("wide", 0, 4), ("thin", 4, 7))
STOPPED = plan_of(("wide", 0, 1), ("thin", 1, 4), ("wide", 4, 7))


def test_columns_name_servers_only_where_there_are_any() -> None:
    """Start and end are numbers."""
    assert [title for title, *_ in columns(None, IN_TURN)] == ["job", "starts at s", "ends at s"]
    (placed,) = plan_of(("wide", 0, 4, "", {"s": 2}))
    assert [cell(placed) for *_, cell in columns(None, [placed])] == ["wide", "0", "4", "2×s"]


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


@pytest.mark.parametrize(
    ("share", "proven", "said"),
    [
        (0.95, True, " (5.0 % away). Jobs wait "),
        (0.95, False, " (5.0 % away), as far as the lengths of jobs alone can tell"),
        # A bound that is much lower has a unit of its own.
        (0.001, True, " s (99.9 % away). Jobs wait "),
        (1.0, True, ", and no scheduler can be below that"),
        (None, True, ". Jobs wait "),
    ],
)
def test_it_names_the_distance_from_what_is_proven(share: float | None, proven: bool, said: str) -> None:
    """By the prices of a certificate, or by the lengths of jobs."""
    instance = generate_scheduling(12, 4, load=3.0, seed=1)
    result = solve(instance, "srsf")
    (record,) = result.objectives
    assert record.value is not None
    bound = None if share is None else share * record.value
    changed = {"objectives": (record.model_copy(update={"certified_bound": bound}),)}
    certificate = {"edges_s": [0.0], "prices": {}} if proven else None
    sentences = summary_sentences(instance, result.model_copy(update={**changed, "certificate": certificate}))
    assert sentences.startswith("With srsf a job is done ")
    assert said in sentences
    assert ("no scheduler" in sentences) == (share is not None)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("jobs: [{name: a, demand: {gpu: 1}, duration_s: 1}]", " on average"),
        (
            """
            jobs:
            - {name: a, demand: {gpu: 1}, duration_s: 1}
            - {name: b, demand: {gpu: 1}, duration_s: 1, weight: 2}
            """,
            " on weighted average",
        ),
        ("objective: makespan", "With fifo all jobs are done after "),
    ],
)
def test_weights_and_the_makespan_have_words_of_their_own(fields: str, said: str) -> None:
    made = INSTANCE.replace(**yaml.safe_load(fields))
    assert said in summary_sentences(made, solve(made, "fifo"))


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0, 0.0), (1.23456, 1.234), (9999.9, 9999.0), (12345.0, 12340.0)]
)
def test_a_bound_is_rounded_down(value: float, shown: float) -> None:
    assert rounded_down(value) == pytest.approx(shown)


def wait_of(job: str, jobs: str, *runs: tuple[str, float, float]) -> WaitStatistics:
    """Return the wait of one of the jobs on four GPUs that run at these times."""
    instance = described("resources: {gpu: 4}", jobs)
    assert broken(instance, *runs) == []
    segments = SchedulingFormulation(instance).segments(plan_of(*runs))
    waits = WaitAnalysis(instance, segments, usage_over_time(instance, segments), 0)
    return waits.of(instance.table().names.index(job))


def test_a_queue_that_was_there_is_the_reason() -> None:
    """Two jobs of an hour on all GPUs are before the third; one of them has run for half an hour."""
    jobs = """
    jobs:
    - {name: a, demand: {gpu: 4}, duration_s: 3600}
    - {name: b, demand: {gpu: 4}, duration_s: 3600}
    - {name: c, demand: {gpu: 1}, duration_s: 60, arrival_s: 1800}
    """
    wait = wait_of("c", jobs, ("a", 0, 3600), ("b", 3600, 7200), ("c", 7200, 7260))
    assert (wait.earlier, wait.later) == (2, 0)
    assert (wait.earlier_hours, wait.in_use) == pytest.approx((6.0, 4.0))
    assert wait.reason("gpu") == "wanted 1 of 4 gpu; came behind 2 jobs with 6 gpu-hours left"


def test_later_jobs_that_overtake_are_the_reason() -> None:
    """A wide job is stopped for two that come later, of which one has less work."""
    jobs = """
    jobs:
    - {name: wide, demand: {gpu: 4}, duration_s: 100}
    - {name: short, demand: {gpu: 4}, duration_s: 20, arrival_s: 10}
    - {name: long, demand: {gpu: 4}, duration_s: 300, arrival_s: 20}
    """
    wait = wait_of("wide", jobs, ("wide", 0, 10), ("short", 10, 30), ("long", 30, 330), ("wide", 330, 420))
    assert (wait.later, wait.later_less, wait.later_share) == (2, 1, 1.0)
    said = "2 later jobs took 100 % of the gpu in use meanwhile, 1 of them with less work"
    assert said in wait.reason("gpu")


def test_what_was_idle_is_said() -> None:
    """Where nothing else ran, too."""
    one = "jobs: [{name: a, demand: {gpu: 2}, duration_s: 100}]"
    two = one.replace("[", "[{name: b, demand: {gpu: 1}, duration_s: 50}, ")
    wait = wait_of("b", two, ("a", 0, 100), ("b", 100, 150))
    assert wait.reason("gpu").endswith("2 gpu were idle on average")
    lazy = wait_of("a", one, ("a", 50, 150))
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


@pytest.fixture(scope="module", name="made")
def _made() -> tuple[SchedulingInstance, Result]:
    """Return a trace and its result by first come, first served."""
    instance = generate_scheduling(40, 8, load=3.0, seed=2)
    return instance, solve(instance, "fifo")


Made = tuple[SchedulingInstance, Result]


def test_the_page_shows_the_queue_and_who_waited_most(made: Made) -> None:
    """The longest wait stands in the first row; at its peak the curve of the queue is the longest queue."""
    parts = scheduling_parts(*made)
    assert set(parts["data"]["figures"]) == {"queue", "use", "times", "gantt"}
    (queue,) = parts["data"]["figures"]["queue"]["data"]
    assert max(queue["y"]) > 1
    waits = [row[5].value for row in parts["waited"].rows]
    assert waits == sorted(waits, reverse=True)
    assert waits[0] > 0


def test_without_a_plan_the_page_says_what_the_instance_is(made: Made) -> None:
    """And shows no curves."""
    parts = scheduling_parts(made[0], made[1].model_copy(update={"plan": None}))
    assert parts["data"] == {"figures": {}}
    assert ("jobs", "40") in parts["about"]


def test_prices_of_a_certificate_are_shown(made: Made) -> None:
    """Over the time of the schedule; a Gantt chart has a line for each job and a bar for each segment."""
    prices = {"edges_s": [0.0, 100.0, 200.0], "prices": {"gpu": [3.0, 1.5, 0.0]}}
    parts = scheduling_parts(made[0], made[1].model_copy(update={"certificate": prices}))
    figures = parts["data"]["figures"]
    assert figures["price"]["data"][0]["y"][:2] == [3.0, 1.5]
    there, runs = figures["gantt"]["data"]
    assert (len(there["x"]), len(runs["x"])) == (3 * 40, 3 * len(made[1].plan or ()))


POOL = generate_scheduling(5, 64, seed=1)
ON_SERVERS = POOL.replace(
    resources={},
    servers=[{"name": name, "count": 8, "capacity": {"gpu": 8}} for name in ("a100", "v100")],
)


@pytest.mark.parametrize(
    ("made", "scenario", "gpus"),
    [
        (POOL, "gpu=+10", 74),
        (POOL, "gpu=-50%", 32),
        (ON_SERVERS, "add=2xa100", 144),
        (ON_SERVERS, "drain=v*", 64),
        (ON_SERVERS, "drain=v100-3", 120),
        (ON_SERVERS, "drain=v100-3,drain=v100-[0-6]", 72),
    ],
)
def test_a_cluster_grows_and_shrinks(made: SchedulingInstance, scenario: str, gpus: float) -> None:
    """A pool by its amounts, servers one by one, as they are called."""
    assert list(what_if(POOL)) == ["gpu", "remove"]
    changed = changed_instance(made, scenario, what_if(made))
    assert isinstance(changed, SchedulingInstance)
    assert changed.pool == {"gpu": gpus}
    if scenario == "drain=v100-3":
        names = [server.name for server in changed.servers]
        assert names == ["a100", *(f"v100-{k}" for k in range(8) if k != 3)]


@pytest.mark.parametrize(
    ("made", "scenario", "fault"),
    [
        (POOL, "gpu=none", "gpu=none: a cluster has so many"),
        (POOL, "gpu+10", r"gpu\+10' is no change; there are: gpu=\+10, remove=JOB"),
        (POOL, "gpu=0", "makes no valid instance"),
        (ON_SERVERS, "drain=*", "leaves no server; jobs need one at least"),
        (ON_SERVERS, "add=h100", "there is no server 'h100'; there are: a100, v100"),
    ],
)
def test_what_cannot_be_changed_is_refused(made: SchedulingInstance, scenario: str, fault: str) -> None:
    """With what can."""
    with pytest.raises(OptionError, match=fault):
        changed_instance(made, scenario, what_if(made))


def test_more_gpus_are_never_worse_for_shortest_service_first_on_single_gpus() -> None:
    """The comparison says what ten more bring."""
    jobs = [
        {"name": f"j{k}", "arrival_s": 10.0 * k, "demand": {"gpu": 1}, "duration_s": 100.0 + k}
        for k in range(20)
    ]
    found = compared(POOL.replace(resources={"gpu": 2}, jobs=jobs), ["gpu=+10"], "srsf")
    (difference,) = [row.difference for row in found.rows() if row.scenario.name == "gpu=+10"]
    assert difference is not None
    assert difference < 0
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
    assert "on 32 gpu no scheduler averages less than" in page
    assert "USD/h" in page
    assert len(page) < 1_500_000


def test_the_bound_of_a_size_holds_down_to_the_next_smaller_one() -> None:
    """As steps: where each begins, and how high it is."""
    bounds = {32.0: 90.0, 40.0: 70.0, 64.0: 80.0}
    assert lower_steps(bounds, lambda size: size + 1) == [(32, 90), (33, 80), (41, 80)]


def test_it_says_where_the_instance_asks_for_something_else() -> None:
    """The makespan is not what the frontier shows."""
    for objective, said in (("makespan", True), ("mean_completion_time", False)):
        trace = TRACE.replace(objective=objective)
        page = frontier_page(trace, pareto(trace, least=32, most=64))
        assert ("the instance asks for the makespan" in page) == said
