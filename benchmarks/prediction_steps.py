"""Links, whole steps and epochs predicted, each measurement from others; beside published errors.

Needs the published measurements (vTrain, Pollux, Zeus): CLUSTERPLAN_DATA, or ../shared/data. Writes
benchmarks/results/prediction-steps.json and .md.

Protocol. Priors of coefficients are those of `COEFFICIENTS`, and the length of the correction is the most
likely one of the training runs; neither is fitted to what is held out. The form of the formula was chosen
with all runs of one server in view; its terms of the network before any run of several was predicted. Folds
are random with seed 0; ten runs of several servers are drawn 100 times, with seeds 0 to 99. What lies in
the interval is the mean over placements or batch sizes that are left out, each of which counts as much.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
from report import protocol, write_lines
from runner import DATA, RESULTS, Row

from clusterplan.instances.prediction.calibration import Estimate
from clusterplan.instances.prediction.communication import SyncTime, fit_links
from clusterplan.instances.prediction.epochs import EpochRecord, leave_one_out, predict_epochs
from clusterplan.instances.prediction.step_times import Runs, StepIntervals, fit_with_intervals, step_seconds

COLUMNS = {
    **{"global batch": "batch", "micro batch": "microbatch", "hidden size": "hidden", "# layers": "layers"},
    **{"attention heads": "heads", "sequence length": "sequence", "tensor parallelism": "tensor"},
    **{"data parallelism": "data", "pipeline parallelism": "pipeline"},
}
TARGETS = {"imagenet": 0.60, "librispeech": 45.0, "sentiment140": 0.852, "squad": 84.5}
"""The deepest target that half of the trainings meet at every batch size."""


def mape(predicted: np.ndarray, measured: np.ndarray) -> float:
    """Return the mean absolute relative error in percent."""
    return float(100 * np.abs(predicted / measured - 1).mean())


def vtrain(name: str) -> tuple[Runs, np.ndarray]:
    """Return runs and their seconds."""
    table = pd.read_csv(DATA / "vtrain" / name, encoding="utf-8-sig").rename(columns=COLUMNS)
    rows = table[list(COLUMNS.values())].to_dict("records")
    return Runs.of(rows), table["iteration time (ms)"].to_numpy() / 1e3


def steps() -> list[Row]:
    """Return the errors of whole steps."""
    runs, seconds = vtrain("ground_truth_single.csv")
    folds = np.random.default_rng(0).permutation(len(seconds)) % 5
    corrected, plain = np.zeros(len(seconds)), np.zeros(len(seconds))
    covered = np.zeros(len(seconds), dtype=bool)
    for fold in range(5):
        held = folds == fold
        fit = fit_with_intervals(runs.only(~held), seconds[~held])
        estimates = fit.predict(runs.only(held))
        corrected[held], covered[held] = seconds_of(estimates), inside(estimates, seconds[held])
        plain[held] = step_seconds(fit.fit.values, runs.only(held))
    beside = "vTrain 8.37 %"
    found: list[Row] = [
        row("whole steps, 5 folds", mape(corrected, seconds), len(seconds), beside, covered.mean()),
        row("whole steps, 5 folds, formula alone", mape(plain, seconds), len(seconds), beside),
    ]
    for hidden in (1024, 2048):
        held = runs.hidden == hidden
        estimates = fit_with_intervals(runs.only(~held), seconds[~held]).predict(runs.only(held))
        found.append(
            row(
                f"hidden size {hidden} left out",
                mape(seconds_of(estimates), seconds[held]),
                int(held.sum()),
                "",
                inside(estimates, seconds[held]).mean(),
            )
        )
    return [*found, *several_servers(fit_with_intervals(runs, seconds))]


def several_servers(fit: StepIntervals) -> list[Row]:
    """Return the errors on several servers of a model that was fitted on one."""
    several, measured = vtrain("ground_truth_multi_half.csv")
    beside = "vTrain 14.73 %"
    blind = fit.predict(several)
    errors, shares = [], []
    for seed in range(100):
        chosen = np.random.default_rng(seed).permutation(len(measured)) < 10
        estimates = fit.scaled_to(several.only(chosen), measured[chosen]).predict(several.only(~chosen))
        errors.append(mape(seconds_of(estimates), measured[~chosen]))
        shares.append(inside(estimates, measured[~chosen]).mean())
    share = inside(blind, measured).mean()
    return [
        row("several servers, untouched", mape(seconds_of(blind), measured), 55, beside, share),
        row("several servers, ten runs", float(np.mean(errors)), 45, beside, np.mean(shares)),
    ]


def seconds_of(estimates: list[Estimate]) -> np.ndarray:
    """Return the predicted seconds."""
    return np.array([estimate.seconds for estimate in estimates])


def inside(estimates: list[Estimate], measured: np.ndarray) -> np.ndarray:
    """Return which measurements lie inside their intervals."""
    return np.array([e.low <= m <= e.high for e, m in zip(estimates, measured, strict=True)])


def links() -> list[Row]:
    """Return the errors of all-reduces on placements that were left out."""
    found = []
    for name in ("bert", "cifar10", "deepspeech2", "imagenet"):
        table = pd.read_csv(DATA / "pollux" / name / "placements.csv", dtype={"placement": str})
        means = table.groupby("placement")["sync_time"].mean()
        points = [SyncTime(sum(map(int, place)), len(place), float(s)) for place, s in means.items()]
        fit = fit_links(points, 1e8)
        shares = []
        for place in {(point.devices, point.servers) for point in points if point.devices > 1}:
            held = [point for point in points if (point.devices, point.servers) == place]
            others = fit_links([point for point in points if point not in held], 1e8)
            if (others.inside_ends if place[1] == 1 else others.network_ends) is not None:
                estimate = others.estimate(*place, 1e8)
                inside_it = [estimate.low <= point.seconds <= estimate.high for point in held]
                shares.append(np.mean(inside_it))
        error = 100 * (fit.leave_one_out or 0.0)
        found.append(row(f"all-reduce of {name}, a size left out", error, fit.points, "", np.mean(shares)))
    return found


def epochs() -> list[Row]:
    """Return the errors of epochs with each batch size left out, beside the best constant."""
    table, found = pd.read_csv(DATA / "zeus" / "summary_train.csv.gz"), []
    for name, target in TARGETS.items():
        own = table[(table.dataset == name) & (table.target_metric == target)]
        means = own.groupby("batch_size").target_epoch.mean()
        sizes, values = means.index.to_numpy(dtype=float), means.to_numpy()
        error = float(100 * np.abs(leave_one_out(sizes, values)).mean())
        others = [np.delete(values, index) for index in range(len(values))]
        constant = [(1 / o).sum() / (1 / o**2).sum() for o in others]
        beside = f"a constant {mape(np.array(constant), values):.1f} %"
        what = f"epochs of {name} to {target:g}, a batch size left out"
        found.append(row(what, error, len(sizes), beside, epochs_covered(own)))
    return found


def epochs_covered(own: pd.DataFrame) -> float:
    """Return the share of trainings whose epochs lie in other sizes' interval; the mean over batch sizes."""
    met = own.dropna(subset=["target_epoch"])
    shares = []
    for size in sorted(met.batch_size.unique()):
        others = met[met.batch_size != size]
        records = [
            EpochRecord(batch, epochs)
            for batch, epochs in zip(others.batch_size, others.target_epoch, strict=True)
        ]
        estimate = predict_epochs(records, float(size))
        own_epochs = met[met.batch_size == size].target_epoch
        shares.append(np.mean([estimate.low <= value <= estimate.high for value in own_epochs]))
    return float(np.mean(shares))


def row(what: str, error: float, points: int, beside: str = "", covered: float | None = None) -> Row:
    """Return a row of the table."""
    share = None if covered is None else round(100 * float(covered), 1)
    return {
        "what": what,
        "error_percent": round(error, 2),
        "points": points,
        "covered_percent": share,
        "beside": beside,
    }


def main() -> None:
    """Predict, print and store."""
    if not DATA.is_dir():
        print("skipped: there are no published measurements; set CLUSTERPLAN_DATA")
        return
    rows = [*steps(), *links(), *epochs()]
    stored = json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
    (RESULTS / "prediction-steps.json").write_text(stored, encoding="utf-8")
    write_lines(
        "prediction-steps", "Links, whole steps and epochs, predicted", protocol(__doc__), report(rows)
    )


def report(rows: list[Row]) -> list[str]:
    """Return the lines of the table."""
    lines = ["| held out | mean absolute error | measurements | in 90 % interval | beside |"]
    lines += ["|---|---:|---:|---:|---|"]
    for r in rows:
        covered = "" if r["covered_percent"] is None else f"{r['covered_percent']} %"
        lines.append(f"| {r['what']} | {r['error_percent']} % | {r['points']} | {covered} | {r['beside']} |")
    return lines


if __name__ == "__main__":
    main()
