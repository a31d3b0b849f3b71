"""The tables of the benchmark of schedulers, from its CSV file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from report import NOTHING, about_busy, checked, hundredths, machine, read, table, write, written

if TYPE_CHECKING:
    import pandas as pd

SHARING = ("antman", "muri-s", "muri-l")
"""Published policies whose jobs share a GPU: the bound is of exclusive GPUs, and says nothing of them."""
ABOUT = {
    "philly-3000": "Durations are cut to a week, and those under a second count as one.",
    "philly-all": "Durations are as in the file, but those under a second count as one.",
    "muri": (
        "Lengths, overheads and order of `srtf`, `srsf` and `las` are those of Muri's simulator "
        "(`muri.py`; `las` is its Tiresias-L); `exact` has the same lengths without overheads. "
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
NOT_COVERED = ("not covered", "not covered; less than the bound, so sharing pays")


tenths = written(",.1f")


def write_report(folder: Path) -> None:
    """Write `scheduling.md`."""
    write(folder, "scheduling", text(read(folder, "scheduling")))


def text(rows: pd.DataFrame) -> Iterator[str]:
    """Yield the parts of the report."""
    rows = rows.sort_values("part", key=lambda part: part.map([*ABOUT].index), kind="stable")
    ours = rows[rows["status"] != "published"]
    yield "# Schedulers on traces: measured results"
    yield (
        f"{machine()}; each row is a process of its own. `exact` and "
        f"`price` have {ours['threads'].max():g} threads and the seconds that are shown as their limit; "
        "policies have one thread and end by themselves. Seconds are a whole library call with the checks of "
        "plan and bound, once compiled loops are loaded; `check s` is the independent check of the result "
        "afterwards. A gap is (mean − bound) / mean, with the best certified bound of the trace: no "
        "scheduler that gives jobs GPUs of their own averages less."
    )
    yield from about_busy(ours, "alone they would be faster, and `exact` and `price` would get further.")
    yield "## Summary"
    yield table(summary(rows))
    for (part, trace, gpus), own in rows.groupby(["part", "trace", "gpus"], sort=False):
        yield f"## {trace[:1].upper()}{trace[1:]}, {gpus:,} GPUs"
        yield f"{own['jobs'].max():,.0f} jobs. {ABOUT[part]}"
        yield table(shown(own))


def bound_of(rows: pd.DataFrame) -> float:
    """Return the best certified bound on the mean completion time of one trace."""
    checked = rows[rows["verified"].astype(str) == "True"]
    return float((checked["objective"] * (1 - checked["certified_gap"])).max())


def summary(rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
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
            "gap, %": hundredths(gap(best["objective"], bound)),
            "fifo's gap, %": hundredths(gap(fifo.iloc[0], bound)) if len(fifo) else NOTHING,
            "limit of exact s": f"{limits.iloc[0]:g}" if len(limits) else NOTHING,
        }


def shown(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the columns that a reader wants, the best first."""
    bound = bound_of(rows)
    mean = rows["objective"].fillna(rows["published"].where(rows["status"] == "published"))
    ordered = rows.assign(mean=mean).sort_values("mean")
    published = ordered["status"] == "published"
    columns: dict[str, Any] = {
        "method": ordered["method"].where(~published, ordered["method"] + " (published)"),
        "mean s": ordered["objective"].map(tenths),
        "published s": ordered["published"].map(tenths),
        "gap, %": [
            NOT_COVERED[value < bound] if method in SHARING else hundredths(gap(value, bound))
            for method, value in zip(ordered["method"], ordered["mean"], strict=True)
        ],
        "seconds": ordered["solve_s"].map(hundredths),
        "processor s": ordered["processor_s"].map(hundredths),
        "check s": ordered["verify_s"].map(hundredths),
        "GiB": ordered["peak_gib"].map(hundredths),
        "checked": ordered["verified"].map(checked),
    }
    if not ordered["published"].notna().any():
        del columns["published s"]
    failed = ordered["objective"].isna() & ~published
    if failed.any():
        said = ordered["status"] + ": " + ordered["message"].fillna("")
        columns["message"] = said.where(failed, "")
    return columns


def gap(mean: float, bound: float) -> float:
    """Return by how much of itself a mean is above a bound, in per cent."""
    return 100 * (mean - bound) / mean
