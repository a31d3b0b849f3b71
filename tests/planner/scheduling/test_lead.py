"""How the page of a schedule begins."""

from __future__ import annotations

import pytest

from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.planner.api import solve
from clusterplan.planner.scheduling.lead import lead, rounded_down


def test_it_names_the_distance_from_what_prices_prove() -> None:
    instance = generate_scheduling(12, 4, load=3.0, seed=1)
    result = solve(instance, "srsf")
    said = lead(instance, result)
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
    assert "(5.0 % away). Jobs wait " in lead(instance, proven)
    best = record.model_copy(update={"certified_bound": record.value})
    assert "no scheduler can be below that" in lead(
        instance, result.model_copy(update={"objectives": (best,)})
    )
    none = record.model_copy(update={"certified_bound": None})
    assert "no scheduler" not in lead(instance, result.model_copy(update={"objectives": (none,)}))


def test_weights_and_the_makespan_have_words_of_their_own() -> None:
    instance = generate_scheduling(6, 4, seed=1)
    rows = [job.model_dump(exclude_none=True) for job in instance.jobs]
    weighted = instance.replace(jobs=[{**row, "weight": k + 1} for k, row in enumerate(rows)])
    assert "on weighted average" in lead(weighted, solve(weighted, "fifo"))
    makespan = instance.replace(objective="makespan")
    assert lead(makespan, solve(makespan, "fifo")).startswith("With fifo all jobs are done after ")


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0, 0.0), (1.23456, 1.234), (9999.9, 9999.0), (12345.0, 12340.0)]
)
def test_a_bound_is_rounded_down(value: float, shown: float) -> None:
    assert rounded_down(value) == pytest.approx(shown)
