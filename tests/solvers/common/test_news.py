"""What searches tell while they run."""

from __future__ import annotations

import pytest
from sample_documents import DOCUMENT

import clusterplan
from clusterplan.formulations.common.objective import Objective
from clusterplan.solvers.common.news import heard_by, tell

TIME = Objective("time", "min", "s")


def test_a_listener_hears_what_is_told_inside_its_block_only() -> None:
    heard: list[tuple[str, float | None, float | None]] = []
    tell(TIME, 3.0, 1.0)
    with heard_by(lambda objective, *figures: heard.append((objective.name, *figures))):
        tell(TIME, 2.0, None)
    tell(TIME, 1.0, 1.0)
    assert heard == [("time", 2.0, None)]


@pytest.mark.parametrize("kind", ["allocation", "staging", "consolidation"])
def test_exact_tells_of_plans_that_get_better_and_never_beyond_its_bound(kind: str) -> None:
    heard: list[tuple[Objective, float | None, float | None]] = []
    with heard_by(lambda *found: heard.append(found)):
        result = clusterplan.solve(clusterplan.parse_instance(DOCUMENT[kind]), solver="exact")
    assert result.status == "optimal"
    assert heard
    final = {record.name: record.value for record in result.objectives}
    for objective, value, bound in heard:
        sign = 1 if objective.sense == "min" else -1
        best = sign * final[objective.name]
        slack = 1e-9 * max(1.0, abs(best))
        # Of later objectives a bound may hold only for plans that are as good in the earlier ones.
        if objective.name == result.objectives[0].name:
            assert value is None or sign * value >= best - slack
            assert bound is None or sign * bound <= best + slack
