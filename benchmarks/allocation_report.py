"""The plot and the tables of the allocation benchmark, from its CSV files."""

from __future__ import annotations

import math
import platform
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from common import AT_DEFAULT
from knapsacks import NEAR_SHARE

mpl.use("Agg")
import matplotlib.pyplot as plt

SHOWN = 3
"""Resources of the instances in the plot."""
STYLE = {
    "exact": ("#0b6e4f", "o"),
    "lagrangian": ("#4c9f70", "s"),
    "marginal-gain": ("#c1440e", "^"),
    "marginal-gain-joint": ("#e9a15b", "v"),
    "geometric": ("#6a4c93", "D"),
    "milp:highs": ("#1f4e79", "P"),
    "milp:cbc": ("#5b8db8", "X"),
    "cp-sat": ("#7f7f7f", "*"),
    "minlp": ("#b5838d", "h"),
}
KNAPSACK_RUNS = ("exact 60 s", "milp:highs 60 s", "milp:highs 600 s")
LEAST_GAP = 1e-10
"""Where a gap of 0 is drawn."""


def write_report(folder: Path) -> None:
    """Write `allocation.png` and `allocation.md`."""
    sweep = pd.read_csv(folder / "allocation.csv")
    plot(sweep[sweep["resources"] == SHOWN], folder / "allocation.png")
    tight = pd.read_csv(folder / "allocation-tight.csv")
    paper = pd.read_csv(folder / "allocation-paper.csv")
    parts = [
        "# Allocation: measured results",
        f"On {platform.machine()} with 2 cores; each table is one run, each row a process of its own. "
        "Synthetic instances. Times are whole library calls: build, solve, verification of the plan and "
        "check of the certificate. `marginal-gain` has no bound but the elementary one, so its own gap is "
        "large; how far its plan really is from the optimum stands in the first table. The machine was not "
        "otherwise idle.",
        "![Seconds and gaps against the number of jobs](allocation.png)",
        "## Exact beside marginal gain, in the same run",
        table(beside(sweep)),
        *at_the_defaults(folder, "allocation", "small-allocation"),
        "## Tight capacities: 200 jobs, every resource binds, at most two units to spare",
        table(tight_summary(tight)),
        "## The paper's case: 100,000 tasks to 4,000 jobs",
        table(paper[["method", "tasks", "status", "objective", "certified_gap", "total_s"]]),
        "## All methods",
        table(
            sweep[["jobs", "resources", "method", "status", "gap", "certified_gap", "total_s", "peak_gib"]]
        ),
    ]
    knapsacks = folder / "allocation-knapsack.csv"
    if knapsacks.exists():
        runs = knapsack_runs(pd.read_csv(knapsacks))
        parts[-2:-2] = [
            "## Knapsacks of ten resources",
            "Drawn as Khan's correlated instances: ten items a job, the seed is in the table. Every run has "
            "one thread on a machine that was shared: `processor s` is what `exact` got of its minute, then "
            "what `milp:highs` got. Gaps and distances are shares of the knapsack's value. `milp:highs` had "
            "ten minutes where a figure stands; elsewhere the certified gap says how far any plan can be.",
            table(knapsack_summary(runs)),
            table(runs.assign(**{name: runs[name].map(amount) for name in (*KNAPSACK_RUNS, "bound")})),
        ]
    khans = folder / "allocation-khan.csv"
    if khans.exists():
        parts[-2:-2] = [
            "## Khan's own instances",
            "`exact` in a minute on one thread, beside the largest values in the stored results of a "
            "matheuristic with CPLEX (github.com/marcocaserta/mmkp, 51dbd8a), which took five to twelve. "
            "The machine was shared: `processor s` is what `exact` got.",
            table(khan_summary(pd.read_csv(khans))),
        ]
    (folder / "allocation.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def beside(sweep: pd.DataFrame) -> pd.DataFrame:
    """Return the figures of exact and marginal gain in one row for each size."""
    keys = ["jobs", "resources"]
    exact = sweep[sweep["method"] == "exact"].set_index(keys)
    gain = sweep[sweep["method"] == "marginal-gain"].set_index(keys)
    return pd.DataFrame(
        {
            "exact_s": exact["total_s"],
            "marginal_gain_s": gain["total_s"],
            "ratio": exact["total_s"] / gain["total_s"],
            "exact_certified_gap": exact["certified_gap"],
            "marginal_gain_above_exact": gain["objective"] / exact["objective"] - 1,
            "exact_peak_gib": exact["peak_gib"],
            **{f"exact_{name}": exact[name] for name in AT_DEFAULT if name in exact},
        }
    ).reset_index()


def tight_summary(tight: pd.DataFrame) -> pd.DataFrame:
    """Return how many tight instances were proven and certified, and how long it took."""
    return pd.DataFrame(
        [
            {
                "resources": resources,
                "instances": len(rows),
                "proven to 1e-6": int((rows["status"] == "optimal").sum()),
                "certified to 1e-6": int((rows["certified_gap"] <= 1e-6).sum()),
                "verified": int(rows["verified"].astype(bool).sum()),
                "median_s": rows["total_s"].median(),
                "longest_s": rows["total_s"].max(),
                "longest_verify_s": rows["verify_s"].max(),
            }
            for resources, rows in tight.groupby("resources")
        ]
    )


def knapsack_runs(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each knapsack that `exact` and `milp:highs` had a minute for, with their values.

    `bound` is the certified one of `exact`: no plan is worth more. `milp:highs` in ten minutes is there where
    it was run.
    """
    runs = rows.assign(run=rows["method"] + " " + rows["limit_s"].map("{:.0f} s".format))
    keys = ["jobs", "seed"]
    by_run = runs.set_index([*keys, "run"])[["value", "processor_s"]].unstack("run")
    values = by_run["value"].reindex(columns=list(KNAPSACK_RUNS)).dropna(subset=list(KNAPSACK_RUNS[:2]))
    processor_s = by_run["processor_s"].loc[values.index]
    exact = rows[rows["method"] == "exact"].set_index(keys).loc[values.index]
    gap = exact["certified_gap_of_value"]
    return values.assign(
        bound=exact["value"] * (1 + gap),
        certified_gap=gap,
        total_s=exact["total_s"],
        processor_s=processor_s["exact 60 s"],
        processor_s_of_milp=processor_s["milp:highs 60 s"],
    ).reset_index()


def knapsack_summary(runs: pd.DataFrame) -> pd.DataFrame:
    """Return how `exact` in a minute stands beside `milp:highs`, for each size.

    A certified gap up to `NEAR_SHARE` says that it is as near to every plan, so to that of ten minutes too.
    """
    exact, shorter, longer = (runs[name] for name in KNAPSACK_RUNS)
    above = pd.DataFrame({"shorter": (exact - shorter) / exact, "longer": (exact - longer) / exact})
    near = (runs["certified_gap"] <= NEAR_SHARE) | (above["longer"] >= -NEAR_SHARE)
    share = f"{100 * NEAR_SHARE:g} %"
    return pd.DataFrame(
        [
            {
                "jobs": jobs,
                "instances": len(own),
                "no worse than milp:highs in 60 s": int((above["shorter"][own] >= 0).sum()),
                f"certified within {share} of any plan": int(
                    (runs["certified_gap"][own] <= NEAR_SHARE).sum()
                ),
                f"or within {share} of milp:highs in 600 s": int(near[own].sum()),
                "least above 60 s": above["shorter"][own].min(),
                "least above 600 s": above["longer"][own].min(),
                "largest certified gap": runs["certified_gap"][own].max(),
                "longest_s": runs["total_s"][own].max(),
            }
            for jobs, own in runs.groupby("jobs").groups.items()
        ]
    )


def figure(value: Any) -> str:
    """Return a cell."""
    if isinstance(value, float):
        if math.isnan(value):
            return "–"
        return f"{value:,.0f}" if abs(value) >= 1e6 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def khan_summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the value and bound of each of Khan's instances, beside what others found."""
    return pd.DataFrame(
        {
            "instance": rows["name"],
            "exact 60 s": rows["value"].map(amount),
            "published": rows["published_value"].map(amount),
            "bound": (rows["value"] * (1 + rows["certified_gap_of_value"])).map(amount),
            "certified gap": rows["certified_gap_of_value"],
            "total_s": rows["total_s"],
            "processor_s": rows["processor_s"],
        }
    )


def amount(value: float) -> str:
    """Return a cell of a figure whose units matter."""
    return "–" if math.isnan(value) else f"{value:,.1f}".removesuffix(".0")


def table(frame: pd.DataFrame) -> str:
    """Return a Markdown table."""
    titles = [str(column).replace("_", " ") for column in frame.columns]
    lines = [titles, ["---"] * len(titles)]
    lines += [[figure(value) for value in row] for row in frame.astype(object).itertuples(index=False)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def at_the_defaults(folder: Path, *instances: str) -> list[str]:
    """Return the section about what the default time limit costs on these instances."""
    every = pd.read_csv(folder / "default-limit.csv")
    rows = every[every["instance"].isin(instances)]
    rows = rows.assign(ratio=rows["default_s"] / rows["free_s"])
    shown = rows[["instance", "method", "default_status", "stopped_by", "default_s", "free_s", "ratio"]]
    return [
        "## At the defaults",
        "Seconds of processors of a whole process, with the time limit that `clusterplan solve` has by "
        "default and with none, measured apart; the instances are those of `default-limit.md`. What the "
        "default stopped is not compared.",
        table(shown.rename(columns={"free_s": "without limit s"})),
    ]


def plot(sweep: pd.DataFrame, target: Path) -> None:
    """Draw seconds and gaps against the number of jobs."""
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    drawing, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4))
    solved = sweep[sweep["objective"].notna()]
    for method, (colour, marker) in STYLE.items():
        rows = solved[solved["method"] == method].sort_values("jobs")
        if rows.empty:
            continue
        style = {"color": colour, "marker": marker, "markersize": 4.5, "linewidth": 1.4, "label": method}
        left.loglog(rows["jobs"], rows["total_s"], **style)
        right.loglog(rows["jobs"], rows["gap"].clip(lower=LEAST_GAP), **style)
    left.set_xlabel("jobs")
    left.set_ylabel("seconds, whole call")
    left.set_title("Time", loc="left", fontweight="bold")
    right.axhline(1e-6, color="#999999", linewidth=0.8, linestyle="--")
    right.annotate("asked: 1e-6", (12, 1.3e-6), color="#777777", fontsize=8)
    right.set_xlabel("jobs")
    right.set_ylabel("proven gap (0 drawn at 1e-10)")
    right.set_title("Gap between plan and proven bound", loc="left", fontweight="bold")
    for axes in (left, right):
        axes.grid(True, which="major", color="#e5e5e5", linewidth=0.6)
        axes.set_axisbelow(True)
    drawing.legend(*left.get_legend_handles_labels(), loc="center right", frameon=False)
    drawing.tight_layout(rect=(0, 0, 0.83, 1))
    drawing.savefig(target, dpi=150)
    plt.close(drawing)


if __name__ == "__main__":
    write_report(Path(__file__).parent / "results")
