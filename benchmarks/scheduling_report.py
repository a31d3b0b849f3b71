"""The tables of the benchmark of schedulers, from its CSV file."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from allocation_report import table

ALONE = 2.0
"""Figures are said to be of a busy machine where more processes than this were running on average.

The run before, with its two threads, counts too.
"""
SHARING = ("antman", "muri-s", "muri-l")
"""Published policies whose jobs share a GPU: the bound is of exclusive GPUs, and says nothing of them."""
ABOUT = {
    "philly-3000": "Durations are cut to a week, and those under a second count as one.",
    "philly-all": "Durations are as in the file, but those under a second count as one.",
    "muri": (
        "Lengths, overheads and order of `srtf`, `srsf` and `las` are those of Muri's simulator "
        "(`semantics=muri`; `las` is its Tiresias-L); `exact` has the same lengths without overheads. "
        "Published: Muri (SIGCOMM 2022), figures 9 and 10. Policies that let jobs share a GPU are not "
        "covered by a bound of exclusive GPUs."
    ),
    "pollux": (
        "Every job is taken to make 10,000 steps, since the files do not say how many: the published figures "
        "(Pollux, OSDI 2021) are of other lengths, and stand beside ours without measuring the same."
    ),
    "pollux-malleable": (
        "The same jobs, which may run on every measured number of GPUs with the same batch, for as many "
        "passes over their data as in the simulator. `optimus`, `optimus-exact` and `dl2` decide every 60 s; "
        "with `aim=speeds` the speeds of jobs count and not what time they still take."
    ),
    "malleable": "Made up: jobs run on 1, 2, 4, … GPUs, with speeds that rise less than the GPUs.",
}
NO_BOUND = "–"
NOT_COVERED = ("not covered", "not covered; less than the bound, so sharing pays")


def write_report(folder: Path) -> None:
    """Write `scheduling.md`."""
    rows = pd.read_csv(folder / "scheduling.csv")
    (folder / "scheduling.md").write_text("\n\n".join(text(rows)) + "\n", encoding="utf-8")


def text(rows: pd.DataFrame) -> Iterator[str]:
    """Yield the parts of the report."""
    rows = rows.sort_values("part", key=lambda part: part.map([*ABOUT].index), kind="stable")
    ours = rows[rows["status"] != "published"]
    yield "# Schedulers on traces: measured results"
    yield (
        f"On {platform.machine()} with {os.cpu_count()} cores; each row is a process of its own. `exact` and "
        f"`price` have {ours['threads'].max():g} threads and the seconds that are shown as their limit; "
        "policies have one thread and end by themselves. Seconds are a whole library call with the checks of "
        "plan and bound, once compiled loops are loaded; `check s` is the independent check of the result "
        "afterwards. A gap is (mean − bound) / mean, with the best certified bound of the trace: no "
        "scheduler that gives jobs GPUs of their own averages less."
    )
    busy = ours["machine_load"] > ALONE
    if busy.any():
        yield (
            f"**{busy.sum()} of {len(ours)} rows were measured while other processes used the cores**, up to "
            f"{ours['machine_load'].max():.0f} at a time: alone they would be faster, and `exact` and "
            "`price` would get further."
        )
    yield "## Summary"
    yield table(pd.DataFrame(summary(rows)))
    for (part, trace, gpus), own in rows.groupby(["part", "trace", "gpus"], sort=False):
        yield f"## {trace[:1].upper()}{trace[1:]}, {gpus:,} GPUs"
        yield f"{own['jobs'].max():,.0f} jobs. {ABOUT[part]}"
        yield table(shown(own))


def bound_of(rows: pd.DataFrame) -> float:
    """Return the best certified bound on the mean completion time of one trace."""
    checked = rows[rows["verified"].astype(str) == "True"]
    return float((checked["objective"] * (1 - checked["certified_gap"])).max())


def summary(rows: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Yield for each trace the bound, the best schedule, the best policy, and how far FIFO is away."""
    for (_, trace, gpus), own in rows.groupby(["part", "trace", "gpus"], sort=False):
        planned = own[own["objective"].notna()]
        if planned.empty:
            continue
        bound, best = bound_of(own), planned.loc[planned["objective"].idxmin()]
        fifo = planned.loc[planned["method"] == "fifo", "objective"]
        limits = own.loc[own["method"] == "exact", "limit_s"]
        yield {
            "trace": trace,
            "GPUs": gpus,
            "bound s": f"{bound:,.0f}",
            "best mean s": f"{best['objective']:,.0f}",
            "found by": best["method"],
            "gap, %": two_places(gap(best["objective"], bound)),
            "fifo's gap, %": two_places(gap(fifo.iloc[0], bound)) if len(fifo) else NO_BOUND,
            "limit of exact s": f"{limits.iloc[0]:g}" if len(limits) else NO_BOUND,
        }


def shown(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the columns that a reader wants, the best first."""
    bound = bound_of(rows)
    mean = rows["objective"].fillna(rows["published"].where(rows["status"] == "published"))
    ordered = rows.assign(mean=mean).sort_values("mean")
    said = {"True": "yes", "False": "NO"}
    published = ordered["status"] == "published"
    columns = {
        "method": ordered["method"].where(~published, ordered["method"] + " (published)"),
        "mean s": ordered["objective"].map(whole),
        "published s": ordered["published"].map(whole),
        "gap, %": [
            NOT_COVERED[value < bound] if method in SHARING else two_places(gap(value, bound))
            for method, value in zip(ordered["method"], ordered["mean"], strict=True)
        ],
        "seconds": ordered["solve_s"].map(two_places),
        "processor s": ordered["processor_s"].map(two_places),
        "check s": ordered["verify_s"].map(two_places),
        "GiB": ordered["peak_gib"].map(two_places),
        "checked": ordered["verified"].astype(str).map(said).fillna(NO_BOUND),
    }
    frame = pd.DataFrame(columns)
    if not ordered["published"].notna().any():
        frame = frame.drop(columns="published s")
    failed = ordered["objective"].isna() & ~published
    if failed.any():
        frame["message"] = (ordered["status"] + ": " + ordered["message"].fillna("")).where(failed, "")
    return frame


def gap(mean: float, bound: float) -> float:
    """Return by how much of itself a mean is above a bound, in per cent."""
    return 100 * (mean - bound) / mean


def two_places(value: float) -> str:
    """Return a figure as text."""
    return NO_BOUND if pd.isna(value) else f"{value:,.2f}"


def whole(value: float) -> str:
    """Return seconds as text, with a tenth."""
    return NO_BOUND if pd.isna(value) else f"{value:,.1f}"


if __name__ == "__main__":
    write_report(Path(__file__).parent / "results")
