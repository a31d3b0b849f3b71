"""The plot and the tables of the staging benchmark, from its CSV files."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from allocation_report import at_the_defaults, table
from staging import EXACT_LIMIT_S, LIMIT_S, PAPER, PROVISIONING, SIZE, TIMED, shortcomings

mpl.use("Agg")
import matplotlib.pyplot as plt

STYLE = {
    "exact": ("#0b6e4f", "o"),
    "milp:highs": ("#1f4e79", "P"),
    "milp:cbc": ("#5b8db8", "X"),
    "milp:scip": ("#9ecae1", "d"),
    "cp-sat": ("#7f7f7f", "*"),
    "brute-force": ("#111111", "p"),
    "single-type": ("#d9b44a", "<"),
    "greedy": ("#e9a15b", "v"),
    "genetic": ("#c1440e", "^"),
    "bayesian": ("#b5838d", "h"),
    "reinforce-lstm": ("#6a4c93", "D"),
    "reinforce-rnn": ("#a98bd0", "s"),
}
GROUPS = {
    "ctr": "click-through-rate models on HeterPS's cluster",
    "generic": "generic chains, limits none, loose and tight in turn",
}
CLAIMS = {
    "proven within 10 s": 10.0,
    "proven within 50 ms once loaded": 0.05,
    "proven within 60 s": 60.0,
    "certified gap within 60 s": 60.0,
}
ASKED = 1e-6
SAME = 1e-9
LEAST_PERCENT, MOST_PERCENT = 0.01, 100.0
"""Where the plot draws a plan as good as the optimum, and where it ends."""


def write_report(folder: Path) -> None:
    """Write `staging.png` and `staging.md`."""
    sweep, quality, ratio, claims = (
        pd.read_csv(folder / f"staging{part}.csv") for part in ("", "-quality", "-ratio", "-claims")
    )
    compared = against_exact(quality)
    plot(sweep, compared, folder / "staging.png")
    short = [*shortcomings(quality), *shortcomings(sweep), *shortcomings(claims), *shortcomings(ratio)]
    parts = [
        "# Staging: measured results",
        f"On {platform.machine()} with 2 cores, which other work shared; each table is one run. **All "
        "instances are synthetic.** Every method has one thread. Times are whole library calls: "
        "build, solve, verification of the plan and check of the certificate. In the sweep every row is a "
        "process of its own, and its time includes loading the method's libraries; in the tables of quality "
        "and of ratios all methods of an instance share a process and were called before.",
        "![Seconds against size, and how much more the paper's methods pay](staging.png)",
        "## How much more the paper's methods pay than the optimum",
        "16 layers, 2 types. Percent above the plan of `exact`, over the instances for which the method "
        "found one. `times exact` is its median time over that of `exact`.",
        *(
            text
            for group, what in GROUPS.items()
            for text in (
                f"### {what[0].upper()}{what[1:]}",
                table(paid(compared[compared["group"] == group])),
            )
        ),
        proven_line(compared),
        "## How many times faster `exact` is than the methods that search",
        "16 layers, 2 types; median of interleaved repetitions in one process, libraries loaded, default "
        "budgets of the methods unless said otherwise. Under each method: its seconds over those of `exact`.",
        table(faster(ratio)),
        "How much dearer the plans of these calls are, in percent of the plan of `exact`:",
        table(dearer(ratio)),
        "## What is claimed of `exact`",
        table(claimed(claims)),
        *at_the_defaults(folder, "staging", "graph", "small-staging"),
        "## `exact` beside the best of all other methods, by size",
        f"`exact` has {EXACT_LIMIT_S:g} s, the others {LIMIT_S:g} s each.",
        table(beside(sweep)),
        "## Where `exact` falls short",
        "\n".join(f"* {line}" for line in short) or "Nowhere in this run.",
        "## All methods",
        "The heuristics have no bound but the elementary one, so their own gap is large.",
        table(
            sweep[
                [
                    *("layers", "types", "limits", "method", "status", "limit", "objective", "bound", "gap"),
                    *("certified_gap", "build_s", "solve_s", "total_s", "peak_gib"),
                ]
            ].assign(limit=sweep["limit"].fillna("–"))
        ),
    ]
    (folder / "staging.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def against_exact(quality: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with how much more each pays than `exact`, in percent, and its group."""
    exact = quality[quality["method"] == "exact"].set_index(list(SIZE))["objective"].rename("best")
    joined = quality.join(exact, on=list(SIZE))
    joined["percent"] = (100 * (joined["objective"] / joined["best"] - 1)).where(
        lambda percent: abs(percent) > 100 * SAME, 0.0
    )
    joined.loc[joined["objective"].isna(), "percent"] = np.nan
    joined["group"] = np.where(joined["limits"] == "ctr", "ctr", "generic")
    return joined


def paid(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each method and way of giving units."""
    exact = rows[rows["method"] == "exact"]
    lines: list[dict[str, Any]] = []
    for method in ("exact", *PAPER):
        for way in PROVISIONING if method != "exact" else ("–",):
            mine = rows[rows["method"] == method]
            mine = mine if method == "exact" else mine[mine["provisioning"] == way]
            if mine.empty:
                continue
            lines.append(
                {
                    "method": method,
                    "provisioning": way,
                    "instances": len(exact),
                    "without a plan": len(exact) - int(mine["objective"].notna().sum()),
                    "median %": mine["percent"].median(),
                    "worst %": mine["percent"].max(),
                    "median_s": mine["total_s"].median(),
                    "longest_s": mine["total_s"].max(),
                    "times exact": mine["total_s"].median() / exact["total_s"].median(),
                }
            )
    return pd.DataFrame(lines)


def proven_line(compared: pd.DataFrame) -> str:
    """Return how many instances `exact` proved."""
    exact = compared[compared["method"] == "exact"]
    proven, certified = (exact["gap"] <= ASKED).sum(), (exact["certified_gap"] <= ASKED).sum()
    worse = int((compared["percent"] < -100 * ASKED).sum())
    return (
        f"`exact` proved {proven} of {len(exact)} to {ASKED:g} and certified {certified}; "
        f"plans of other methods that are better than its own: {worse}."
    )


def faster(ratio: pd.DataFrame) -> pd.DataFrame:
    """Return the median seconds of `exact` and the ratio of each other method, by instance."""
    medians = ratio.groupby(["limits", "seed", "method"])["total_s"].median().unstack()
    others = [method for method in TIMED if method in medians and method != "exact"]
    lines = medians[others].div(medians["exact"], axis=0)
    lines.insert(0, "exact_s", medians["exact"])
    lines = lines.reset_index()
    names = lines["limits"] + ", seed " + lines["seed"].astype(str)
    lines = lines.drop(columns=["limits", "seed"])
    lines.insert(0, "instance", names)
    summary = {"instance": "**median**", **lines.drop(columns="instance").median().to_dict()}
    least = {"instance": "**least**", **lines.drop(columns="instance").min().to_dict()}
    return pd.concat([lines, pd.DataFrame([summary, least])], ignore_index=True)


def dearer(ratio: pd.DataFrame) -> pd.DataFrame:
    """Return by how many percent each method's plan is dearer than that of `exact`, by instance."""
    found = ratio.groupby(["limits", "seed", "method"])["objective"].median().unstack()
    others = [method for method in TIMED if method in found and method != "exact"]
    lines = 100 * (found[others].div(found["exact"], axis=0) - 1)
    lines = lines.where((abs(lines) > 100 * SAME) | lines.isna(), 0.0).reset_index()
    lines.insert(0, "instance", lines["limits"] + ", seed " + lines["seed"].astype(str))
    return lines.drop(columns=["limits", "seed"])


def claimed(claims: pd.DataFrame) -> pd.DataFrame:
    """Return each claim with what was measured; of several calls in a process the first stands apart."""
    lines = []
    for (claim, layers, types, limits), rows in claims.groupby(
        ["claim", "layers", "types", "limits"], sort=False
    ):
        first, later = rows[rows["call"] == 1], rows[rows["call"] > 1]
        judged = later if "once loaded" in claim else first
        proven = (judged["gap"] <= ASKED) & (judged["total_s"] <= CLAIMS[claim])
        lines.append(
            {
                "claim": claim,
                "layers": layers,
                "types": types,
                "limits": limits,
                "instances": rows["seed"].nunique(),
                "first call, median_s": first["total_s"].median(),
                "first call, longest_s": first["total_s"].max(),
                "later calls, median_s": later["total_s"].median(),
                "largest gap": judged["gap"].max(),
                "largest certified gap": judged["certified_gap"].max(),
                "calls that keep it": (
                    "–" if "gap within" in claim else f"{int(proven.sum())} of {len(judged)}"
                ),
            }
        )
    return pd.DataFrame(lines)


def beside(sweep: pd.DataFrame) -> pd.DataFrame:
    """Return `exact` and the best plan of all others at each size."""
    lines = []
    for limits in ("none", "tight"):
        mine = sweep[sweep["limits"] == limits]
        for (layers, types), rows in mine.groupby(["layers", "types"]):
            exact = rows[rows["method"] == "exact"].iloc[0]
            others = rows[(rows["method"] != "exact") & rows["objective"].notna()]
            proving = others[others["status"] == "optimal"].sort_values("total_s")
            best = others.sort_values(["objective", "total_s"]).iloc[0] if len(others) else None
            lines.append(
                {
                    "limits": limits,
                    "layers": layers,
                    "types": types,
                    "exact": exact["status"],
                    "exact_s": exact["total_s"],
                    "gap": exact["gap"],
                    "certified gap": exact["certified_gap"],
                    "peak GiB": exact["peak_gib"],
                    "best other": "none has a plan" if best is None else best["method"],
                    "it pays more, %": np.nan if best is None else more(best, exact),
                    "fastest other proof": proving.iloc[0]["method"] if len(proving) else "–",
                    "its_s": proving.iloc[0]["total_s"] if len(proving) else np.nan,
                }
            )
    return pd.DataFrame(lines)


def more(other: pd.Series, exact: pd.Series) -> float:
    """Return by how many percent a plan is dearer than that of `exact`; 0 if only by rounding."""
    share = float(other["objective"] / exact["objective"] - 1)
    return 0.0 if abs(share) <= SAME else 100 * share


def plot(sweep: pd.DataFrame, compared: pd.DataFrame, target: Path) -> None:
    """Draw seconds against size without and with limits, and what the paper's methods pay."""
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    drawing = plt.figure(figsize=(11, 8.6))
    grid = drawing.add_gridspec(2, 2, height_ratios=(1.15, 1), hspace=0.5, wspace=0.16)
    top = [drawing.add_subplot(grid[0, 0])]
    top.append(drawing.add_subplot(grid[0, 1], sharey=top[0]))
    bottom = [drawing.add_subplot(grid[1, 0])]
    bottom.append(drawing.add_subplot(grid[1, 1], sharey=bottom[0]))
    for axes, limits, title in zip(
        top, ("none", "tight"), ("Time, no limits of units", "Time, tight limits"), strict=True
    ):
        lines(axes, sweep[(sweep["limits"] == limits) & sweep["objective"].notna()])
        axes.set_title(title, loc="left", fontweight="bold")
    top[0].set_ylabel("seconds, whole call in a new process")
    for axes, group in zip(bottom, GROUPS, strict=True):
        boxes(axes, compared[compared["group"] == group])
        count = compared.loc[compared["group"] == group, "seed"].nunique()
        name = {"ctr": "click-through-rate models", "generic": "generic chains"}[group]
        axes.set_title(f"Plans of {count} {name}", loc="left", fontweight="bold", pad=18)
    bottom[0].set_ylabel("percent dearer than the optimum")
    handles, labels = [], []
    for axes in top:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            if label not in labels:
                handles.append(handle)
                labels.append(label)
    order = sorted(range(len(labels)), key=lambda i: list(STYLE).index(labels[i]))
    drawing.subplots_adjust(left=0.07, right=0.86, top=0.95, bottom=0.1)
    drawing.legend(
        [handles[i] for i in order],
        [labels[i] for i in order],
        loc="upper left",
        bbox_to_anchor=(0.868, 0.95),
        frameon=False,
    )
    ways = [
        plt.Line2D([], [], marker="o", linestyle="", markersize=4.5, color=colour, label=way)
        for way, colour in zip(("load balance", "exact units"), WAY_COLOURS, strict=True)
    ]
    drawing.legend(handles=ways, loc="upper left", bbox_to_anchor=(0.868, 0.42), frameon=False)
    drawing.text(
        0.99, 0.012, "synthetic instances, two shared cores", ha="right", color="#777777", fontsize=8
    )
    drawing.savefig(target, dpi=130)
    plt.close(drawing)


WAY_COLOURS = ("#c1440e", "#1f4e79")


def lines(axes: Any, solved: pd.DataFrame) -> None:
    """Draw seconds against size; a hollow mark is a plan that its time limit left unproven."""
    for method, (colour, marker) in STYLE.items():
        rows = solved[solved["method"] == method]
        rows = rows.assign(size=rows["layers"] * rows["types"]).sort_values("size")
        if rows.empty:
            continue
        front = method == "exact"
        axes.loglog(
            rows["size"],
            rows["total_s"],
            color=colour,
            marker=marker,
            markersize=5.5 if front else 4.5,
            linewidth=2.4 if front else 1.2,
            zorder=5 if front else 2,
            label=method,
        )
        late = rows[rows["limit"] == "time"]
        axes.loglog(
            late["size"],
            late["total_s"],
            linestyle="",
            marker=marker,
            color=colour,
            markerfacecolor="white",
            markersize=5.5 if front else 4.5,
            zorder=6 if front else 3,
        )
    axes.axhline(LIMIT_S, color="#999999", linewidth=0.8, linestyle="--", zorder=1)
    shown = solved.drop_duplicates(["layers", "types"])
    axes.set_xticks(
        shown["layers"] * shown["types"],
        [f"{layers}×{types}" for layers, types in zip(shown["layers"], shown["types"], strict=True)],
        rotation=45,
        ha="right",
        rotation_mode="anchor",
        fontsize=7.5,
    )
    axes.minorticks_off()
    axes.set_xlabel("layers × types; hollow: stopped by the time limit")
    axes.grid(True, which="major", color="#e5e5e5", linewidth=0.6)
    axes.set_axisbelow(True)


def boxes(axes: Any, rows: pd.DataFrame) -> None:
    """Draw a box and dots for each method and way of giving units; above, how many found no plan."""
    rng = np.random.default_rng(0)
    above: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "fontsize": 8, "annotation_clip": False}
    for place, method in enumerate(PAPER):
        for way, colour, shift in zip(PROVISIONING, WAY_COLOURS, (-0.2, 0.2), strict=True):
            mine = rows[(rows["method"] == method) & (rows["provisioning"] == way)]["percent"]
            found = mine.dropna().clip(lower=LEAST_PERCENT)
            if len(found):
                axes.boxplot(
                    [found],
                    positions=[place + shift],
                    widths=0.32,
                    showfliers=False,
                    manage_ticks=False,
                    patch_artist=True,
                    boxprops={"facecolor": colour, "alpha": 0.15, "edgecolor": colour},
                    medianprops={"color": colour, "linewidth": 1.8},
                    whiskerprops={"color": colour, "linewidth": 0.8},
                    capprops={"color": colour, "linewidth": 0.8},
                )
                axes.scatter(
                    place + shift + rng.uniform(-0.1, 0.1, len(found)),
                    found,
                    s=9,
                    color=colour,
                    alpha=0.65,
                    linewidths=0,
                    zorder=3,
                )
            if missing := int(mine.isna().sum()):
                axes.annotate(f"{missing}", (place + shift, 1.025), color=colour, ha="center", **above)
    axes.annotate("no plan:", (-0.72, 1.025), color="#555555", ha="right", **above)
    axes.set_yscale("log")
    axes.set_ylim(LEAST_PERCENT / 1.4, MOST_PERCENT * 3)
    axes.set_yticks([0.01, 0.1, 1, 10, 100], ["0", "0.1", "1", "10", "100"])
    axes.minorticks_off()
    axes.set_xlim(-0.65, len(PAPER) - 0.35)
    axes.set_xticks(range(len(PAPER)), [name.replace("reinforce", "reinf.") for name in PAPER])
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(True, axis="y", color="#e5e5e5", linewidth=0.6)
    axes.set_axisbelow(True)


if __name__ == "__main__":
    write_report(Path(__file__).parent / "results")
