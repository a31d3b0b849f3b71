"""Which shapes are timed: the model's own first, twenty of each family, and a script that Python can read."""

from __future__ import annotations

import ast

import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.prediction.hardware import gpu_named
from clusterplan.instances.prediction.measurement_plan import (
    _CALLS,
    measurement_script,
    plan_measurements,
    plan_table,
    shares,
)
from clusterplan.instances.prediction.models import Setting, load_model
from clusterplan.instances.prediction.operator_times import FAMILY
from clusterplan.instances.prediction.operators import SHAPES, Operator

L4 = gpu_named("l4")


def test_shares_add_up_to_one() -> None:
    operators = load_model("gpt2").operators(Setting(4))
    assert shares(operators, L4).sum() == pytest.approx(1.0)


def test_the_shape_that_takes_longest_comes_first() -> None:
    operators = [Operator("linear", (64, 64, 64)), Operator("linear", (4096, 4096, 4096), count=9)]
    assert plan_measurements(operators, L4)[0].shape == (4096, 4096, 4096)


def test_twenty_of_each_family_and_none_twice() -> None:
    operators = [op for name in ("gpt2", "gpt2-xl") for op in load_model(name).operators(Setting(4))]
    chosen = plan_measurements(operators, L4, per_family=5)
    families = [FAMILY[op.kind] for op in chosen]
    assert all(families.count(family) <= 5 for family in families)
    assert len(set(chosen)) == len(chosen)


def test_candidates_nearest_to_the_model_are_chosen() -> None:
    candidates = [Operator("linear", (2**a, 2**b, 2**b)) for a in range(5, 14) for b in range(5, 12)]
    chosen = plan_measurements([Operator("linear", (8000, 1000, 1000))], L4, candidates, per_family=1)
    assert chosen == [Operator("linear", (8192, 1024, 1024))]


def test_the_script_is_python_and_has_every_shape() -> None:
    operators = load_model("resnet18").operators(Setting(8))
    chosen = plan_measurements(operators, L4)
    text = measurement_script(chosen)
    ast.parse(text)
    assert all(str(op.shape) in text for op in chosen)
    assert len(plan_table(chosen)) == len(chosen)


def test_every_kind_can_be_timed() -> None:
    assert set(_CALLS) == set(SHAPES)
    for line in _CALLS.values():
        ast.parse(line)


def test_what_cannot_be_planned_is_one_line() -> None:
    with pytest.raises(OptionError, match="per_family 0: must be at least 1"):
        plan_measurements([Operator("add", (1, 2))], L4, per_family=0)
    with pytest.raises(OptionError, match="there are no operators"):
        plan_measurements([], L4)
    with pytest.raises(OptionError, match="cannot time fp8"):
        measurement_script([Operator("linear", (1, 2, 3), precision="fp8")])
