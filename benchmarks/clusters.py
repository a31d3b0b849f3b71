"""Clusters as they are: every consolidation method on a trace with shared GPUs, on Philly, and on Tiresias.

Run with `make bench-clusters`; what the data is missing for is left out, with a line. Writes to
`benchmarks/results/`:

* `clusters.csv`: a row for each method on each instance;
* `clusters.md`: tables of them, beside the figures that others have published.

The instances: each list of pods of the openb trace on its 1,213 servers, for the most GPUs at 100 and 130 %
of the GPUs asked for, pooled and as single devices, and with every pod placed on the fewest servers at 40
and 80 %; the jobs of two instants of the Philly trace; the 60 jobs of Tiresias on 32 servers; and two
synthetic clusters. Every solve is a process of its own.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clusters_report import DEVICES, PLACED_LOADS, VALUE_LOADS, write_report
from runner import FIGURES, Row, data_folder, machine_load, options, run_cases, solved, tell_absent, verified

LIMIT_S = 60.0
PATIENCE, PATIENCE_S = 2.0, 60.0
"""A process is killed after so many times its limit and so many seconds."""
THREADS = 2
MAX_COEFFICIENTS = 2_000_000
"""Textbook models of more jobs times servers are not tried: they are refused, or end without a plan."""
TEXTBOOK = ("milp:", "cp-sat")
NOT_COMPARED = ("auto", "brute-force")
"""One is `exact` again, the other is for instances that fit a page."""
MILLI = 1_000
PHILLY = (("2017-10-09 08:00", 80), ("2017-11-01 12:00", 80), ("2017-11-01 12:00", 100))
"""Instants, and servers of 8 GPUs on which their jobs are to be placed."""
GENERATED = (0.95, 1.4)
"""Loads of the synthetic clusters."""
COLUMNS = (
    *("cluster", "list", "load", "servers", "jobs", "method", "threads", "limit_s", *FIGURES),
    *("asked", "total", "value", "value_bound", "value_certified", "in_use", "in_use_bound"),
    *("in_use_certified", "total_s", "verify_s", "verified", "peak_gib", "machine_load", "message"),
)
_NAMES = {"value": "value", "servers": "in_use"}
"""Objectives that have columns."""


def instances() -> Iterator[Row]:
    """Yield what each instance is made of; say which are left out."""
    folder = data_folder("openb")
    lists = sorted(folder.glob("pods_*.csv*")) if folder else []
    for file in lists:
        for load in (*VALUE_LOADS, *PLACED_LOADS):
            name = file.name.split(".")[0].removeprefix("pods_")
            yield {"cluster": "openb", "list": name, "load": load, "file": str(file)}
        for load in VALUE_LOADS:
            yield {"cluster": DEVICES, "list": name, "load": load, "file": str(file)}
    folder = data_folder("pollux")
    for at, servers in PHILLY if folder else ():
        yield {"cluster": "philly", "list": at, "load": None, "servers": servers, "file": str(folder)}
    if tiresias := data_folder("tiresias"):
        yield {"cluster": "tiresias", "list": "60 jobs on n32g4", "load": None, "file": str(tiresias)}
    for load in GENERATED:
        yield {"cluster": "generated", "list": "300 servers, 450 jobs", "load": load}
    tell_absent("openb", "pollux", "tiresias")


def made(case: Row) -> Any:
    """Return an instance."""
    from clusterplan.instances.consolidation.generate import generate_consolidation
    from clusterplan.instances.importers import import_openb, import_philly, import_tiresias

    file, load = Path(case.get("file", "")), case["load"]
    if case["cluster"] in ("openb", DEVICES):
        devices, must_place = case["cluster"] == DEVICES, load in PLACED_LOADS
        return import_openb(file.with_name("nodes.csv"), file, load, devices=devices, must_place=must_place)
    if case["cluster"] == "philly":
        return import_philly(file / "philly.csv", case["list"], case["servers"])
    if case["cluster"] == "tiresias":
        return import_tiresias(file / "60_job.csv", file / "n32g4.csv")
    return generate_consolidation(300, 450, load=load, seed=1, resources=3, shapes=4)


def gpus_of(server: Any) -> float:
    """Return the GPUs of a server in the unit of the jobs' values: as amounts, or devices of 1,000 each."""
    devices = (server.devices or {}).get("gpu")
    return float(server.available.get("gpu", 0.0) if devices is None else MILLI * devices.count)


def measured(case: Row) -> Iterator[Row]:
    """Make an instance, solve it, check the result, and yield the figures."""
    instance, method = made(case), case["method"]
    row: Row = {
        "jobs": len(instance.jobs),
        "servers": len(instance.expanded_servers),
        "asked": sum(job.worth for job in instance.jobs),
        "total": sum(map(gpus_of, instance.expanded_servers)),
        "machine_load": machine_load(),
    }
    if method.startswith(TEXTBOOK) and row["jobs"] * row["servers"] > MAX_COEFFICIENTS:
        yield row | {"status": "not run", "limit": "none", "message": "the model would be too large"}
        return
    result, figures = solved(instance, method, case["limit_s"], case["threads"])
    row |= figures
    for record in result.objectives if result else ():
        if name := _NAMES.get(record.name):
            row |= {name: record.value, f"{name}_bound": record.bound}
            row[f"{name}_certified"] = record.certified_bound
    yield row | (verified(instance, result) if result else {})


def cases(given: argparse.Namespace) -> Iterator[Row]:
    """Yield a case for each method on each instance."""
    from clusterplan.solvers.registry import solvers_for

    asked = {"threads": THREADS, "limit_s": given.limit_s}
    asked["patience_s"] = PATIENCE * given.limit_s + PATIENCE_S
    names = [solver.name for solver in solvers_for("consolidation", available=True)]
    for instance in instances():
        for method in names:
            if method not in NOT_COMPARED:
                yield {**instance, "method": method, **asked}


if __name__ == "__main__":
    run_cases(
        options(__doc__, limit_s=(LIMIT_S, "seconds of each method")),
        "clusters",
        ("cluster", "list", "load", "method"),
        cases,
        measured,
        COLUMNS,
        write_report,
    )
