"""What formulations of all kinds have in common: their registration and MILP models."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import clusterplan
from clusterplan.formulations.common.formulation import exact_integer_row
from clusterplan.formulations.common.kind import FormulationKind
from clusterplan.formulations.common.objective import loosened
from clusterplan.formulations.registry import KINDS, formulate, milp_model
from clusterplan.solvers.backends.cp_sat import integer_row, integer_terms


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_is_registered_under_the_name_of_its_formulation(name: str) -> None:
    assert isinstance(KINDS[name], FormulationKind)
    assert KINDS[name].formulation.kind == name


def test_a_kind_need_not_have_a_textbook_model() -> None:
    formulation = next(iter(KINDS.values())).formulation
    assert FormulationKind(formulation).milp_model is None


DECIMALS = st.decimals(0, 100, places=3, allow_nan=False).map(float)


@given(coefficients=st.lists(DECIMALS, min_size=1, max_size=4), limit=DECIMALS)
def test_whole_rows_have_the_same_solutions(coefficients: list[float], limit: float) -> None:
    """Every small point satisfies the scaled row exactly if it satisfies the decimal one."""
    scaled = exact_integer_row(coefficients, limit)
    assert scaled is not None
    weights, bound = scaled
    exact = [Fraction(repr(c)) for c in coefficients]
    for point in itertools.product(range(3), repeat=len(coefficients)):
        left = sum(x * c for x, c in zip(point, exact, strict=True)) <= Fraction(repr(limit))
        assert left == (sum(x * w for x, w in zip(point, weights, strict=True)) <= bound)


def test_rows_that_cannot_be_scaled_are_left_alone() -> None:
    """A number with too many decimals gives no whole row, and CP-SAT's row is only a shade looser."""
    third = 1 / 3
    assert exact_integer_row([third, 0.1], 1.0) is None
    weights, bound = integer_row([third, 0.1], loosened(1.0))
    assert weights[0] * 3 <= bound
    assert weights[0] * 3 + weights[1] > bound
    assert bound / weights[0] == pytest.approx(3 * (1 + 1e-9), rel=1e-12)


@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=5))
def test_rounded_objectives_stay_on_the_safe_side(costs: list[float]) -> None:
    """Minimised costs are never rounded up, maximised values never down, and both only by a hair."""
    for sense, sign in (("min", 1), ("max", -1)):
        terms = integer_terms(costs, sense, sum(costs))
        for cost, number in zip(costs, terms.numbers, strict=True):
            assert sign * (number / terms.scale - cost) <= 1e-12 * cost
            assert number / terms.scale == pytest.approx(cost, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["mps", "lp"])
@pytest.mark.parametrize("name", ["optimus-testbed", "heterps-ctr", "tiresias-testbed"])
def test_exported_models_have_the_same_optimum(name: str, ending: str, tmp_path: Path) -> None:
    """HiGHS reads the file and finds the value that we find."""
    import highspy

    instance = clusterplan.load(f"example:{name}")
    model, path = milp_model(formulate(instance)), tmp_path / f"model.{ending}"
    model.write(path)
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    assert solver.readModel(str(path)) == highspy.HighsStatus.kOk
    solver.run()
    record = clusterplan.solve(instance).objectives[0]
    sign = -1 if ending == "mps" and record.sense == "max" else 1
    assert record.value is not None
    assert sign * solver.getInfo().objective_function_value == pytest.approx(record.value, rel=1e-4)
