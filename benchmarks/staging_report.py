"""The plot and the tables of the staging benchmark, from its CSV files."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from report import about_shortcomings, at_the_defaults, entitle, grid, pyplot, read, save, table, write
from runner import NO_ANSWER, Row

LIMIT_S = 30.0
"""Of every method but `exact`; one that misses it is not tried at larger sizes."""
EXACT_LIMIT_S = 60.0
PAPER = ("single-type", "greedy", "genetic", "bayesian", "reinforce-lstm", "reinforce-rnn")
PROVISIONING = ("load-balance", "exact")
SIZE = ("layers", "types", "limits", "seed")
SLOW_S = 20.0
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
LEAST_PERCENT, MAX_PERCENT = 0.01, 100.0
"""Where the plot draws a plan as good as the optimum, and where it ends."""


def write_report(folder: Path) -> None:
    """Write `staging.png` and `staging.md`."""
    sweep, quality = read(folder, "staging"), read(folder, "staging-quality")
    compared = against_exact(quality)
    plot(sweep, compared, folder / "staging.png")
    write(folder, "staging", text(sweep, compared, folder))


def text(sweep: pd.DataFrame, compared: pd.DataFrame, folder: Path) -> Iterator[str]:
    """Yield the parts of the report."""
    yield "# Staging: measured results"
    yield (
        f"On {platform.machine()} with 2 cores, which other work shared; each table is one run. **All "
        "instances are synthetic.** Every method has one thread. Times are whole library calls: "
        "build, solve, verification of the plan and check of the certificate. In the sweep every row is a "
        "process of its own, and its time includes loading the method's libraries; in the tables of quality "
        "and of ratios all methods of an instance share a process and were called before."
    )
    yield "![Seconds against size, and how much more the paper's methods pay](staging.png)"
    yield "## How much more the paper's methods pay than the optimum"
    yield (
        "16 layers, 2 types. Percent above the plan of `exact`, over the instances for which the method "
        "found one. `times exact` is its median time over that of `exact`."
    )
    for group, what in GROUPS.items():
        yield f"### {what[0].upper()}{what[1:]}"
        yield table(paid(compared[compared["group"] == group]))
    yield proven_line(compared)
    yield "## How many times faster `exact` is than the methods that search"
    yield (
        "16 layers, 2 types; median of interleaved repetitions in one process, libraries loaded, default "
        "budgets of the methods unless said otherwise. Under each method: its seconds over those of `exact`."
    )
    ratio = read(folder, "staging-ratio")
    yield table(faster(ratio))
    yield "How much dearer the plans of these calls are, in percent of the plan of `exact`:"
    yield table(dearer(ratio))
    yield "## What is claimed of `exact`"
    yield table(claimed(read(folder, "staging-claims")))
    yield from at_the_defaults(folder, "staging", "graph", "small-staging")
    yield "## `exact` beside the best of all other methods, by size"
    yield f"`exact` has {EXACT_LIMIT_S:g} s, the others {LIMIT_S:g} s each."
    yield table(beside(sweep))
    names = ("staging-quality", "staging", "staging-claims", "staging-ratio")
    yield from about_shortcomings(shortcomings(folder, names))
    yield "## All methods"
    yield "The heuristics have no bound but the elementary one, so their own gap is large."
    columns = ["layers", "types", "limits", "method", "status", "limit", "objective", "bound", "gap"]
    shown = sweep[[*columns, "certified_gap", "build_s", "solve_s", "total_s", "peak_gib"]]
    yield table(shown.fillna({"limit": "–"}))


def shortcomings(folder: Path, names: Iterable[str]) -> list[str]:
    """Return where `exact` falls short in stored tables."""
    return [line for name in names for line in shortcomings_of(read(folder, name))]


def shortcomings_of(rows: pd.DataFrame) -> Iterator[str]:
    """Yield where `exact` is slow, has no plan, is not certified or is beaten, and processes that died."""
    for (layers, types, family, seed), own in rows.groupby(list(SIZE)):
        for line in shortcomings_at(own):
            yield f"{layers} × {types} {family}, seed {seed}: {line}"


def shortcomings_at(rows: pd.DataFrame) -> Iterator[str]:
    """Yield the same of one instance."""
    for row in rows[rows["method"].isna()].itertuples():
        yield f"the process {row.status}: {row.message}"
    exact = rows[rows["method"] == "exact"]
    for row in exact.itertuples():
        if row.status in (*NO_ANSWER, "error", "unknown", "infeasible"):
            yield f"exact: {row.status}, stopped by {row.limit}"
        if row.total_s > SLOW_S:
            yield f"exact took {row.total_s:.3g} s; gap {row.gap:.2g}"
        if row.gap <= ASKED < row.certified_gap:
            yield f"exact proves a gap of {row.gap:.2g} but certifies {row.certified_gap:.2g}"
    yield from beating(rows, exact["objective"].min())


def beating(rows: pd.DataFrame, best: float) -> Iterator[str]:
    """Yield which methods have a better plan of an instance than `exact`, or one where it has none."""
    for row in rows[rows["method"] != "exact"].itertuples():
        if row.objective < best * (1 - ASKED) or (pd.isna(best) and pd.notna(row.objective)):
            yield f"exact is BEATEN by {row.method}: {row.objective:.10g} < {best:.10g}"


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


def paid(rows: pd.DataFrame) -> Iterator[Row]:
    """Yield a row for each method and way of giving units."""
    exact = rows[rows["method"] == "exact"]
    for method in ("exact", *PAPER):
        for way in PROVISIONING if method != "exact" else ("–",):
            mine = rows[rows["method"] == method]
            mine = mine if method == "exact" else mine[mine["provisioning"] == way]
            if mine.empty:
                continue
            yield {
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


def proven_line(compared: pd.DataFrame) -> str:
    """Return how many instances `exact` proved."""
    exact = compared[compared["method"] == "exact"]
    proven, certified = (exact["gap"] <= ASKED).sum(), (exact["certified_gap"] <= ASKED).sum()
    worse = int((compared["percent"] < -100 * ASKED).sum())
    return (
        f"`exact` proved {proven} of {len(exact)} to {ASKED:g} and certified {certified}; "
        f"plans of other methods that are better than its own: {worse}."
    )


def beside_exact(ratio: pd.DataFrame, column: str) -> tuple[pd.Series, pd.DataFrame]:
    """Return the medians of `exact` by instance, and those of other methods as shares of them."""
    medians = ratio.groupby(["limits", "seed", "method"], sort=False)[column].median().unstack(sort=False)
    medians.index = [f"{limits}, seed {seed}" for limits, seed in medians.index]
    medians = medians.rename_axis("instance").sort_index()
    return medians["exact"], medians.drop(columns="exact").div(medians["exact"], axis=0)


def faster(ratio: pd.DataFrame) -> pd.DataFrame:
    """Return the median seconds of `exact` and the ratio of each other method, by instance."""
    seconds, others = beside_exact(ratio, "total_s")
    others.insert(0, "exact_s", seconds)
    ends = pd.DataFrame({"**median**": others.median(), "**least**": others.min()}).T
    return pd.concat([others, ends]).rename_axis("instance").reset_index()


def dearer(ratio: pd.DataFrame) -> pd.DataFrame:
    """Return by how many percent each method's plan is dearer than that of `exact`, by instance."""
    percent = 100 * (beside_exact(ratio, "objective")[1] - 1)
    return percent.where((abs(percent) > 100 * SAME) | percent.isna(), 0.0).reset_index()


def claimed(claims: pd.DataFrame) -> Iterator[Row]:
    """Yield each claim with what was measured; of several calls in a process the first stands apart."""
    keys = ["claim", "layers", "types", "limits"]
    for key, rows in claims.groupby(keys, sort=False):
        claim = key[0]
        first, later = rows[rows["call"] == 1], rows[rows["call"] > 1]
        judged = later if "once loaded" in claim else first
        proven = (judged["gap"] <= ASKED) & (judged["total_s"] <= CLAIMS[claim])
        yield {
            **dict(zip(keys, key, strict=True)),
            "instances": rows["seed"].nunique(),
            "first call, median_s": first["total_s"].median(),
            "first call, longest_s": first["total_s"].max(),
            "later calls, median_s": later["total_s"].median(),
            "largest gap": judged["gap"].max(),
            "largest certified gap": judged["certified_gap"].max(),
            "calls that keep it": "–" if "gap within" in claim else f"{int(proven.sum())} of {len(judged)}",
        }


def beside(sweep: pd.DataFrame) -> Iterator[Row]:
    """Yield `exact` and the best plan of all others at each size."""
    for (limits, layers, types), rows in sweep.groupby(["limits", "layers", "types"]):
        exact = rows[rows["method"] == "exact"].iloc[0]
        others = rows[(rows["method"] != "exact") & rows["objective"].notna()]
        proving = others[others["status"] == "optimal"].sort_values("total_s")
        best = others.sort_values(["objective", "total_s"]).iloc[0] if len(others) else None
        yield {
            "limits": limits,
            "layers": layers,
            "types": types,
            "exact": exact["status"],
            "exact_s": exact["total_s"],
            "gap": exact["gap"],
            "certified gap": exact["certified_gap"],
            "peak GiB": exact["peak_gib"],
            "best other": "none has a plan" if best is None else best["method"],
            "it pays more, %": math.nan if best is None else more(best, exact),
            "fastest other proof": proving.iloc[0]["method"] if len(proving) else "–",
            "its_s": proving.iloc[0]["total_s"] if len(proving) else math.nan,
        }


def more(other: pd.Series, exact: pd.Series) -> float:
    """Return by how many percent a plan is dearer than that of `exact`; 0 if only by rounding."""
    share = float(other["objective"] / exact["objective"] - 1)
    return 0.0 if abs(share) <= SAME else 100 * share


def plot(sweep: pd.DataFrame, compared: pd.DataFrame, target: Path) -> None:
    """Draw seconds against size without and with limits, and what the paper's methods pay."""
    plt = pyplot()
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
        entitle(axes, title)
    top[0].set_ylabel("seconds, whole call in a new process")
    for axes, group in zip(bottom, GROUPS, strict=True):
        boxes(axes, compared[compared["group"] == group])
        count = compared.loc[compared["group"] == group, "seed"].nunique()
        name = {"ctr": "click-through-rate models", "generic": "generic chains"}[group]
        entitle(axes, f"Plans of {count} {name}", pad=18)
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
    save(drawing, target, 130, "synthetic instances, two shared cores")


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
    grid(axes, which="major")


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
    axes.set_ylim(LEAST_PERCENT / 1.4, MAX_PERCENT * 3)
    axes.set_yticks([0.01, 0.1, 1, 10, 100], ["0", "0.1", "1", "10", "100"])
    axes.minorticks_off()
    axes.set_xlim(-0.65, len(PAPER) - 0.35)
    axes.set_xticks(range(len(PAPER)), [name.replace("reinforce", "reinf.") for name in PAPER])
    axes.tick_params(axis="x", labelsize=8)
    grid(axes, axis="y")
