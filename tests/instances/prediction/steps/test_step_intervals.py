"""Intervals of steps: wider outside, widest where nothing was tried, and of the cluster that was measured."""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.prediction.steps.megatron import COEFFICIENTS, step_seconds
from clusterplan.instances.prediction.steps.runs import Runs
from clusterplan.instances.prediction.steps.step_intervals import UNKNOWN, StepIntervals, fit_with_intervals

ROWS = [
    {"batch": 64, "microbatch": micro, "hidden": 1024, "heads": 16, "layers": 24, "sequence": sequence}
    | {"tensor": tensor, "data": data, "pipeline": pipeline}
    for micro in (1, 2)
    for sequence in (512, 1024)
    for tensor in (1, 2)
    for data in (1, 4)
    for pipeline in (1, 2, 4)
]


def _fitted() -> tuple[StepIntervals, Runs]:
    runs = Runs.of(ROWS)
    truth = step_seconds({name: one.value for name, one in COEFFICIENTS.items()}, runs)
    noise = np.random.default_rng(0).normal(0.0, 0.05, len(runs))
    return fit_with_intervals(runs, truth * np.exp(noise)), runs


def test_outside_is_said_and_untried_features_are_widest() -> None:
    fitted, runs = _fitted()
    known, longer, wider = fitted.predict(
        Runs.of([ROWS[0], ROWS[0] | {"sequence": 2048}, ROWS[0] | {"hidden": 2048}])
    )
    assert (known.inside, longer.inside, wider.inside) == (True, False, False)
    assert all(one.low <= one.seconds <= one.high for one in (known, longer, wider))
    assert wider.high / wider.seconds > longer.high / longer.seconds
    assert fitted.outside[0] < fitted.outside[1]
    assert len(fitted.predict(runs)) == len(runs)


def test_another_cluster_has_the_errors_that_were_measured_there() -> None:
    fitted, runs = _fitted()
    there = fitted.scaled_to(runs, 3.0 * fitted.fit.seconds(runs))
    assert there.inside == pytest.approx((0.0, 0.0), abs=1e-9)
    assert there.predict(runs)[0].seconds == pytest.approx(3.0 * fitted.fit.seconds(runs)[0])
    one = fitted.scaled_to(Runs.of(ROWS[:1]), 2.0 * fitted.fit.seconds(Runs.of(ROWS[:1])))
    assert one.inside == fitted.outside
    with pytest.raises(OptionError, match="measure one or more"):
        fitted.scaled_to(Runs.of([]), np.array([]))


def test_too_few_runs_to_try_are_a_factor_of_two() -> None:
    runs = Runs.of(ROWS[:3])
    assert fit_with_intervals(runs, np.ones(3)).outside == UNKNOWN


def test_enough_runs_have_the_quantiles_of_left_out_errors_inside_and_of_left_out_ends_outside() -> None:
    """Noise of 5 %: nine of ten errors lie inside ends of ±1.645 · 5 %, and the outside was tried."""
    runs = Runs.of([*ROWS, *(row | {"microbatch": 4} for row in ROWS[: len(ROWS) // 2])])
    truth = step_seconds({name: one.value for name, one in COEFFICIENTS.items()}, runs)
    fitted = fit_with_intervals(runs, truth * np.exp(np.random.default_rng(0).normal(0.0, 0.05, len(runs))))
    assert fitted.fit.correction is not None
    errors = fitted.fit.correction.errors
    low, high = fitted.inside
    assert np.mean((errors >= low) & (errors <= high)) == pytest.approx(0.9, abs=0.03)
    assert (low, high) == pytest.approx((-0.0823, 0.0823), abs=0.03)
    assert fitted.outside != UNKNOWN
