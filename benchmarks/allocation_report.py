"""The plot and the tables of the allocation benchmark, from its CSV files."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from knapsacks import NEAR_SHARE
from report import at_the_defaults, entitle, grid, pyplot, read, save, table, write, written
from runner import AT_DEFAULT, Row

if TYPE_CHECKING:
    import pandas as pd

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
    sweep = read(folder, "allocation")
    plot(sweep[sweep["resources"] == SHOWN], folder / "allocation.png")
    write(folder, "allocation", text(sweep, folder))


def text(sweep: pd.DataFrame, folder: Path) -> Iterator[str]:
    """Yield the parts of the report."""
    yield "# Allocation: measured results"
    yield (
        f"On {platform.machine()} with 2 cores; each table is one run, each row a process of its own. "
        "Synthetic instances. Times are whole library calls: build, solve, verification of the plan and "
        "check of the certificate. `marginal-gain` has no bound but the elementary one, so its own gap is "
        "large; how far its plan really is from the optimum stands in the first table. The machine was not "
        "otherwise idle."
    )
    yield "![Seconds and gaps against the number of jobs](allocation.png)"
    yield "## Exact beside marginal gain, in the same run"
    yield table(beside(sweep))
    yield from at_the_defaults(folder, "allocation", "small-allocation")
    yield "## Tight capacities: 200 jobs, every resource binds, at most two units to spare"
    yield table(tight_summary(read(folder, "allocation-tight")))
    yield "## The paper's case: 100,000 tasks to 4,000 jobs"
    paper = read(folder, "allocation-paper")
    yield table(paper[["method", "tasks", "status", "objective", "certified_gap", "total_s"]])
    yield "## Workers and their servers"
    yield (
        "`exact` decides configurations and servers together, in one minute, or two above 200 servers. "
        "`optimus` is the paper's own way, marginal gains and then its theorem 1; `pool-then-pack` allocates "
        "at least cost by total capacities, then takes best fit. Both allocate less until all jobs fit; "
        "no figure: they do not. Figures say how far they are above the certified bound. Pollux' jobs have "
        "its measured placements on servers of 4 GPUs, the others are synthetic."
    )
    yield table(on_servers(read(folder, "allocation-servers")))
    yield "## Knapsacks of ten resources"
    yield (
        "Drawn as Khan's correlated instances: ten items a job, the seed is in the table. Every run has "
        "one thread on a machine that was shared: `processor s` is what `exact` got of its minute, then "
        "what `milp:highs` got. Gaps and distances are shares of the knapsack's value. `milp:highs` had "
        "ten minutes where a figure stands; elsewhere the certified gap says how far any plan can be."
    )
    runs = knapsack_runs(folder)
    yield table(knapsack_summary(runs))
    yield table(runs.assign(**{name: runs[name].map(amount) for name in (*KNAPSACK_RUNS, "bound")}))
    yield "## Khan's own instances"
    yield (
        "`exact` in a minute on one thread, beside the largest values in the stored results of a "
        "matheuristic with CPLEX (github.com/marcocaserta/mmkp, 51dbd8a), which took five to twelve. "
        "The machine was shared: `processor s` is what `exact` got."
    )
    yield table(khan_summary(read(folder, "allocation-khan")))
    yield "## All methods"
    yield table(
        sweep[["jobs", "resources", "method", "status", "gap", "certified_gap", "total_s", "peak_gib"]]
    )


def beside(sweep: pd.DataFrame) -> pd.DataFrame:
    """Return the figures of exact and marginal gain in one row for each size."""
    keys = ["jobs", "resources"]
    exact = sweep[sweep["method"] == "exact"].set_index(keys)
    gain = sweep[sweep["method"] == "marginal-gain"].set_index(keys)
    return (
        exact[[]]
        .assign(
            exact_s=exact["total_s"],
            marginal_gain_s=gain["total_s"],
            ratio=exact["total_s"] / gain["total_s"],
            exact_certified_gap=exact["certified_gap"],
            marginal_gain_above_exact=gain["objective"] / exact["objective"] - 1,
            exact_peak_gib=exact["peak_gib"],
            **{f"exact_{name}": exact[name] for name in AT_DEFAULT if name in exact},
        )
        .reset_index()
    )


def on_servers(runs: pd.DataFrame) -> Iterator[Row]:
    """Yield the certified gap of exact, and how far the other ways are above its bound."""
    for _, rows in runs.groupby(["source", "jobs", "servers", "shapes", "seed"], dropna=False, sort=False):
        by_method = rows.set_index("method")
        exact = by_method.loc["exact"]
        bound = exact["objective"] * (1 - exact["certified_gap"])
        yield {
            **{key: exact[key] for key in ("source", "jobs", "servers", "shapes", "seed")},
            "status": exact["status"],
            "certified gap": exact["certified_gap"],
            "seconds": exact["total_s"],
            "check s": exact["verify_s"],
            **{
                f"{name} above the bound": by_method.loc[name, "objective"] / bound - 1
                for name in ("optimus", "pool-then-pack")
            },
        }


def tight_summary(tight: pd.DataFrame) -> Iterator[Row]:
    """Yield how many tight instances were proven and certified, and how long it took."""
    for resources, rows in tight.groupby("resources"):
        yield {
            "resources": resources,
            "instances": len(rows),
            "proven to 1e-6": int((rows["status"] == "optimal").sum()),
            "certified to 1e-6": int((rows["certified_gap"] <= 1e-6).sum()),
            "verified": int(rows["verified"].astype(bool).sum()),
            "median_s": rows["total_s"].median(),
            "longest_s": rows["total_s"].max(),
            "longest_verify_s": rows["verify_s"].max(),
        }


def knapsack_runs(folder: Path) -> pd.DataFrame:
    """Return a row for each knapsack that `exact` and `milp:highs` had a minute for, with their values.

    `bound` is the certified one of `exact`: no plan is worth more. `milp:highs` in ten minutes is there where
    it was run.
    """
    rows = read(folder, "allocation-knapsack")
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


def knapsack_summary(runs: pd.DataFrame) -> Iterator[Row]:
    """Yield how `exact` in a minute stands beside `milp:highs`, for each size.

    A certified gap up to `NEAR_SHARE` says that it is as near to every plan, so to that of ten minutes too.
    """
    for jobs, own in runs.groupby("jobs"):
        exact, gap = own["exact 60 s"], own["certified_gap"]
        shorter, longer = ((exact - own[name]) / exact for name in KNAPSACK_RUNS[1:])
        share = f"{100 * NEAR_SHARE:g} %"
        yield {
            "jobs": jobs,
            "instances": len(own),
            "no worse than milp:highs in 60 s": int((shorter >= 0).sum()),
            f"certified within {share} of any plan": int((gap <= NEAR_SHARE).sum()),
            f"or within {share} of milp:highs in 600 s": int(
                ((gap <= NEAR_SHARE) | (longer >= -NEAR_SHARE)).sum()
            ),
            "least above 60 s": shorter.min(),
            "least above 600 s": longer.min(),
            "largest certified gap": gap.max(),
            "longest_s": own["total_s"].max(),
        }


def khan_summary(rows: pd.DataFrame) -> dict[str, pd.Series]:
    """Return the value and bound of each of Khan's instances, beside what others found."""
    return {
        "instance": rows["name"],
        "exact 60 s": rows["value"].map(amount),
        "published": rows["published_value"].map(amount),
        "bound": (rows["value"] * (1 + rows["certified_gap_of_value"])).map(amount),
        "certified gap": rows["certified_gap_of_value"],
        "total_s": rows["total_s"],
        "processor_s": rows["processor_s"],
    }


def amount(value: float) -> str:
    """Return a cell of a figure whose units matter."""
    return written(",.1f")(value).removesuffix(".0")


def plot(sweep: pd.DataFrame, target: Path) -> None:
    """Draw seconds and gaps against the number of jobs."""
    drawing, (left, right) = pyplot().subplots(1, 2, figsize=(10, 4.4))
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
    entitle(left, "Time")
    right.axhline(1e-6, color="#999999", linewidth=0.8, linestyle="--")
    right.annotate("asked: 1e-6", (12, 1.3e-6), color="#777777", fontsize=8)
    right.set_xlabel("jobs")
    right.set_ylabel("proven gap (0 drawn at 1e-10)")
    entitle(right, "Gap between plan and proven bound")
    for axes in (left, right):
        grid(axes, which="major")
    drawing.legend(*left.get_legend_handles_labels(), loc="center right", frameon=False)
    drawing.tight_layout(rect=(0, 0, 0.83, 1))
    save(drawing, target, 150)
