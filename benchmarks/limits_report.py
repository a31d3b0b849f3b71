"""The tables of the benchmark of time limits, from its CSV files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from report import about_busy, machine, read, table, write

if TYPE_CHECKING:
    import pandas as pd

LIMITS_S = (1.0, 5.0, 20.0)
SHARE, GRACE_S = 0.1, 1.0
"""A process may end this share of its limit and so many seconds after it, once the instance is read."""
ABOUT = {
    "allocation": "Allocation: 10,000 jobs, 3 resources (synthetic)",
    "staging": "Staging: 300 layers, 32 types, tight limits of units (synthetic)",
    "consolidation": "Consolidation: 1,000 servers, 5,000 jobs, 3 resources, 4 shapes (synthetic)",
    "openb": "Consolidation: openb, 1,213 servers, pods that ask for 1.3 times the GPUs",
}
SHOWN = {
    "method": "method",
    "limit_s": "limit s",
    "process_s": "process s",
    "over_s": "over s",
    "processor_s": "processor s",
    "status": "status",
    "limit": "stopped by",
    "gap": "gap",
    "behind": "behind the best heuristic, %",
    "machine_load": "other load",
}


def write_report(folder: Path) -> None:
    """Write `limits.md`."""
    names = (f"limits-{name}" for name in ABOUT)
    rows = read(folder, *(name for name in names if (folder / f"{name}.csv").exists()))
    write(folder, "limits", text(rows))


def text(rows: pd.DataFrame) -> Iterator[str]:
    """Yield the parts of the report."""
    limits = ", ".join(f"{limit:g}" for limit in LIMITS_S)
    yield "# Time limits: measured results"
    yield (
        f"{machine()}. Each row is a whole process: `clusterplan "
        f"solve --time-limit` with {limits} s, which starts the interpreter, reads the instance, solves, "
        "checks and prints. Beside what a process takes that only reads the instance, it may take "
        f"{SHARE:.0%} of the limit and {GRACE_S:g} s more than the limit (column over). A plan is compared "
        "with the best of the heuristics that keep the same limit, at the first objective at which they "
        "differ; a negative figure is a better plan."
    )
    yield from about_busy(
        rows,
        "their seconds are too high. The seconds of processors tell how long a process with one thread takes "
        "by itself.",
    )
    yield "## Summary"
    yield table(summary(rows))
    yield "## What takes longer than it may"
    over = rows[~rows["within"].astype(bool)]
    yield table(shown(over, with_instance=True)) if len(over) else "Nothing in this run."
    for name, own in rows.groupby("instance", sort=False):
        yield f"## {ABOUT[str(name)]}"
        yield f"Reading the instance, with the start of the interpreter, takes {own['read_s'].min():.2f} s."
        yield table(shown(own))


def summary(rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield for each instance and limit how many methods keep it, and which takes longest."""
    for (name, limit), own in rows.groupby(["instance", "limit_s"], sort=False):
        worst = own.loc[own["over_s"].idxmax()]
        planned = own[own["behind_heuristics"].notna()]
        behind = planned[planned["behind_heuristics"] > 0]["method"]
        exact = planned.loc[planned["method"] == "exact", "behind_heuristics"]
        yield {
            "instance": name,
            "limit s": limit,
            "within": f"{own['within'].astype(bool).sum()} of {len(own)}",
            "longest": f"{worst['method']} {worst['process_s']:.2f} s",
            "with a plan": len(planned),
            "worse than the best heuristic": len(behind),
            "exact behind it, %": 100 * exact.iloc[0] if len(exact) else float("nan"),
        }


def shown(rows: pd.DataFrame, with_instance: bool = False) -> pd.DataFrame:
    """Return the columns that a reader wants."""
    named = rows.assign(behind=100 * rows["behind_heuristics"])
    columns = {"instance": "instance", **SHOWN} if with_instance else SHOWN
    return named[[*columns]].rename(columns=columns)
