"""The tables of the benchmark of clusters as they are, from its CSV file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from report import about_busy, at_the_defaults, checked, hundredths, machine, read, table, whole, write

if TYPE_CHECKING:
    import pandas as pd

DEVICES = "openb, single devices"
VALUE_LOADS, PLACED_LOADS = (1.0, 1.3), (0.4, 0.8)
"""Of openb: for the most GPUs given, and with every pod placed on the fewest servers."""
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
    rows = read(folder, "clusters")
    rows["given"] = 100 * rows["value"] / rows["total"]
    write(folder, "clusters", [*text(rows), *at_the_defaults(folder, "openb")])


def text(rows: pd.DataFrame) -> Iterator[str]:
    """Yield the parts of the report."""
    yield "# Clusters as they are: measured results"
    yield (
        f"{machine()}; each row is a process of its own, with up to "
        f"{rows['threads'].max():g} threads and {rows['limit_s'].max():g} s. The openb and Philly traces and "
        "the jobs of Tiresias are others' data, the clusters called generated are synthetic. Seconds are a "
        "whole library call with the checks of plan and certificate; `check s` is the independent check of "
        "the result afterwards. A gap is that of the first objective that is not proven."
    )
    yield from about_busy(rows, "with all of the time they would be better.")
    if len(openb := rows[rows["cluster"].isin(["openb", DEVICES])]):
        yield from about_openb(openb)
    for (cluster, name, load), own in rows.groupby(["cluster", "list", "load"], sort=False, dropna=False):
        said = f", load {load:g}" if load > 0 else ""
        yield f"## {str(cluster).capitalize()}: {name}{said}"
        yield description(own.iloc[0])
        yield table(shown(own))


def shown(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the columns that a reader wants, the best plan first."""
    ordered = rows.sort_values(["given", "in_use"], ascending=[False, True])
    texts = {
        "given": ordered["given"].map(hundredths),
        "in_use": ordered["in_use"].map(whole),
        "verified": ordered["verified"].map(checked),
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
        yield table(ours.sort_values(ours.columns[0], ascending=False).map(hundredths).reset_index())
    yield "### Published"
    loads = [f"{load:.0%}" for load in VALUE_LOADS]
    yield table(
        {"published, list default": name, **dict(zip(loads, map(hundredths, figures), strict=True))}
        for name, figures in PUBLISHED.items()
    )
    placed = rows[rows["load"].isin(PLACED_LOADS) & rows["in_use"].notna()]
    if len(placed):
        yield "### Every pod placed: servers in use"
        fewest = placed.pivot_table(index="method", columns=["list", "load"], values="in_use", sort=False)
        bound = placed.groupby(["list", "load"], sort=False)["in_use_certified"].max()
        fewest.loc["certified: not fewer than"] = bound
        fewest.columns = [f"{name}, {load:.0%}" for name, load in fewest.columns]
        yield table(fewest.map(whole).reset_index())


def description(row: pd.Series) -> str:
    """Return what is asked for, and of what."""
    asked = 100 * row["asked"] / row["total"] if row["total"] else float("nan")
    must = " Every pod must be placed." if row["cluster"] == "openb" and row["load"] in PLACED_LOADS else ""
    size = f"{row['servers']:,.0f} servers, {row['jobs']:,.0f} jobs"
    return f"{size}, which ask for {asked:.1f} % of the GPUs.{must}"
