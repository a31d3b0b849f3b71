"""Plans from columns."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from device_instances import job, placement, server
from random_instances import random_consolidation

from clusterplan.formulations.consolidation.certificate import MUST_PLACE
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.instances.common.errors import TooLargeError
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation.list_heuristics import BEST_FIT
from clusterplan.solvers.consolidation.patterns.column_generation import PatternProgram
from clusterplan.solvers.consolidation.patterns.disaggregation import (
    Disaggregation,
    RackAwareAssignment,
    SlotAssignment,
    add_plan_columns,
)
from clusterplan.solvers.consolidation.patterns.master import RestrictedMaster

ONE, TWO = (0, 0), (0, 1)


def test_slots_are_given_in_the_order_of_servers() -> None:
    """Each server as often as it has a slot."""
    slots = SlotAssignment({ONE: [5, 3, 3], TWO: [4]})
    assert slots.take({ONE: 2, TWO: 1}, ()) == {ONE: [3, 3], TWO: [4]}
    assert slots.take({ONE: 1}, ()) == {ONE: [5]}


def test_slots_on_few_racks() -> None:
    """First the rack where the job is; then the one that has all it needs with least to spare."""
    slots = RackAwareAssignment({ONE: [0, 1, 2, 2, 3]}, racks=[0, 0, 1, 1])
    assert sorted(slots.take({ONE: 2}, ())[ONE]) == [0, 1]
    assert slots.take({ONE: 1}, {3})[ONE] == [2]


@pytest.mark.parametrize("seed", range(60))
def test_a_plan_survives_the_way_through_patterns(seed: int) -> None:
    """With the columns of a plan alone, the master problem has a solution as good as the plan."""
    instance = random_consolidation(seed)
    first = instance.model_copy(update={"objectives": ("value", "migrations")})
    formulation = ConsolidationFormulation(first)
    plan = BEST_FIT.solve(formulation, SolveOptions(), Clock()).plan
    if plan is None:
        pytest.skip("best fit has no plan")
    try:
        master = RestrictedMaster(formulation.classes)
    except TooLargeError:
        pytest.skip("too many classes")
    master.columns = [column for column in master.columns if column.type not in ("job", "server")]
    master._known = {key for key in master._known if key[0] not in ("job", "server")}
    add_plan_columns(formulation, master, plan)
    program = PatternProgram(master, SolveOptions(threads=1), Clock())
    program.levels[MUST_PLACE] = Fraction(0)
    solution, limit = program.solve_integers("value", -np.inf, None)
    assert solution is not None
    assert limit == "none"
    written = Disaggregation(formulation, master, solution).plan()
    assert formulation.violations(written) == []
    assert formulation.evaluate(written)[0] >= formulation.evaluate(plan)[0] - 1e-9


def test_what_a_plan_splits_becomes_a_pattern() -> None:
    """A preferred job on three and one GPU: pieces of three and of one, on two servers."""
    jobs = [job("a", 4, spread="preferred")]
    instance = placement(["value", "spread"], [{**server(gpu=4), "count": 2}], jobs)
    formulation = ConsolidationFormulation(instance)
    master = RestrictedMaster(formulation.classes)
    known = len(master.columns)
    add_plan_columns(formulation, master, [JobPlacement(job="a", servers={"n-0": 3, "n-1": 1})])
    added = {(column.type, column.what) for column in master.columns[known:]}
    assert ("job", (0, (2, 0), ())) in {(c.type, c.what) for c in master.columns}
    assert added <= {("job", (0, (2, 0), ())), ("server", (0, ((0, 2),))), ("server", (0, ((0, 0),)))}
    assert {("server", (0, ((0, 2),))), ("server", (0, ((0, 0),)))} <= {
        (c.type, c.what) for c in master.columns
    }
    before = len(master.columns)
    add_plan_columns(formulation, master, [JobPlacement(job="a", servers={"n-0": 3, "n-1": 1})])
    assert len(master.columns) == before
