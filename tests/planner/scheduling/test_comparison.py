"""What a comparison says of schedules: figures of each, and a recommendation that its rows bear out."""

from __future__ import annotations

from typing import Any

import pytest
from malleable_instances import plan_by, rigid_trace

from clusterplan.formulations.common.clock import Clock
from clusterplan.formulations.scheduling.evaluation import Metrics
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.common.arrays import Floats, Ints
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.planner.batch.comparison_rows import ComparisonRow, Measures
from clusterplan.planner.scheduling import comparison
from clusterplan.planner.scheduling.comparison import FAIRNESS, advice, measures
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.registry import solvers_for
from clusterplan.solvers.scheduling.own_policy import policy_solver
from clusterplan.solvers.scheduling.policies.contract import KeyPolicy
from clusterplan.solvers.scheduling.policy_solvers import POLICIES, PolicySolver
from clusterplan.solvers.scheduling.view import Knowledge, View


def row(solver: str, hours: float | None, **more: Any) -> ComparisonRow:
    """Return a row with a mean completion time."""
    fields: dict[str, Any] = {
        "instance": "i",
        "kind": "scheduling",
        "solver": solver,
        "status": "unknown" if hours is None else "feasible",
        "objective_name": "mean_completion_time",
        "unit": "s",
        "objective": None if hours is None else 3600 * hours,
    }
    return ComparisonRow(**{**fields, **more})


def test_the_first_sentence_says_what_to_use_and_what_it_saves() -> None:
    """From first come, first served to the best policy, with the best bound of all rows, rounded down."""
    rows = [row("fifo", 2.25, bound=3600.0), row("srsf", 1.89), row("las", 2.0)]
    rows.append(row("exact", 1.88, bound=1.84567 * 3600))
    assert advice(rows) == (
        "Use srsf: the mean completion time falls from 2.25 h (fifo) to 1.89 h, 16 % less; "
        "nothing can be below 1.845 h. Of the policies that need not know how long jobs run, las is best: "
        "2 h. With all that comes known beforehand, exact finds 1.88 h."
    )


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], ""),
        ([row("fifo", None), row("exact", 1.0)], ""),
        ([row("las", 3.0)], "las: the mean completion time is 3 h."),
        # Without fifo, the worst is what others are set beside.
        (
            [row("las", 3.0), row("drf", 6.0), row("gittins", None)],
            "Use las: the mean completion time falls from 6 h (drf) to 3 h, 50 % less.",
        ),
        (
            [row("fifo", 3.0), row("las", 4.0)],
            "Use fifo: its mean completion time of 3 h is beaten by none of 2 policies.",
        ),
        # A solver whose bound was refuted is not recommended, however good it looks.
        ([row("fifo", 3.0), row("las", 1.0, status="error")], "fifo: the mean completion time is 3 h."),
        (
            [row("fifo", 300.0), row("las", 2.9999)],
            "Use las: the mean completion time falls from 300 h (fifo) to 3 h, 99 % less.",
        ),
    ],
)
def test_what_is_said_where_something_is_missing(rows: list[ComparisonRow], said: str) -> None:
    """Nothing without a policy's plan, and nothing that the rows do not bear out."""
    assert advice(rows) == said


class Guess(KeyPolicy):
    """Serves jobs by what it is told of them."""

    def __init__(self, knows: Knowledge) -> None:
        self.knows = knows

    def key(self, view: View, jobs: Ints) -> Floats:
        """Return the place in the order of arrival."""
        del view
        return jobs.astype(float)


@pytest.mark.parametrize("knows", Knowledge)
def test_a_policy_of_ones_own_is_asked_what_it_knows(
    knows: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named among those that need not know how long jobs run if, and only if, it does not."""
    own = policy_solver("guess", "guesses", lambda _: Guess(knows))
    monkeypatch.setattr(comparison, "solvers_for", lambda kind: [*solvers_for(kind), own])
    rows = [row("fifo", 9.0), row("las", 8.806), row("guess", 3.097), row("srsf", 2.0), row("price", 1.5)]
    blind = knows in (Knowledge.NOTHING, Knowledge.PAST, Knowledge.SPEEDS)
    best = "guess is best: 3.097 h" if blind else "las is best: 8.806 h"
    assert f"Of the policies that need not know how long jobs run, {best}. With all" in advice(rows)


def test_solvers_that_are_no_policies_are_not_recommended() -> None:
    """They plan with jobs that have not come yet."""
    planners = {s.name for s in solvers_for("scheduling") if not isinstance(s, PolicySolver)}
    assert planners == {"auto", "exact", "price", "brute-force"}


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_what_a_solver_says_that_it_knows_is_what_its_policy_may_read(policy: PolicySolver) -> None:
    """With the default settings."""
    defaults = {key: option.default for key, option in policy.method_options.items()}
    made = policy.policy(generate_scheduling(5, 8), defaults, SolveOptions(), Clock())
    assert made.knows is policy.knows
    assert policy.what.endswith(f"knows {made.knows.value}")


def measured(instance: SchedulingInstance) -> tuple[Metrics, Measures, Floats]:
    """Return the metrics, the measures and the completion times by first come, first served."""
    formulation = SchedulingFormulation(instance)
    plan = plan_by(formulation, "fifo")
    times = formulation.segments(plan).completion_s - instance.table().arrival_s
    return formulation.metrics(plan), measures(instance, plan), times


def test_figures_are_those_of_the_plan() -> None:
    """They agree with the metrics; the distribution goes from the shortest time to the longest."""
    metrics, fields, times = measured(generate_scheduling(500, 32, load=1.2, seed=3))
    values = {one.name: one.value for one in fields.figures}
    assert values["mean"] == metrics.mean_s
    assert values["95th percentile"] == metrics.p95_s
    assert values[FAIRNESS] == metrics.tenant_fairness
    assert values["gpu idle while jobs wait"] == metrics.fragmentation["gpu"]
    spread = fields.distribution
    assert spread is not None
    assert len(spread.seconds) == len(spread.shares) <= 200
    assert (spread.seconds[0], spread.seconds[-1], spread.shares[-1]) == (times.min(), times.max(), 1)
    for seconds, share in zip(spread.seconds, spread.shares, strict=True):
        assert (times <= seconds).mean() >= share - 1e-9


def test_without_tenants_there_is_no_index_of_them() -> None:
    """The figure is left out, not 0."""
    _, fields, _ = measured(rigid_trace((0, 1, 5), (1, 2, 3)))
    assert FAIRNESS not in {one.name for one in fields.figures}
