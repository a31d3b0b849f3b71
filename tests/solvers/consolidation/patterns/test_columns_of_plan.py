"""The patterns of a plan, by hand."""

from __future__ import annotations

from placements import job, placement, server

from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.solvers.consolidation.patterns.columns_of_plan import add_plan_columns
from clusterplan.solvers.consolidation.patterns.master import RestrictedMaster


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
