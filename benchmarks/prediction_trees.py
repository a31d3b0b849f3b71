"""Boosted trees beside the Gaussian process, both correcting what the formula leaves over.

Needs the published measurements (CLUSTERPLAN_DATA, or ../shared/data) and scikit-learn, which nothing else of
the project needs: that is the question which this answers. Writes benchmarks/results/prediction-trees.md.

Protocol. vTrain's steps in five random folds; NeuSight's training shapes of each GPU, so many of a family
drawn at random for the fit and up to 1,000 others predicted. Errors are mean absolute ones, the median over
GPUs. Of trees there are 300 of depth 4, with learning rate 0.05 and a share of 0.8 of the rows for each
(Friedman 2002); 600 for steps.
"""

from __future__ import annotations

import sys

import numpy as np
from prediction import Row, rows
from prediction_steps import fit_formula, fit_steps, mape, vtrain
from report import protocol, write_lines
from runner import data_folder

from clusterplan.instances.prediction.hardware import gpu_named
from clusterplan.instances.prediction.operator_times import (
    FAMILIES,
    FAMILY,
    PLATFORM,
    fitted,
    logarithms,
    parts,
)

SIZES, HELD = (20, 100, 400), 1000
Errors = dict[str, float]


def _trees(number: int, features: np.ndarray, rest: np.ndarray) -> object:
    from sklearn.ensemble import GradientBoostingRegressor

    trees = GradientBoostingRegressor(
        n_estimators=number, max_depth=4, learning_rate=0.05, subsample=0.8, random_state=0
    )
    return trees.fit(features, rest)


def steps() -> Errors:
    """Return the errors of vTrain's steps."""
    runs, seconds = vtrain("ground_truth_single.csv")
    folds = np.random.default_rng(0).permutation(len(seconds)) % 5
    found = {name: np.zeros(len(seconds)) for name in ("formula", "process", "trees")}
    for fold in range(5):
        held = folds == fold
        known, new = runs.only(~held), runs.only(held)
        formula = fit_formula(known, seconds[~held])
        trees = _trees(600, known.features(), np.log(seconds[~held] / formula.seconds(known)))
        found["formula"][held] = formula.seconds(new)
        found["process"][held] = fit_steps(known, seconds[~held]).seconds(new)
        found["trees"][held] = formula.seconds(new) * np.exp(trees.predict(new.features()))
    return {name: mape(predicted, seconds) for name, predicted in found.items()}


def operators(all_rows: list[Row], family: str, size: int) -> Errors:
    """Return the errors of a family, of which so many shapes are measured on each GPU."""
    errors = []
    for name in sorted({row.gpu for row in all_rows}):
        own = [r.measurement for r in all_rows if r.gpu == name and not r.larger]
        own = [m for m in own if FAMILY[m.operator.kind] == family]
        if len(own) >= 2 * size:
            drawn = np.random.default_rng(0).permutation(len(own))
            known, new = ([own[i] for i in part] for part in (drawn[:size], drawn[size : size + HELD]))
            errors.append(_operators_of(name, family, known, new))
    return {what: float(np.median([one[what] for one in errors])) for what in errors[0]}


def _operators_of(name: str, family: str, known: list, new: list) -> Errors:
    gpu = gpu_named(name)
    fit = fitted(gpu, known, PLATFORM)[family]
    at, other = (np.array([logarithms(m.operator) for m in part]) for part in (known, new))
    base, plain = (parts([m.operator for m in part], gpu) @ fit.theta for part in (known, new))
    taken, seconds = (np.array([m.seconds for m in part]) for part in (known, new))
    trees = _trees(300, at, np.log(taken / base))
    return {
        "formula": mape(plain, seconds),
        "process": mape(plain * np.exp(fit.correction(other)), seconds),
        "trees": mape(plain * np.exp(trees.predict(other)), seconds),
    }


def main() -> None:
    """Compare, print and store."""
    folder = data_folder("neusight")
    if folder is None:
        sys.exit("no published data: set CLUSTERPLAN_DATA, or put it in ../shared/data")
    try:
        import sklearn  # noqa: F401  # only whether it is there
    except ImportError:
        print("skipped: pip install scikit-learn")
        return
    all_rows = rows(folder)
    found = {"vTrain's steps, five folds": steps()}
    for family in FAMILIES:
        for size in SIZES:
            found[f"{family}, {size} measured"] = operators(all_rows, family, size)
    lines = ["| of | formula alone | Gaussian process | boosted trees |", "|---|---:|---:|---:|"]
    for what, errors in found.items():
        digits = 2 if what.startswith("vTrain") else 1
        cells = [f"{errors[name]:.{digits}f} %" for name in ("formula", "process", "trees")]
        lines.append(f"| {what} | {' | '.join(cells)} |")
    title = "Boosted trees beside the Gaussian process"
    write_lines("prediction-trees", title, protocol(__doc__), lines)


if __name__ == "__main__":
    main()
