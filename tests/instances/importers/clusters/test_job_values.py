"""Options of importers of clusters.

What a move costs in clusters in use.

What jobs are worth by GPUs and by priority.
"""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from clusterplan.instances.importers.clusters.job_values import (
    RULES,
    Running,
    Spread,
    job_value_note,
    move_cost,
    move_cost_note,
    priority_weights,
    worths,
)


def test_words_that_are_allowed() -> None:
    """Nothing else is."""
    assert TypeAdapter(Running).validate_python("stay") == "stay"
    assert TypeAdapter(Spread).validate_python("free") == "free"
    for kind in (Running, Spread):
        with pytest.raises(ValidationError):
            TypeAdapter(kind).validate_python("some")


def test_a_move_costs_a_quarter_of_an_hour_where_anything_runs() -> None:
    assert move_cost(True) == {"restart_cost_h": 0.25}
    assert move_cost(False) == {}
    assert "0.25 hours" in move_cost_note()


def test_priorities_are_put_on_one_scale() -> None:
    """Whatever their scale is; who has none counts as the lowest."""
    assert priority_weights([10, 20, 15, None]) == [1.0, 1000.0, 500.5, 1.0]
    assert priority_weights([-100, 2_000_000_000]) == [1.0, 1000.0]
    assert priority_weights([4294901759, 4294901758]) == [1000.0, 1.0]
    assert priority_weights([7, 7]) == [1.0, 1.0]
    assert priority_weights([None]) == [1.0]


def test_worth_by_each_rule() -> None:
    """One that asks for no GPU counts as one GPU."""
    gpus, priorities = [8.0, 0.0, 1.0], [0.0, 5.0, 10.0]
    by = {rule: worths(rule, gpus, priorities) for rule in RULES}
    assert by["gpus"] == [8.0, 1.0, 1.0]
    assert by["priority"] == [1.0, 500.5, 1000.0]
    assert by["priority-then-gpus"] == [8.0, 500.5, 1000.0]


def test_a_gpu_goes_to_the_highest_priority() -> None:
    """One job of 8 GPUs is worth more than 8 of lower priority with one each."""
    big, *small = worths("priority-then-gpus", [8.0] + [1.0] * 8, [1000.0] + [900.0] * 7 + [0.0])
    assert big > sum(small)


def test_the_sentence_says_the_scale_and_who_has_none() -> None:
    """With the figures as the cluster has them."""
    assert job_value_note("gpus", ["a"], [1.0]).startswith("A job is worth the GPUs")
    said = job_value_note("priority", ["a", "b", "c"], [100.0, 2000.0, None])
    assert "the lowest, 100, counts 1, the highest, 2,000, counts 1,000" in said
    assert said.endswith("counted as the lowest: c.")
    assert "for each GPU" in job_value_note("priority-then-gpus", ["a"], [1.0])
    assert "all are the same" in job_value_note("priority", ["a"], [1.0])
