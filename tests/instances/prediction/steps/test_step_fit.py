"""Whole steps: coefficients found again, and vTrain's measured iterations held out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from clusterplan.instances.common.arrays import Floats
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.prediction.steps.megatron import COEFFICIENTS, step_seconds
from clusterplan.instances.prediction.steps.runs import Runs
from clusterplan.instances.prediction.steps.step_fit import fit_steps

COLUMNS = {
    **{"global batch": "batch", "micro batch": "microbatch", "hidden size": "hidden", "# layers": "layers"},
    **{"attention heads": "heads", "sequence length": "sequence", "tensor parallelism": "tensor"},
    **{"data parallelism": "data", "pipeline parallelism": "pipeline"},
}


def _measured(folder: Path, name: str) -> tuple[Runs, Floats]:
    table = pd.read_csv(folder / "vtrain" / name, encoding="utf-8-sig").rename(columns=COLUMNS)
    rows = table[list(COLUMNS.values())].to_dict("records")
    return Runs.of(rows), table["iteration time (ms)"].to_numpy() / 1e3


def _mape(predicted: Floats, measured: Floats) -> float:
    return float(np.abs(predicted / measured - 1).mean())


def test_steps_that_the_formula_made_are_fitted() -> None:
    rows = [
        {"batch": 64, "microbatch": b, "hidden": h, "heads": 16, "layers": 24, "sequence": 1024}
        | {"tensor": t, "data": d, "pipeline": p}
        for b in (1, 4)
        for h in (1024, 4096)
        for t in (1, 2)
        for d in (1, 4)
        for p in (1, 2)
    ]
    runs = Runs.of(rows)
    values = {name: 1.1 * one.value for name, one in COEFFICIENTS.items()}
    seconds = step_seconds(values, runs)
    fit = fit_steps(runs, seconds)
    assert fit.correction is None
    assert _mape(fit.seconds(runs), seconds) < 0.03
    assert _mape(fit.scaled_to(runs, 2 * seconds).seconds(runs), 2 * seconds) < 0.03
    assert fit.inside(runs).all()
    assert not fit.inside(Runs.of([rows[0] | {"hidden": 512}])).any()


def test_measurements_that_cannot_be() -> None:
    with pytest.raises(OptionError, match="one or more"):
        fit_steps(Runs.of([]), np.array([]))


@pytest.mark.slow
def test_five_folds_of_one_server(shared_data: Path) -> None:
    runs, seconds = _measured(shared_data, "ground_truth_single.csv")
    folds = np.random.default_rng(0).permutation(len(seconds)) % 5
    predicted = np.zeros(len(seconds))
    for fold in range(5):
        held = folds == fold
        predicted[held] = fit_steps(runs.only(~held), seconds[~held]).seconds(runs.only(held))
    assert _mape(predicted, seconds) <= 0.03


@pytest.mark.slow
def test_a_hidden_size_that_was_left_out(shared_data: Path) -> None:
    runs, seconds = _measured(shared_data, "ground_truth_single.csv")
    errors = []
    for hidden in (1024, 2048):
        held = runs.hidden == hidden
        fit = fit_steps(runs.only(~held), seconds[~held])
        assert not fit.inside(runs.only(held)).any()
        errors.append(_mape(fit.seconds(runs.only(held)), seconds[held]))
    assert np.mean(errors) <= 0.12


@pytest.mark.slow
def test_several_servers_from_one_and_ten_runs(shared_data: Path) -> None:
    fit = fit_steps(*_measured(shared_data, "ground_truth_single.csv"))
    runs, seconds = _measured(shared_data, "ground_truth_multi_half.csv")
    errors = []
    for seed in range(20):
        chosen = np.random.default_rng(seed).permutation(len(seconds)) < 10
        scaled = fit.scaled_to(runs.only(chosen), seconds[chosen])
        errors.append(_mape(scaled.seconds(runs.only(~chosen)), seconds[~chosen]))
    assert np.mean(errors) <= 0.12
