"""The tables of the benchmark of clusters as they are, from its CSV file."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from allocation_report import at_the_defaults, table
from clusters import DEVICES, PLACED_LOADS, VALUE_LOADS

PUBLISHED = {
    "FGD": (95.23, 95.39),
    "best fit": (92.86, 93.08),
    "GPU packing": (91.78, 92.00),
    "dot product": (90.62, 90.85),
    "random": (86.30, 87.47),
}
"""GPUs given, %, of the list `default` where pods arrive until 100 and 130 % are asked for."""
SOURCE = (
    "Published for the list `default`, by Q. Weng et al., *Beware of Fragmentation*, USENIX ATC 2023, whose "
    "simulator puts one pod after the other on single devices, without knowing those to come"
)
ALONE = 2.0
"""Figures are said to be of a busy machine where more processes than this were running on average.

The run before, with its two threads, counts too.
"""
SHOWN = {
    "method": "method",
    "status": "status",
    "limit": "stopped by",
    "given": "GPUs given, %",
    "in_use": "servers in use",
    "gap": "gap",
    "certified_gap": "certified gap",
    "total_s": "seconds",
    "verify_s": "check s",
    "verified": "checked",
}


def write_report(folder: Path) -> None:
    """Write `clusters.md`."""
    rows = pd.read_csv(folder / "clusters.csv")
    rows["given"] = 100 * rows["value"] / rows["total"]
    parts = [*text(rows), *at_the_defaults(folder, "openb")]
    (folder / "clusters.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def text(rows: pd.DataFrame) -> Iterator[str]:
    """Yield the parts of the report."""
    yield "# Clusters as they are: measured results"
    yield (
        f"On {platform.machine()} with {os.cpu_count()} cores; each row is a process of its own, with up to "
        f"{rows['threads'].max():g} threads and {rows['limit_s'].max():g} s. The openb and Philly traces and "
        "the jobs of Tiresias are others' data, the clusters called generated are synthetic. Seconds are a "
        "whole library call with the checks of plan and certificate; `check s` is the independent check of "
        "the result afterwards. A gap is that of the first objective that is not proven."
    )
    busy = rows["machine_load"] > ALONE
    if busy.any():
        yield (
            f"**{busy.sum()} of {len(rows)} rows were measured while other processes used the cores**, up to "
            f"{rows['machine_load'].max():.0f} at a time: with all of the time they would be better."
        )
    if len(openb := rows[rows["cluster"].isin(["openb", DEVICES])]):
        yield from about_openb(openb)
    for (cluster, name, load), own in rows.groupby(["cluster", "list", "load"], sort=False, dropna=False):
        said = "" if pd.isna(load) else f", load {load:g}"
        yield f"## {str(cluster).capitalize()}: {name}{said}"
        yield description(own.iloc[0])
        yield table(shown(own))


def shown(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the columns that a reader wants, the best plan first."""
    ordered = rows.sort_values(["given", "in_use"], ascending=[False, True])
    said = {"True": "yes", "False": "NO"}
    texts = {
        "given": ordered["given"].map(two_places),
        "in_use": ordered["in_use"].map(whole),
        "verified": ordered["verified"].astype(str).map(said),
    }
    return ordered.assign(**texts)[[*SHOWN]].rename(columns=SHOWN)


def about_openb(rows: pd.DataFrame) -> Iterator[str]:
    """Yield what the methods reach on the openb trace, beside what others published."""
    yield "## openb beside published figures"
    yield (
        "Pods arrive, shuffled, until they ask for 100 or 130 % of the 6,212 GPUs; how many of the GPUs are "
        f"given, in per cent. {SOURCE}. Lists here are other samples of the same trace, and all pods are "
        "known: the figures stand side by side, and do not measure the same. Pooled GPUs of a server are one "
        "amount; a single device is whole or shared, and what is left of it serves nobody who needs more."
    )
    valued = rows[rows["load"].isin(VALUE_LOADS) & rows["given"].notna()]
    for cluster, own in valued.groupby("cluster", sort=False):
        yield f"### {'Single devices' if cluster == DEVICES else 'Pooled'}"
        ours = own.pivot_table(index="method", columns=["list", "load"], values="given", sort=False)
        ours.columns = [f"{name}, {load:.0%}" for name, load in ours.columns]
        yield table(ours.sort_values(ours.columns[0], ascending=False).map(two_places).reset_index())
    yield "### Published"
    lines = [
        {
            "published, list default": name,
            **{f"{load:.0%}": two_places(figure) for load, figure in zip(VALUE_LOADS, figures, strict=True)},
        }
        for name, figures in PUBLISHED.items()
    ]
    yield table(pd.DataFrame(lines))
    placed = rows[rows["load"].isin(PLACED_LOADS) & rows["in_use"].notna()]
    if len(placed):
        yield "### Every pod placed: servers in use"
        fewest = placed.pivot_table(index="method", columns=["list", "load"], values="in_use", sort=False)
        bound = placed.groupby(["list", "load"], sort=False)["in_use_certified"].max()
        fewest.loc["certified: not fewer than"] = bound
        fewest.columns = [f"{name}, {load:.0%}" for name, load in fewest.columns]
        yield table(fewest.map(whole).reset_index())


def two_places(share: float) -> str:
    """Return a percentage as text."""
    return "–" if pd.isna(share) else f"{share:.2f}"


def whole(count: float) -> str:
    """Return a whole number as text."""
    return "–" if pd.isna(count) else f"{count:,.0f}"


def description(row: pd.Series) -> str:
    """Return what is asked for, and of what."""
    asked = 100 * row["asked"] / row["total"] if row["total"] else float("nan")
    must = " Every pod must be placed." if row["cluster"] == "openb" and row["load"] in PLACED_LOADS else ""
    size = f"{row['servers']:,.0f} servers, {row['jobs']:,.0f} jobs"
    return f"{size}, which ask for {asked:.1f} % of the GPUs.{must}"


if __name__ == "__main__":
    write_report(Path(__file__).parent / "results")
