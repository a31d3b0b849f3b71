"""The plots and the tables of the consolidation benchmark, from its CSV files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from report import (
    NOTHING,
    about_shortcomings,
    at_the_defaults,
    checked,
    entitle,
    grid,
    machine,
    pyplot,
    read,
    save,
    table,
    whole,
    write,
)
from runner import AT_DEFAULT, NO_ANSWER, Row

if TYPE_CHECKING:
    import pandas as pd

PARAMETER = 32e-9
"""Traffic of one parameter [Gbit/s]."""
LOADS = (0.95, 1.4)
RATIO_SERVERS, RATIO_JOBS = 64, 80
HEURISTICS = ("best-fit", "first-fit-decreasing", "consolidate-or-wait")
TEXTBOOK = ("milp:cbc", "milp:highs", "cp-sat")
LIMIT_S = 60.0
"""Of every method but `exact`; one that does not end, or prove, within it is not tried at larger sizes."""
ASKED = 1e-6
KEY = ["servers", "resources", "load", "seed"]
"""What tells the instances of a table apart; a process that dies does not say how many jobs there were."""
STYLE = {
    "exact": ("#0b6e4f", "o"),
    "milp:cbc": ("#5b8db8", "X"),
    "milp:highs": ("#1f4e79", "P"),
    "cp-sat": ("#7f7f7f", "*"),
    "best-fit": ("#c1440e", "^"),
    "first-fit-decreasing": ("#e9a15b", "v"),
    "consolidate-or-wait": ("#6a4c93", "D"),
}
KINDS = {1: "GPUs alone", 3: "GPUs, CPUs and memory"}
ORDER = ["resources", "load", "servers", "jobs"]
GOALS = {"value": "value", "spread": "spread", "servers_used": "in use"}
"""Objectives by column, as the tables call them."""
LOSSES = {
    "value lost %": "value lost, %",
    "extra spread": "extra servers of jobs that prefer few",
    "more in use %": "more servers in use, %",
}
SERVERS = (10, 100, 1_000, 10_000, 100_000)
SECONDS = (0.1, 1, 10, 100)
"""Marks of the axes."""


def write_report(folder: Path) -> None:
    """Write `consolidation.md` and its two plots."""
    sweep = read(folder, "consolidation", "consolidation-resources")
    lost = losses(read(folder, "consolidation-quality"))
    plot(sweep, folder / "consolidation.png")
    plot_quality(lost, folder / "consolidation-quality.png")
    write(folder, "consolidation", text(sweep, lost, folder))


def text(sweep: pd.DataFrame, lost: pd.DataFrame, folder: Path) -> Iterator[str]:
    """Yield the parts of the report."""
    yield from opening()
    yield from about_exact(sweep)
    yield from at_the_defaults(folder, "consolidation", "small-consolidation")
    yield from about_textbook(sweep, read(folder, "consolidation-ratio"))
    yield from about_heuristics(sweep, lost)
    yield from about_the_rest(folder)
    parts = ("", "-resources", "-hard", "-migrations", "-quality", "-ratio")
    yield from about_shortcomings(shortcomings(folder, (f"consolidation{part}" for part in parts)))
    yield "## All methods"
    yield table(everything(sweep))


def shortcomings(folder: Path, names: Iterable[str]) -> list[str]:
    """Return where `exact` falls short in stored tables, and what failed the check."""
    return [line for name in names for line in shortcomings_of(read(folder, name))]


def shortcomings_of(frame: pd.DataFrame) -> Iterator[str]:
    """Yield where `exact` has no proof, is not certified or is beaten, and what failed the check."""
    objectives = [name for name in ("value", "spread", "migrations", "servers_used") if name in frame]
    for (servers, kinds, load, seed), rows in frame.groupby(KEY):
        name = f"{servers:,} servers, resources: {kinds}, load {load:g}, seed {seed}"
        for row in rows[failed(rows)].itertuples():
            yield f"{name}: {row.method} FAILED the check"
        for _, row in rows[rows["method"] == "exact"].iterrows():
            for line in left_open(row, objectives):
                yield f"{name}: exact: {line}"
        for line in beating(rows, objectives):
            yield f"{name}: {line}"


def left_open(row: pd.Series, objectives: list[str]) -> Iterator[str]:
    """Yield what a row of `exact` does not prove, or does not certify."""
    if row["status"] != "optimal":
        said = row["message"] if row["status"] in NO_ANSWER else between(row, objectives, "bound")
        yield f"{row['status']}, stopped by {row['limit']}; {said}"
    elif not row["certified"]:
        yield f"proven, but not certified: {between(row, objectives, 'certified_bound')}"


def between(row: pd.Series, objectives: list[str], bound: str) -> str:
    """Return values and bounds of the objectives for which they differ."""
    said = [
        f"{name.replace('_', ' ')} {row[name]:g}, bound {row[f'{name}_{bound}']:g}"
        for name in objectives
        if row[name] != row[f"{name}_{bound}"]
    ]
    return "; ".join(said) or "all bounds are reached"


def failed(rows: pd.DataFrame) -> pd.Series:
    """Return which results the check found wrong, or the library refused as an error."""
    return (rows["verified"].astype(str) == "False") | (rows["status"] == "error")


def beating(rows: pd.DataFrame, objectives: list[str]) -> Iterator[str]:
    """Yield which methods have a better plan than `exact`, or claim that a worse one is the best."""

    def rank(row: pd.Series) -> tuple[float, ...]:
        return tuple(-row[name] if name == "value" else row[name] for name in objectives)

    exact = rows[rows["method"] == "exact"]
    best = exact.iloc[0] if len(exact) and exact["value"].notna().all() else None
    for _, row in rows[(rows["method"] != "exact") & rows["value"].notna()].iterrows():
        if best is None or rank(row) < rank(best):
            proven = best is not None and best["status"] == "optimal"
            yield f"{row['method']} has a better plan than exact{', which is WRONG' if proven else ''}"
        elif row["status"] == "optimal" and rank(row) > rank(best):
            yield f"{row['method']} calls a plan optimal that is worse than that of exact"


def opening() -> Iterator[str]:
    """Yield what all tables have in common."""
    yield "# Consolidation: measured results"
    yield (
        f"{machine()}; each table is one run, each row a process of "
        "its own. **All instances are synthetic.** Objectives, one after the other: most value, least spread "
        "(extra servers of the jobs that prefer few), fewest servers in use. `total s` is the whole library "
        "call: loading the method's libraries, building, solving, and the checks of plan and certificate "
        "that every result goes through; `verify s` is the independent check of the result afterwards. "
        "`exact` and the heuristics have one thread, the solvers of the textbook model every core. What "
        "these are said to prove, they prove by themselves: `clusterplan.solve` would add bounds from prices "
        "of the class model. A gap is that of the first objective that is not proven."
    )
    yield "![Seconds against the number of servers](consolidation.png)"


def about_exact(sweep: pd.DataFrame) -> Iterator[str]:
    """Yield how far `exact` goes."""
    yield "## `exact`, by size"
    yield (
        "Partly filled servers of 8 GPUs, or of four shapes where CPUs and memory count too; load is the "
        "GPUs asked over the GPUs free. 30 % of the jobs are required to be consolidated, and 30 % prefer it."
    )
    yield table(of_exact(sweep))


def about_textbook(sweep: pd.DataFrame, ratio: pd.DataFrame) -> Iterator[str]:
    """Yield how far the textbook model goes."""
    limits = sweep[sweep["method"].isin(TEXTBOOK)].groupby("resources")["limit_s"].max()
    within = ", ".join(
        f"{limit_s:g} s" + f" (resources: {r})" * (len(limits) > 1) for r, limit_s in limits.items()
    )
    yield "## The textbook model"
    yield (
        f"The largest size that each solver proves within {within}, and the first at which it does not: "
        "what it has then, in brackets what `exact` has. It is not run at larger sizes."
    )
    yield table(textbook(sweep))
    yield f"### {RATIO_SERVERS} servers, {RATIO_JOBS} jobs"
    yield statement(ratio)
    yield table(beside(ratio))


def about_heuristics(sweep: pd.DataFrame, lost: pd.DataFrame) -> Iterator[str]:
    """Yield what the heuristics lose."""
    yield "## What the heuristics lose"
    servers, jobs, seeds = whole(lost["servers"].max()), whole(lost["jobs"].max()), lost["seed"].nunique()
    yield (
        f"{servers} servers, {jobs} jobs, {seeds} seeds, beside the proven optimum. A plan with less value "
        "may use fewer servers, and spread its jobs less, than the optimum."
    )
    yield "![What each heuristic loses, by objective](consolidation-quality.png)"
    yield table(summary(lost))
    yield "### By size"
    yield table(losses_by_size(sweep))


def about_the_rest(folder: Path) -> Iterator[str]:
    """Yield fragmented clusters, running clusters, and files."""
    hard, moved, loading = (
        read(folder, f"consolidation-{part}") for part in ("hard", "migrations", "loading")
    )
    yield "## Fragmented clusters"
    yield (
        "Every server has 1 to 7 of 8 GPUs free. Jobs ask for 2 to 16 GPUs; 60 % prefer few servers, 20 % "
        f"must be consolidated. `exact` has {hard['limit_s'].max():g} s. `left` is the most that any plan is "
        "away from its certified bound."
    )
    yield table(fragmented(hard))
    yield "## Running clusters"
    yield (
        "Seven jobs in ten run now, on random servers with room. Most value, then fewest tasks moved, then "
        "fewest servers; a running job that is left out counts as moved. `best-fit` does not look at what "
        f"runs. `exact` has {moved['limit_s'].max():g} s."
    )
    yield table(running(moved))
    yield "## Blocks of parameters on parameter servers"
    yield (
        "Tensors of models, in parameters. Whole blocks of ResNet-50 up to 10 servers, whose numbers "
        "differ by at most one; beyond, and for other models, blocks may be cut. `requests` are slices. For "
        "PAA, with ResNet-50 on 10 servers, Optimus (EuroSys'18, section 5.3) prints a difference of 0.1 "
        "million parameters, 157 requests, and at most one more of these on a server than on another."
    )
    yield table(blocks(read(folder, "consolidation-blocks")))
    yield "## From files to a checked plan"
    yield (
        f"One new process loads {loading['servers'].max():,} servers and {loading['jobs'].max():,} jobs, "
        "solves with `exact`, and verifies; libraries are loaded as they are needed. Peak memory is the most "
        "so far."
    )
    yield table(steps(loading))


def out_of(rows: pd.DataFrame, column: str, wanted: str) -> str:
    """Return how many of the rows have this value."""
    return f"{(rows[column].astype(str) == wanted).sum()} of {len(rows)}"


def named(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with `resources` in words, and whole numbers in full."""
    shown = frame.assign(resources=frame["resources"].map(KINDS))
    for column in ("servers", "jobs", *GOALS):
        if column in shown:
            shown[column] = shown[column].map(whole)
    return shown.rename(columns=GOALS)


def of_exact(sweep: pd.DataFrame) -> pd.DataFrame:
    """Return the figures of `exact`, one row for each instance."""
    rows = sweep[sweep["method"] == "exact"].sort_values(ORDER)
    figures = ["gap", "certified_gap", "build_s", "total_s", "verify_s", "peak_gib"]
    return named(rows[[*ORDER, *GOALS, "status", *figures, *rows.columns.intersection(AT_DEFAULT)]])


def textbook(sweep: pd.DataFrame) -> Iterator[Row]:
    """Yield for each textbook solver the largest size that it proves and the first at which it fails."""
    tried = sweep[sweep["method"].isin(TEXTBOOK) & (sweep["status"] != "not run")]
    exact = sweep[sweep["method"] == "exact"].set_index(["resources", "load", "servers"])
    order = ("proves", "its_s", "exact_s", "fails at", "status", "gap", *GOALS.values(), "exact_s there")
    for (kinds, load, method), rows in tried.groupby(["resources", "load", "method"], sort=False):
        proven = rows["status"] == "optimal"
        line = {"resources": KINDS[kinds], "load": load, "method": method, **dict.fromkeys(order, NOTHING)}
        for row in rows[proven].sort_values("servers").tail(1).itertuples():
            line |= {"proves": whole(row.servers), "its_s": row.total_s}
            line["exact_s"] = exact["total_s"][kinds, load, row.servers]
        for _, row in rows[~proven].sort_values("servers").head(1).iterrows():
            best = exact.loc[(kinds, load, row["servers"])]
            line |= {"fails at": whole(row["servers"]), "status": row["status"], "gap": row["gap"]}
            line |= {title: f"{whole(row[name])} ({whole(best[name])})" for name, title in GOALS.items()}
            line["exact_s there"] = best["total_s"]
        yield line


def statement(ratio: pd.DataFrame) -> str:
    """Return in one line how many of the small instances the textbook model proves on CBC, and `exact`."""
    said = []
    for method, name in (("milp:cbc", "the textbook model on CBC"), ("exact", "`exact`")):
        rows = ratio[ratio["method"] == method]
        proven = rows[rows["status"] == "optimal"]
        longest = f", in {proven['total_s'].max():.2g} s at most" if len(proven) else ""
        loads = ", ".join(
            f"{out_of(mine, 'status', 'optimal')} at load {load:g}" for load, mine in rows.groupby("load")
        )
        said.append(f"{name} proves {out_of(rows, 'status', 'optimal')} ({loads}){longest}")
    limit_s = ratio.loc[ratio["method"] == "milp:cbc", "limit_s"].max()
    return f"Within {limit_s:g} s {said[0]}; {said[1]}."


def beside(ratio: pd.DataFrame) -> pd.DataFrame:
    """Return `exact` and the textbook model on CBC in one row for each instance."""
    exact, cbc = (
        ratio[ratio["method"] == method].set_index(["load", "seed"]) for method in ("exact", "milp:cbc")
    )
    columns = {
        "exact": exact["status"],
        "exact_s": exact["total_s"],
        "in use": exact["servers_used"].map(whole),
        "certified": exact["certified"].map(checked).str.lower(),
        "CBC": cbc["status"],
        "CBC_s": cbc["total_s"],
        "CBC: in use": cbc["servers_used"].map(whole),
        "CBC: bound": cbc["servers_used_bound"].map(whole),
        "CBC / exact": cbc["total_s"] / exact["total_s"],
    }
    return exact[[]].assign(**columns).reset_index()


def losses(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of heuristics with what they lose against the proven optimum, where there is one."""
    proven = rows[(rows["method"] == "exact") & (rows["status"] == "optimal")]
    best = proven.set_index(KEY)[[*GOALS, "total_s"]].add_prefix("best_")
    joined = rows[rows["method"].isin(HEURISTICS)].join(best, on=KEY)
    joined["value lost %"] = 100 * (1 - joined["value"] / joined["best_value"])
    joined["extra spread"] = joined["spread"] - joined["best_spread"]
    joined["more in use %"] = 100 * (joined["servers_used"] / joined["best_servers_used"] - 1)
    return joined


def summary(lost: pd.DataFrame) -> Iterator[Row]:
    """Yield median and worst losses of each heuristic."""
    for (kinds, load, method), rows in lost.groupby(["resources", "load", "method"], sort=False):
        known = rows[rows["best_value"].notna()]
        line = {"resources": KINDS[kinds], "load": load, "method": method}
        line["best value in"] = f"{(known['value'] == known['best_value']).sum()} of {len(known)}"
        for column in LOSSES:
            line |= {f"{column}: median": known[column].median(), f"{column}: worst": known[column].max()}
        line |= {"median_s": rows["total_s"].median(), "exact, median_s": known["best_total_s"].median()}
        yield line


def losses_by_size(sweep: pd.DataFrame) -> pd.DataFrame:
    """Return what each heuristic loses at each size."""
    lost = losses(sweep).sort_values(ORDER, kind="stable")
    lost["extra spread"] = lost["extra spread"].map(whole)
    return named(lost[[*ORDER, "method", *LOSSES, "total_s", "peak_gib"]])


def fragmented(hard: pd.DataFrame) -> Iterator[Row]:
    """Yield how many fragmented clusters were proven and certified, how long it took, and what is left."""
    for (kinds, servers, load), rows in hard.groupby(["resources", "servers", "load"]):
        left = {name: (rows[name] - rows[f"{name}_certified_bound"]).abs().max() for name in GOALS}
        yield {
            "resources": KINDS[kinds],
            "servers": whole(servers),
            "load": load,
            "jobs, median": whole(rows["jobs"].median()),
            "proven": out_of(rows, "status", "optimal"),
            "certified": out_of(rows, "certified", "True"),
            "spread": f"{whole(rows['spread'].min())} to {whole(rows['spread'].max())}",
            "largest gap": rows["gap"].max(),
            "largest certified gap of all": rows[[f"{name}_certified_gap" for name in GOALS]].max().max(),
            **{f"{title} left": whole(left[name]) for name, title in GOALS.items()},
            "median_s": rows["total_s"].median(),
            "longest_s": rows["total_s"].max(),
            "longest verify_s": rows["verify_s"].max(),
        }


def running(moved: pd.DataFrame) -> Iterator[Row]:
    """Yield what `exact` and best fit move."""
    for (kinds, servers, load), rows in moved.groupby(["resources", "servers", "load"]):
        exact, best = (rows[rows["method"] == method] for method in ("exact", "best-fit"))
        yield {
            "resources": KINDS[kinds],
            "servers": whole(servers),
            "load": load,
            "running tasks, median": whole(exact["running_tasks"].median()),
            "moved, median": whole(exact["migrations"].median()),
            "moved, most": whole(exact["migrations"].max()),
            "by best-fit, median": whole(best["migrations"].median()),
            "proven": out_of(exact, "status", "optimal"),
            "certified": out_of(exact, "certified", "True"),
            "largest gap": exact["gap"].max(),
            "median_s": exact["total_s"].median(),
            "longest_s": exact["total_s"].max(),
        }


def blocks(rows: pd.DataFrame) -> Iterator[Row]:
    """Yield loads and requests of PAA and of `exact`, by model and number of servers."""
    for (model, servers), methods in rows.groupby(["model", "servers"], sort=False):
        line: Row = {"model": model, "servers": whole(servers), "blocks": whole(methods["jobs"].max())}
        bound = methods["imbalance_certified_bound"].max()
        for row in methods.itertuples():
            line[f"difference, {row.method}"] = whole(row.imbalance / PARAMETER)
            line[f"requests, {row.method}"] = whole(row.jobs + (0 if math.isnan(row.spread) else row.spread))
            line[f"over bound of the largest load, {row.method}"] = row.traffic_certified_gap
        yield {**line, "difference at least": whole(bound / PARAMETER), "exact, s": row.total_s}


def steps(loading: pd.DataFrame) -> Iterator[Row]:
    """Yield seconds and memory of every step, by format, with the sum of the steps of the new process."""
    titles = ("files", "step", "seconds", "peak GiB", "outcome")
    for kind, rows in loading.groupby("table", sort=False):
        lines: list[tuple[Any, ...]] = []
        for row in rows.itertuples():
            verified = "verified" if str(row.verified) == "True" else "WRONG"
            outcome = {"save": f"{row.megabytes:g} MB", "load": "", "solve": row.status, "verify": verified}
            name = {"save": "save, in another process"}.get(row.step, row.step)
            if row.step in outcome:
                lines.append((name, row.total_s, row.peak_gib, outcome[row.step]))
            else:
                lines.append((row.status, math.nan, math.nan, row.limit))
        later = rows[rows["step"].isin(("load", "solve", "verify"))]
        ends = later["total_s"].sum(), later["peak_gib"].max()
        for line in (*lines, ("**load, solve and verify**", *ends, "")):
            yield dict(zip(titles, (kind, *line), strict=True))


def everything(sweep: pd.DataFrame) -> pd.DataFrame:
    """Return every row of the sweeps; of the sizes at which a method was not run, only the first."""
    out = sweep["status"] == "not run"
    again = out & sweep.assign(out=out).duplicated(["resources", "load", "method", "out"])
    rows = sweep[~again].sort_values(ORDER, kind="stable")
    shown = rows[[*ORDER, "method", "status", "limit"]].fillna({"limit": "–"})
    shown["status"] = shown["status"].replace("not run", "not run from here on")
    for name, title in GOALS.items():
        shown[title] = rows[name].map(whole)
        shown[f"{title}: bound"] = rows[f"{name}_bound"].map(whole)
        shown[f"{title}: certified"] = rows[f"{name}_certified_bound"].map(whole)
    figures = rows[["gap", "build_s", "total_s", "verify_s", "peak_gib"]]
    shown["resources"] = shown["resources"].map(KINDS)
    shown[["servers", "jobs"]] = shown[["servers", "jobs"]].map(whole)
    return shown.join(figures)


def plot(sweep: pd.DataFrame, target: Path) -> None:
    """Draw seconds against servers, for both loads and both numbers of resources."""
    plt = pyplot()
    drawing, grid = plt.subplots(2, 2, figsize=(10.5, 7.6), sharex=True, sharey=True)
    solved = sweep[sweep["value"].notna()]
    for row, load in zip(grid, LOADS, strict=True):
        for axes, kinds in zip(row, KINDS, strict=True):
            lines(axes, solved[(solved["load"] == load) & (solved["resources"] == kinds)])
            entitle(axes, f"{KINDS[kinds]}, load {load:g}")
    for axes in grid[:, 0]:
        axes.set_ylabel("seconds, whole call in a new process")
    for axes in grid[1]:
        axes.set_xlabel("servers; half as many more jobs")
    handles = [
        plt.Line2D([], [], color=colour, marker=marker, markersize=5.5, linewidth=1.4, label=method)
        for method, (colour, marker) in STYLE.items()
    ]
    hollow = {"color": "#555555", "marker": "o", "markerfacecolor": "white", "linestyle": ""}
    handles.append(plt.Line2D([], [], **hollow, label="not proven in time"))
    drawing.tight_layout(rect=(0, 0.02, 0.82, 1))
    drawing.legend(handles=handles, loc="upper left", bbox_to_anchor=(0.825, 0.96), frameon=False)
    save(drawing, target, 140, "synthetic instances")


def lines(axes: Any, solved: pd.DataFrame) -> None:
    """Draw seconds against servers; a hollow mark is a plan that a proving method did not prove."""
    for method, (colour, marker) in STYLE.items():
        rows = solved[solved["method"] == method].sort_values("servers")
        if rows.empty:
            continue
        front = method == "exact"
        style = {"color": colour, "marker": marker, "markersize": 6 if front else 5}
        style |= {"linewidth": 2.4 if front else 1.2, "zorder": 5 if front else 2}
        axes.loglog(rows["servers"], rows["total_s"], **style)
        if method not in HEURISTICS:
            late = rows[rows["status"] != "optimal"]
            style |= {"linestyle": "", "markerfacecolor": "white", "zorder": 6}
            axes.loglog(late["servers"], late["total_s"], **style)
    axes.axhline(LIMIT_S, color="#999999", linewidth=0.8, linestyle="--", zorder=1)
    axes.annotate(f"{LIMIT_S:g} s", (130_000, LIMIT_S * 1.1), color="#777777", fontsize=8, ha="right")
    axes.set_xticks(SERVERS, [f"{servers:,}" for servers in SERVERS])
    axes.set_yticks(SECONDS, [f"{seconds:g}" for seconds in SECONDS])
    axes.set_xlim(9, 150_000)
    axes.set_ylim(0.07, 200)
    axes.minorticks_off()
    grid(axes, which="major")


def plot_quality(lost: pd.DataFrame, target: Path) -> None:
    """Draw what the heuristics lose, by objective, a dot for each instance."""
    plt = pyplot()
    drawing, row = plt.subplots(1, len(LOSSES), figsize=(10.5, 3.9))
    groups = [(kinds, load) for kinds in KINDS for load in LOADS]
    for axes, (column, title) in zip(row, LOSSES.items(), strict=True):
        for place, (kinds, load) in enumerate(groups):
            dots(axes, place, lost[(lost["resources"] == kinds) & (lost["load"] == load)], column)
        axes.axhline(0, color="#999999", linewidth=0.8, zorder=1)
        entitle(axes, title, fontsize=9)
        names = [f"{'GPUs' if kinds == 1 else '3 resources'}\nload {load:g}" for kinds, load in groups]
        axes.set_xticks(range(len(groups)), names, fontsize=8)
        grid(axes, axis="y")
    handles = [
        plt.Line2D([], [], color=STYLE[method][0], marker=STYLE[method][1], linestyle="", label=method)
        for method in HEURISTICS
    ]
    handles.append(plt.Line2D([], [], color="#555555", linewidth=2, label="median"))
    drawing.legend(handles=handles, loc="lower center", ncols=len(handles), frameon=False)
    drawing.tight_layout(rect=(0, 0.08, 1, 1))
    save(drawing, target, 140, "synthetic instances", 0.03)


def dots(axes: Any, place: int, rows: pd.DataFrame, column: str) -> None:
    """Draw a column of dots for each heuristic, with its median."""
    import numpy as np

    rng = np.random.default_rng(0)
    for shift, method in zip((-0.26, 0.0, 0.26), HEURISTICS, strict=True):
        colour, marker = STYLE[method]
        found = rows.loc[rows["method"] == method, column].dropna()
        where = place + shift + rng.uniform(-0.07, 0.07, len(found))
        axes.scatter(where, found, s=12, color=colour, marker=marker, alpha=0.55, linewidths=0, zorder=3)
        if len(found):
            ends = [place + shift - 0.11, place + shift + 0.11]
            axes.plot(ends, [found.median()] * 2, color=colour, linewidth=2, zorder=4)
