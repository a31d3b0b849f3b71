"""Fits: known coefficients are found, what cannot be known is refused, and intervals hold the truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from command_line import Command
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_documents import ALLOCATION, accepted, faults

from clusterplan.instances.allocation.fits import fit_speed
from clusterplan.instances.allocation.fits.loss import fit_loss
from clusterplan.instances.allocation.fits.measurements import MAX_POINTS, LossPoint, SpeedPoint
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.instances.common.errors import ClusterplanError, OptionError
from clusterplan.instances.common.speed import FORMULAS, RingAllreduce
from clusterplan.instances.documents import load, parse_instance, to_text

GRID = [(p, w) for p in (1, 2, 3) for w in (1, 2, 4, 7)]
BATCHES = (32, 96)


def points(
    model: str, theta: list[float], pairs: list[tuple[int, int]] = GRID, batches: tuple[int, ...] = BATCHES
) -> list[SpeedPoint]:
    """Return noiseless measurements of a model with known coefficients."""
    step_s = FORMULAS[model][1]
    return [
        SpeedPoint(
            ps=0 if model == "ring_allreduce" else p,
            workers=w,
            steps_per_s=1 / float(step_s(theta, batch, p, w)),
            batch=batch,
        )
        for p, w in pairs
        for batch in batches
    ]


def noisy(measured: list[SpeedPoint], scatter: float, seed: int, unit: float = 1.0) -> list[SpeedPoint]:
    """Return measurements with lognormal noise, in another unit of time."""
    noise = unit * np.random.default_rng(seed).lognormal(0, scatter, len(measured))
    return [
        point.model_copy(update={"steps_per_s": point.steps_per_s * factor})
        for point, factor in zip(measured, noise, strict=True)
    ]


def put(folder: Path, text: str, name: str = "m.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


# Speed


@pytest.mark.parametrize("model", FORMULAS)
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_known_coefficients_are_recovered(model: Any, data: st.DataObject) -> None:
    """Noiseless measurements give θ back, zeros included, with no error and full rank."""
    number = FORMULAS[model][0]
    some = st.one_of(st.just(0.0), st.floats(1e-3, 10))
    theta = [data.draw(st.floats(1e-3, 1)), *(data.draw(some) for _ in range(number - 1))]
    fit = fit_speed(points(model, theta), model, batch=32)
    assert fit.theta == pytest.approx(theta, rel=1e-6, abs=1e-7)
    assert fit.rank == fit.coefficients == number
    assert max(fit.mape, fit.leave_one_out) < 1e-9
    assert fit.warnings == ()


@pytest.mark.parametrize(
    ("model", "theta"),
    [
        ("ps_sync", [0.02, 0.1, 0.3, 0.02, 0.01]),
        ("ps_async", [2.83, 3.92, 0.1, 0.11]),
        ("ring_allreduce", [0.01, 0.2, 0.1, 0.02]),
    ],
)
def test_the_model_is_chosen_by_cross_validation(model: str, theta: list[float]) -> None:
    """Of the models that can be, the one that made the measurements wins; all scores are reported."""
    fit = fit_speed(points(model, theta), batch=32)
    assert fit.model == model
    tried = {candidate.model for candidate in fit.candidates}
    assert tried == ({"ring_allreduce"} if model == "ring_allreduce" else {"ps_sync", "ps_async"})
    assert fit.leave_one_out == min(candidate.leave_one_out for candidate in fit.candidates)


def test_the_fitted_speed_is_a_speed_of_a_document() -> None:
    """The fit gives a validated speed model for the job's own batch."""
    fit = fit_speed(points("ring_allreduce", [0.01, 0.2, 0.1, 0.02]), batch=64)
    speed = fit.speed()
    assert isinstance(speed, RingAllreduce)
    assert speed.batch == 64
    assert fit.fields() == {"model": "ring_allreduce", "theta": list(fit.theta), "batch": 64}
    assert not fit.instant_alone
    assert float(speed.step_time_s(0, 4)) == pytest.approx(0.01 * 16 + 0.2 + 0.1 * 0.75 + 0.02 * 3)


def test_noise_shows_as_error_of_its_size() -> None:
    """With 5 % noise the error is some 4 %, leave-one-out a little more, and θ stays non-negative."""
    fit = fit_speed(noisy(points("ps_sync", [0.02, 0.1, 0.3, 0.02, 0.01]), 0.05, 1), "ps_sync", batch=32)
    assert 0.02 < fit.mape < fit.leave_one_out < 0.08
    assert min(fit.theta) >= 0


def test_errors_are_relative() -> None:
    """Measuring in minutes instead of seconds changes neither the errors nor the ratios of θ."""
    measured = points("ps_async", [2.83, 3.92, 0.1, 0.11])
    fits = [fit_speed(noisy(measured, 0.1, 2, unit), "ps_async") for unit in (1, 60)]
    assert fits[0].mape == pytest.approx(fits[1].mape)
    assert fits[0].theta == pytest.approx([60 * value for value in fits[1].theta])


def test_leave_one_out_is_what_its_name_says() -> None:
    """The error is that of fits to all points but one, on the point left out."""
    measured = noisy(points("ps_async", [2.83, 3.92, 0.1, 0.11], batches=(32,)), 0.1, 3)
    errors = []
    for index, point in enumerate(measured):
        fit = fit_speed([*measured[:index], *measured[index + 1 :]], "ps_async")
        predicted = float(np.asarray(fit.speed().step_time_s(point.ps, point.workers)))
        errors.append(abs(predicted * point.steps_per_s - 1))
    assert fit_speed(measured, "ps_async").leave_one_out == pytest.approx(np.mean(errors), rel=1e-6)


# Rank


EQUAL = [(n, n) for n in (1, 2, 3, 4, 6)]


@pytest.mark.parametrize(
    ("model", "pairs", "batches", "rank", "why"),
    [
        ("ps_sync", EQUAL, (32,), 3, "all have ps = workers"),
        ("ps_sync", [(n, 2 * n) for n in (1, 2, 3, 4, 6)], (32,), 3, "the same ratio of ps to workers"),
        ("ps_sync", [(2, n) for n in (1, 2, 3, 4, 6)], (32,), 3, "all have ps = 2"),
        ("ps_sync", [(n, 2) for n in (1, 2, 3, 4, 6)], (32,), 3, "all have workers = 2"),
        ("ps_sync", [(1, 2), (2, 1), (3, 1), (1, 5)], (32,), 4, "there are 4 different configurations"),
        ("ps_async", EQUAL, (32,), 2, "all have ps = workers"),
        ("ring_allreduce", EQUAL, (32,), 3, "all have batch = 32"),
        ("ring_allreduce", [(1, 4)], (32, 64, 128), 2, "all have workers = 4"),
    ],
)
def test_rank_of_a_poor_design(
    model: Any, pairs: list[tuple[int, int]], batches: tuple[int, ...], rank: int, why: str
) -> None:
    """What is not determined is refused with the reason; where it is allowed, a warning says the same."""
    number = FORMULAS[model][0]
    measured = points(model, [0.01 * (i + 1) for i in range(number)], pairs, batches)
    (line,) = faults(lambda: fit_speed(measured, model, batch=32))
    assert f"points[0]–points[{len(measured) - 1}]: only {rank} of the {number} coefficients" in line
    assert why in line
    assert "measure" in line
    assert "allow_rank_deficient" in line
    fit = fit_speed(measured, model, batch=32, allow_rank_deficient=True)
    assert (fit.rank, fit.coefficients) == (rank, number)
    assert why in fit.warnings[0]
    assert "inside the measured range" in fit.warnings[0]
    assert fit.mape < 1e-9


def test_a_constant_local_batch_hides_coefficients_too() -> None:
    """Where M grows with the workers, M/w is constant and cannot be told from θ1."""
    theta = [0.01, 0.2, 0.1, 0.02]
    measured = [point for w in (1, 2, 4, 8) for point in points("ring_allreduce", theta, [(1, w)], (16 * w,))]
    (line,) = faults(lambda: fit_speed(measured, "ring_allreduce", batch=64))
    assert "only 3 of the 4" in line
    assert "the same batch per worker" in line
    assert "θ0, θ1" in line


def test_only_candidates_of_full_rank_are_chosen_unless_allowed() -> None:
    """Four configurations determine ps_async and not ps_sync; the report says that it was not considered."""
    measured = points("ps_sync", [0.02, 0.1, 0.3, 0.02, 0.01], [(1, 1), (1, 2), (2, 1), (3, 5)], (32,))
    fit = fit_speed(measured, batch=32)
    assert fit.model == "ps_async"
    assert any("ps_sync was not considered: it has rank 4 of 5" in warning for warning in fit.warnings)
    assert fit_speed(measured, batch=32, allow_rank_deficient=True).rank in (4, 4)


def test_undetermined_coefficients_do_not_matter_inside_the_range() -> None:
    """With one constant M the ring formula is right at that M for every number of workers."""
    theta = [0.01, 0.2, 0.1, 0.02]
    measured = points("ring_allreduce", theta, [(1, w) for w in (1, 2, 4, 8)], (64,))
    speed = fit_speed(measured, batch=64, allow_rank_deficient=True).speed()
    truth = RingAllreduce(model="ring_allreduce", theta=(0.01, 0.2, 0.1, 0.02), batch=64)
    assert float(speed.step_time_s(0, 16)) == pytest.approx(float(truth.step_time_s(0, 16)))


def test_a_batch_outside_the_measured_is_a_warning() -> None:
    """The job's batch may differ from those measured; beyond them the report says so."""
    fit = fit_speed(points("ring_allreduce", [0.01, 0.2, 0.1, 0.02]), batch=256)
    assert fit.warnings == ("The job's batch 256 lies outside those measured, 32–96.",)


# Bad measurements of a speed

GOOD = "ps,workers,steps_per_s\n1,1,1\n1,2,1.6\n2,1,1.1\n2,3,2.5\n3,5,3\n4,2,2\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (GOOD + "1,1,-1\n", "line 8: steps_per_s: is -1.0, but must be greater than 0"),
        (GOOD + "1,1,0\n", "line 8: steps_per_s: is 0.0, but must be greater than 0"),
        (GOOD + "1,1,nan\n", "line 8: steps_per_s: is nan, which is not a finite number"),
        (GOOD + "1,1,inf\n", "line 8: steps_per_s: is inf, which is not a finite number"),
        (GOOD + "1,1,fast\n", "line 8: steps_per_s: is 'fast', which is not a number"),
        (GOOD + "1,1,\n", "line 8: steps_per_s: is missing"),
        (GOOD + "1,1.5,2\n", "line 8: workers: is '1.5', which is not a whole number"),
        (GOOD + "1,0,2\n", "line 8: workers: is 0, but must be at least 1"),
        (GOOD + "\n-1,1,2\n", "line 9: ps: is -1, but must be at least 0"),
        (GOOD + "0,1,2\n", "line 8: ps: is 0; other rows have parameter servers"),
        (GOOD + "1,1,1e-300\n", "line 8: steps_per_s: is '1e-300', but must be at least 1e-09"),
        (GOOD + "1,1\n", "line 8: has 2 cells; the header has 3"),
        ("ps,Workers,steps_per_s\n1,1,1\n", "line 1: unknown column 'Workers'; did you mean 'workers'?"),
        ("PS,workers,steps_per_s\n1,1,1\n", "line 1: unknown column 'PS'; did you mean 'ps'?"),
        ("ps,workers,steps_per_s\n1,2,1\n", "line 2: is the only row (workers 2, ps 1); at least 2"),
        ("ps,workers,steps_per_s\n1,2,1\n1,2,1.1\n", "lines 2–3: all 2 rows have one configuration"),
        ("ps,workers,steps_per_s\n1,2,3\n1,3,3\n2,2,3\n", "lines 2–4: steps_per_s: is 3 in all 3 rows"),
        ("", "is empty"),
    ],
)
def test_a_bad_measurement_is_named_by_its_line(tmp_path: Path, text: str, line: str) -> None:
    """Each bad figure gives a fault that names file, line and column, and says what is allowed."""
    path = put(tmp_path, text)
    found = faults(lambda: fit_speed(path, batch=32))
    assert any(f"{path}: {line}" in fault for fault in found), found


def test_every_bad_row_is_named_at_once(tmp_path: Path) -> None:
    """Three bad rows are three faults."""
    found = faults(lambda: fit_speed(put(tmp_path, GOOD + "1,1,-1\n1,1,nan\n1,x,1\n"), batch=32))
    assert [fault.split(": ")[1] for fault in found] == ["line 8", "line 9", "line 10"]


def test_rank_faults_name_the_lines(tmp_path: Path) -> None:
    """A design with p = w throughout is refused for both models, with the lines that have it."""
    path = put(tmp_path, "ps,workers,steps_per_s\n1,1,1\n2,2,1.8\n4,4,3\n\n8,8,5\n3,3,2.5\n")
    found = faults(lambda: fit_speed(path, batch=32))
    assert len(found) == 2
    assert all(": lines 2–7: only " in fault and "all have ps = workers" in fault for fault in found)


def test_models_and_parameter_servers_must_agree(tmp_path: Path) -> None:
    """All-reduce has no parameter servers, the others need one in every row."""
    with_ps, without = put(tmp_path, GOOD), put(tmp_path, "workers,steps_per_s\n1,1\n2,1.5\n", "n.csv")
    assert (
        "line 2: ps: is 1; ring_allreduce has no" in faults(lambda: fit_speed(with_ps, "ring_allreduce"))[0]
    )
    assert "line 2: ps: is 0; ps_async has" in faults(lambda: fit_speed(without, "ps_async"))[0]


def test_the_batch_must_be_known(tmp_path: Path) -> None:
    """M is needed by ps_sync and ring_allreduce, and by the job where the measurements have several."""
    (line,) = faults(lambda: fit_speed(put(tmp_path, GOOD)))
    assert "has no column batch; ps_sync needs" in line
    assert "choose ps_async" in line
    assert fit_speed(put(tmp_path, GOOD), "ps_async").batch is None
    mixed = "workers,steps_per_s,batch\n1,1,32\n2,1.5,\n"
    assert "line 3: batch: is missing" in faults(lambda: fit_speed(put(tmp_path, mixed)))[0]
    several = "workers,steps_per_s,batch\n1,1,32\n2,1.5,64\n"
    assert "lines 2–3: batch: takes several values" in faults(lambda: fit_speed(put(tmp_path, several)))[0]


def test_absurd_figures_are_refused(tmp_path: Path) -> None:
    """Coefficients beyond any unit, too many rows and empty lists are faults, wrong options are errors."""
    text = "workers,steps_per_s\n100,1e-9\n200,2e-9\n400,4e-9\n"
    found = faults(lambda: fit_speed(put(tmp_path, text), batch=1e-6, allow_rank_deficient=True))
    assert "check the units" in found[0]
    long = "workers,steps_per_s\n" + "1,1\n" * (MAX_POINTS + 1)
    assert "10,001 rows; at most 10,000" in faults(lambda: fit_speed(put(tmp_path, long), batch=1))[0]
    assert "no measurements" in faults(lambda: fit_speed([], batch=1))[0]
    for wrong in ({"model": "magic"}, {"batch": float("nan")}, {"batch": -1}):
        with pytest.raises(OptionError):
            fit_speed(points("ps_async", [1, 1, 1, 1]), **wrong)  # type: ignore[arg-type]


def test_repeated_rows_that_differ_are_noise(tmp_path: Path) -> None:
    """Contradicting measurements of one configuration give a fit with a large error, not a fault."""
    fit = fit_speed(put(tmp_path, GOOD + "1,1,9\n1,1,0.2\n"), "ps_async")
    assert fit.points == 8
    assert fit.mape > 0.3


# Loss

STEPS_PER_EPOCH, DELTA, PATIENCE = 20.0, 0.002, 3


def losses(
    b: tuple[float, float, float], last: float, number: int, noise: float, seed: int, scale: float = 1.0
) -> list[LossPoint]:
    steps = np.linspace(0, last, number)
    clean = 1 / (b[0] * steps / 1000 + b[1]) + b[2]
    noisy = clean + noise * np.random.default_rng(seed).standard_normal(number)
    return [
        LossPoint(step=float(step), loss=max(0.0, float(scale * loss)))
        for step, loss in zip(steps, noisy, strict=True)
    ]


def true_end(b: tuple[float, float, float]) -> float:
    """Return the step of convergence epoch by epoch, as the rule is worded."""
    curve = [1 / (b[0] * STEPS_PER_EPOCH * e / 1000 + b[1]) + b[2] for e in range(2000)]
    largest = curve[0]
    for epoch in range(1999 - PATIENCE):
        falls = [curve[e] - curve[e + 1] for e in range(epoch, epoch + PATIENCE)]
        if all(fall < DELTA * largest for fall in falls):
            return (epoch + PATIENCE) * STEPS_PER_EPOCH
    raise AssertionError


RULE: dict[str, Any] = {"steps_per_epoch": STEPS_PER_EPOCH, "delta": DELTA, "patience": PATIENCE}


@pytest.mark.parametrize("b", [(5.0, 1.0, 0.2), (20.0, 1.0, 0.0), (2.0, 0.5, 0.7)])
def test_a_noiseless_curve_is_recovered(b: tuple[float, float, float]) -> None:
    """The coefficients come back, and the steps that are left are those of the rule, epoch by epoch."""
    fit = fit_loss(losses(b, 400, 30, 0.0, 0), **RULE)
    assert fit.coefficients == pytest.approx((b[0] / 1000, b[1], b[2]), rel=1e-5, abs=1e-6)
    assert fit.converged_step == true_end(b)
    assert fit.remaining_steps == true_end(b) - 400
    assert fit.mape < 1e-6


def test_the_unit_of_the_loss_does_not_matter() -> None:
    """A loss a thousand times as large converges at the same step: δ is a share of the loss."""
    small, large = (fit_loss(losses((5, 1, 0.2), 400, 40, 0.02, 1, scale), **RULE) for scale in (1, 1000))
    assert small.converged_step == large.converged_step
    assert small.interval == large.interval
    assert large.coefficients[2] == pytest.approx(1000 * small.coefficients[2], rel=1e-4)


@pytest.mark.parametrize(
    ("b", "number", "noise", "curves"),
    [
        ((5.0, 1.0, 0.2), 40, 0.03, 5),
        *(
            pytest.param(*given, 25, marks=pytest.mark.slow)
            for given in (
                ((5.0, 1.0, 0.2), 40, 0.03),
                ((5.0, 1.0, 0.0), 40, 0.03),
                ((20.0, 1.0, 0.1), 60, 0.02),
            )
        ),
    ],
)
def test_the_interval_covers_the_truth(
    b: tuple[float, float, float], number: int, noise: float, curves: int
) -> None:
    """Of noisy curves, measured halfway, the 90 % interval holds the true end of at least 72 %."""
    end = true_end(b)
    covered = 0
    for seed in range(curves):
        fit = fit_loss(losses(b, end / 2, number, noise, seed), **RULE)
        low, high = fit.interval
        covered += low <= end - fit.last_step <= high
    assert covered >= 0.72 * curves


def test_more_noise_widens_the_interval_and_a_seed_repeats_it() -> None:
    """The interval is reproducible and grows with the noise."""
    widths = []
    for noise in (0.005, 0.05):
        fit = fit_loss(losses((5, 1, 0.2), 500, 40, noise, 3), **RULE)
        assert fit.interval == fit_loss(losses((5, 1, 0.2), 500, 40, noise, 3), **RULE).interval
        widths.append(fit.interval[1] - fit.interval[0])
    assert widths[0] < widths[1]


def test_outliers_are_left_out() -> None:
    """A spike is found, named and does not change the answer; the steep first point is none."""
    clean = losses((20, 1, 0.1), 400, 40, 0.0, 0)
    spiked = [*clean[:20], clean[20].model_copy(update={"loss": 5.0}), *clean[21:]]
    fit = fit_loss(spiked, **RULE)
    assert [row.place for row in fit.rows if row.outlier] == ["points[20]"]
    assert any("1 of 40 points are outliers" in warning for warning in fit.warnings)
    assert fit.converged_step == fit_loss(clean, **RULE).converged_step


def test_a_convergence_far_beyond_the_measured_steps_is_said_to_be_an_extrapolation() -> None:
    fit = fit_loss(losses((5, 1, 0.2), 100, 30, 0.0, 0), **RULE)
    assert fit.converged_step > 3 * fit.last_step
    assert fit.warnings[0].endswith("it is an extrapolation.")


def test_a_converged_loss_has_no_steps_left() -> None:
    """Past its convergence a job has 0 steps left, and the report says when it had converged."""
    fit = fit_loss(losses((5, 1, 0.2), 3000, 60, 0.0, 0), **RULE)
    assert fit.remaining_steps == 0
    assert "has converged at step" in fit.warnings[0]


LOSS = "step,loss\n" + "".join(f"{100 * k},{1 / (0.5 * k + 1) + 0.1:.4f}\n" for k in range(12))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (LOSS + "1200,-0.1\n", "line 14: loss: is -0.1, but must be at least 0"),
        (LOSS + "1200,nan\n", "line 14: loss: is nan, which is not a finite number"),
        (LOSS + "-5,0.2\n", "line 14: step: is -5.0, but must be at least 0"),
        (LOSS + "x,0.2\n", "line 14: step: is 'x', which is not a number"),
        ("step,loss\n1,3\n2,2\n3,1.5\n", "lines 2–4: has losses at 3 different steps; at least 5"),
        ("step,loss\n" + "".join(f"{k},0.5\n" for k in range(9)), "lines 2–10: loss: is 0.5 in all 9 rows"),
        ("step,loss\n" + "".join(f"{k},{k}\n" for k in range(9)), "lines 2–10: loss: rises"),
        (
            "step,loss\n" + "".join(f"{k},{0.5 - 0.01 * (k % 2)}\n" for k in range(20)),
            "lines 2–21: loss: does not fall by more than it scatters",
        ),
        (LOSS.replace("00,", "e-9,"), "lines 2–13: the last step is 1.1e-08"),
        ("step\n1\n", "line 1: has no column loss"),
        ("step,loss\n0,0\n1,0\n2,0\n3,0\n4,0\n", "lines 2–6: loss: is 0 in all 5 rows"),
    ],
)
def test_a_bad_loss_is_named_by_its_line(tmp_path: Path, text: str, line: str) -> None:
    """Losses that are negative, no number, constant, rising or too few are refused, with their lines."""
    path = put(tmp_path, text)
    found = faults(lambda: fit_loss(path, **RULE))
    assert any(f"{path}: {line}" in fault for fault in found), found


@pytest.mark.parametrize(
    "over",
    [{"steps_per_epoch": 0}, {"delta": 0}, {"delta": 2}, {"patience": 0}, {"confidence": 1}],
)
def test_a_bad_rule_is_refused(over: dict[str, Any]) -> None:
    """Arguments out of range are errors of the options."""
    with pytest.raises(OptionError):
        fit_loss(losses((5, 1, 0.2), 400, 20, 0.0, 0), **{**RULE, **over})


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), min_size=1, max_size=25))
def test_any_losses_give_a_fit_or_a_fault(pairs: list[tuple[float, float]]) -> None:
    """No list of numbers ends in anything but a fit or a fault."""
    try:
        fit = fit_loss([LossPoint(step=step, loss=loss) for step, loss in pairs], **RULE)
    except ClusterplanError:
        return
    assert min(fit.coefficients) >= 0
    assert 0 <= fit.interval[0] <= fit.interval[1]


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 50), st.floats(1e-9, 1e9), st.floats(1e-6, 1e12)),
        min_size=1,
        max_size=12,
    ),
    st.booleans(),
)
def test_any_speeds_give_a_fit_or_a_fault(rows: list[tuple[int, int, float, float]], allowed: bool) -> None:
    """No list of numbers ends in anything but a fit or a fault."""
    measured = [SpeedPoint(ps=p, workers=w, steps_per_s=f, batch=m) for p, w, f, m in rows]
    try:
        fit = fit_speed(measured, batch=64, allow_rank_deficient=allowed)
    except ClusterplanError:
        return
    assert min(fit.theta) >= 0
    assert allowed or fit.rank == fit.coefficients
    fit.speed()


# The command line


def test_fit_speed_prints_what_can_be_pasted(run: Command, tmp_path: Path) -> None:
    """The table shows every row, all candidates, and a last line that is the speed of a variant."""
    put(tmp_path, GOOD)
    code, out, err = run("fit", "speed", "m.csv", "--batch", 64)
    assert (code, err) == (0, "")
    for words in (
        "line 7",
        "leave-one-out",
        "5 of 5",
        "4 of 4",
        "1–4 parameter servers, 1–5 workers",
    ):
        assert words in out
    speed = yaml.safe_load(out.splitlines()[-1])["speed"]
    data = json.loads(json.dumps(ALLOCATION))
    data["jobs"][0]["variants"][0]["speed"] = speed
    if speed["model"] == "ps_async":
        assert "batch" not in speed
    parse_instance(data)


def test_fit_speed_as_json_is_one_object(run: Command, tmp_path: Path) -> None:
    """JSON carries the whole report."""
    put(tmp_path, GOOD)
    code, out, _ = run("fit", "speed", "m.csv", "--model", "ps_sync", "--batch", 64, "--format", "json")
    data = json.loads(out)
    assert code == 0
    assert data["model"] == "ps_sync"
    assert len(data["theta"]) == data["rank"] == 5
    assert len(data["rows"]) == 6


def test_fit_speed_refuses_and_allows_a_poor_design(run: Command, tmp_path: Path) -> None:
    """Exit code 3 and one line a fault by default; a warning where it is allowed."""
    put(tmp_path, "ps,workers,steps_per_s\n1,1,1\n2,2,1.8\n4,4,3\n")
    code, out, err = run("fit", "speed", "m.csv", "--model", "ps_sync", "--batch", 64)
    assert (code, out) == (3, "")
    assert err.startswith("m.csv: lines 2–4: only 3 of the 5 coefficients")
    assert len(err.splitlines()) == 1
    code, out, _ = run("fit", "speed", "m.csv", "--model", "ps_sync", "--batch", 64, "--allow-rank-deficient")
    assert code == 0
    assert "warning: Only 3 of the 5" in out
    assert "3 of 5" in out


def test_fit_loss_prints_the_remaining_steps(run: Command, tmp_path: Path) -> None:
    """The curve, the rule, the interval with its level and method, and a line that can be pasted."""
    put(tmp_path, LOSS)
    code, out, _ = run("fit", "loss", "m.csv", "--steps-per-epoch", 200, "--delta", 0.02)
    assert code == 0
    assert "90 % interval" in out
    assert "residual bootstrap" in out
    assert yaml.safe_load(out.splitlines()[-1])["remaining_steps"] > 0
    code, out, _ = run("fit", "loss", "m.csv", "--steps-per-epoch", 200, "--format", "json")
    assert json.loads(out)["confidence"] == 0.9


def test_fit_errors_have_the_usual_exit_codes(run: Command, tmp_path: Path) -> None:
    """A missing file is a bad input, a wrong option wrong usage."""
    put(tmp_path, LOSS)
    assert run("fit", "speed", "none.csv")[0] == 3
    assert run("fit", "loss", "m.csv", "--steps-per-epoch", -1)[0] == 2
    assert run("fit", "loss", "m.csv")[0] == 2
    assert run("fit", "speed", "m.csv", "--model", "magic")[0] == 2


def test_bundled_measurements_are_called_example(run: Command) -> None:
    """The synthetic measurements that come with the package are found by name; another name lists them."""
    assert fit_speed("example:synthetic-speed.csv").model == "ps_sync"
    assert fit_loss("example:synthetic-loss.csv", 1000).remaining_steps > 0
    code, _, err = run("fit", "speed", "example:nope.csv")
    assert code == 3
    assert "synthetic-loss.csv, synthetic-speed.csv" in err


# Documents


def measured_document(folder: Path, **over: Any) -> dict[str, Any]:
    """Return a document whose first job has measurements, which it puts into the folder."""
    put(folder, GOOD, "speed.csv")
    put(folder, LOSS, "loss.csv")
    data: dict[str, Any] = json.loads(json.dumps(ALLOCATION))
    job = data["jobs"][0]
    del job["remaining_steps"]
    job["loss"] = {"measurements": "loss.csv", "steps_per_epoch": 200, "delta": 0.02, "patience": 2}
    job["variants"][0]["speed"] = {"model": "auto", "batch": 64, "measurements": "speed.csv", **over}
    return data


def test_measurements_are_fields_of_a_job(tmp_path: Path) -> None:
    """The loaded instance has plain figures, those of the fits, and says where they are from."""
    path = put(tmp_path, yaml.safe_dump(measured_document(tmp_path)), "d.yaml")
    instance = load(path)
    assert isinstance(instance, AllocationInstance)
    job = instance.jobs[0]
    fit = fit_speed(tmp_path / "speed.csv", batch=64)
    assert job.variants[0].speed == fit.speed()
    loss = fit_loss(tmp_path / "loss.csv", steps_per_epoch=200, delta=0.02, patience=2)
    assert job.remaining_steps == loss.remaining_steps > 0
    speed_note, loss_note = instance.assumptions
    assert speed_note.startswith("Job 'j', variant 'v': speed (ps_")
    assert f"fitted to speed.csv, 6 points with {fit.range.words()}, MAPE" in speed_note
    assert loss_note.startswith("Job 'j': remaining steps by loss.csv, 12 points")
    assert "90 % interval" in loss_note
    again = parse_instance(yaml.safe_load(to_text(instance)))
    assert again.sha256() == instance.sha256()
    assert "measurements" not in to_text(instance)


def test_jobs_in_a_table_may_have_measurements(tmp_path: Path) -> None:
    """Cells of a jobs table name measurements too; paths start at the document."""
    put(tmp_path, GOOD, "speed.csv")
    columns = (
        "name,remaining_steps,variants.0.name,variants.0.worker_demand.gpu,variants.0.ps_demand.cpu,"
        "variants.0.workers.max,variants.0.ps.max,variants.0.speed.model,variants.0.speed.measurements"
    )
    put(
        tmp_path,
        f"{columns}\na,10,v,1,1,4,4,ps_async,speed.csv\nb,10,v,1,1,4,4,ps_async,speed.csv\n",
        "j.csv",
    )
    data = {**ALLOCATION, "jobs": "j.csv"}
    instance = parse_instance(data, folder=tmp_path)
    assert isinstance(instance, AllocationInstance)
    assert {job.variants[0].speed.model for job in instance.jobs} == {"ps_async"}
    assert len(instance.assumptions) == 2


def test_ranges_beyond_the_measured_are_said(tmp_path: Path) -> None:
    """A variant that may use more workers than were measured is noted as extrapolating."""
    data = measured_document(tmp_path)
    data["jobs"][0]["variants"][0]["workers"] = {"min": 1, "max": 50}
    assert "goes beyond what was measured" in parse_instance(data, folder=tmp_path).assumptions[0]


def test_a_step_that_takes_no_time_is_refused(tmp_path: Path) -> None:
    """Pure communication, measured from 2 workers on, says nothing of 1 worker: infinite speed is a fault."""
    data = measured_document(tmp_path, model="ring_allreduce")
    variant = data["jobs"][0]["variants"][0]
    del variant["ps"], variant["ps_demand"]
    rows = [f"{w},{m},{1 / (0.5 * (w - 1) / w + 0.1 * (w - 1))!r}" for w in (2, 3, 4, 6) for m in (32, 96)]
    put(tmp_path, "workers,batch,steps_per_s\n" + "\n".join(rows), "speed.csv")
    (line,) = faults(lambda: parse_instance(data, "d.yaml", tmp_path))
    assert line.startswith("d.yaml: jobs[0].variants[0].speed: takes no time with 1 worker")
    variant["workers"]["min"] = 2
    assert "With 1 worker" in parse_instance(data, "d.yaml", tmp_path).assumptions[0]


def test_faults_of_measurements_carry_both_places(tmp_path: Path) -> None:
    """A fault names the document, the path in it, the file and its line; all faults come at once."""
    data = measured_document(tmp_path)
    put(tmp_path, GOOD + "1,1,-3\n", "speed.csv")
    put(tmp_path, LOSS + "9,nan\n", "loss.csv")
    first, second = faults(lambda: parse_instance(data, "d.yaml", tmp_path))
    assert first.startswith("d.yaml: jobs[0].variants[0].speed: speed.csv: line 8: steps_per_s: is -3")
    assert second.startswith("d.yaml: jobs[0].loss: loss.csv: line 14: loss: is nan")


SPEED_FIELD = "d.yaml: jobs[0].variants[0].speed"


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ({"theta": [1, 1, 1, 1]}, f"{SPEED_FIELD}: has both theta and measurements"),
        ({"batches": 4}, f"{SPEED_FIELD}.batches: unknown key; did you mean 'batch'?"),
        ({"batch": -4}, f"{SPEED_FIELD}.batch: is -4"),
        ({"batch": 1e-9}, f"{SPEED_FIELD}: batch 1e-09: must lie between"),
        ({"model": "table"}, f"{SPEED_FIELD}.model: is 'table'; allowed: 'auto'"),
        ({"measurements": 5}, f"{SPEED_FIELD}.measurements: "),
        ({"measurements": "none.csv"}, f"{SPEED_FIELD}: none.csv: there is no such file"),
        ({"model": "ring_allreduce"}, f"{SPEED_FIELD}: speed.csv: line 2: ps: is 1"),
    ],
)
def test_wrong_fields_beside_measurements(tmp_path: Path, over: dict[str, Any], words: str) -> None:
    """Each wrong field gets a fault at its path."""
    found = faults(lambda: parse_instance(measured_document(tmp_path, **over), "d.yaml", tmp_path))
    assert found[0].startswith(words), found


def test_wrong_losses_of_a_job(tmp_path: Path) -> None:
    """Both figures, neither, or a job that has converged are faults of the document."""
    data = measured_document(tmp_path)
    job = data["jobs"][0]
    job["remaining_steps"] = 5
    (line,) = faults(lambda: parse_instance(data, "d.yaml", tmp_path))
    assert line == "d.yaml: jobs[0].loss: stands beside remaining_steps; give one of them"
    del job["remaining_steps"]
    job["loss"]["delta"] = 0.9
    (line,) = faults(lambda: parse_instance(data, "d.yaml", tmp_path))
    assert line.startswith("d.yaml: jobs[0].loss: has converged at step 400; leave the job out")
    job["loss"] = "loss.csv"
    (line,) = faults(lambda: parse_instance(data, "d.yaml", tmp_path))
    assert line.startswith("d.yaml: jobs[0].loss: is 'loss.csv', which is not a mapping")
    del job["loss"]
    (line,) = faults(lambda: parse_instance(data, "d.yaml", tmp_path))
    assert line.startswith("d.yaml: jobs[0].remaining_steps: is missing")


def test_a_poor_design_may_be_allowed_in_a_document(tmp_path: Path) -> None:
    """The warning of a design that was allowed stands in the assumptions."""
    data = measured_document(tmp_path, model="ps_sync")
    put(tmp_path, "ps,workers,steps_per_s\n1,1,1\n2,2,1.8\n4,4,3\n", "speed.csv")
    assert "only 3 of the 5" in faults(lambda: parse_instance(data, "d.yaml", tmp_path))[0]
    data["jobs"][0]["variants"][0]["speed"]["allow_rank_deficient"] = True
    assert "Only 3 of the 5" in parse_instance(data, "d.yaml", tmp_path).assumptions[0]


def test_json_schema_knows_measurements(tmp_path: Path) -> None:
    """The schema accepts measurements in place of figures, and refuses what the reader refuses."""
    data = measured_document(tmp_path)
    assert accepted("allocation", data) == []
    wrong = json.loads(json.dumps(data))
    wrong["jobs"][0]["variants"][0]["speed"]["model"] = "table"
    assert accepted("allocation", wrong)
    del data["jobs"][0]["loss"]
    assert accepted("allocation", data)
