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
import itertools
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import FIGURES, RESULTS, in_own_process, kept, peak_gib, say, store

LIMIT_S = 60.0
PATIENCE, PATIENCE_S = 2.0, 60.0
"""A process is killed after so many times its limit and so many seconds."""
THREADS = 2
MOST_COEFFICIENTS = 2_000_000
"""Textbook models of more jobs times servers are not tried: they are refused, or end without a plan."""
TEXTBOOK = ("milp:", "cp-sat")
NOT_COMPARED = ("auto", "brute-force")
"""One is `exact` again, the other is for instances that fit a page."""
DEVICES = "openb, single devices"
MILLI = 1_000
VALUE_LOADS = (1.0, 1.3)
PLACED_LOADS = (0.4, 0.8)
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


def data_folder(name: str) -> Path | None:
    """Return a folder of published data; None where there is none."""
    given = os.environ.get("CLUSTERPLAN_DATA")
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = (Path(given) if given else beside) / name
    return folder if folder.is_dir() else None


def instances() -> Iterator[dict[str, Any]]:
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
    absent = [name for name in ("openb", "pollux", "tiresias") if data_folder(name) is None]
    if absent:
        where = "../shared/data or $CLUSTERPLAN_DATA"
        print(f"left out: {', '.join(absent)}; there is no such folder in {where}", file=sys.stderr)


def made(case: dict[str, Any]) -> Any:
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


def measured(case: dict[str, Any]) -> dict[str, Any]:
    """Make an instance, solve it, check the result, and return the figures."""
    import clusterplan

    instance, method = made(case), case["method"]
    row: dict[str, Any] = {
        "jobs": len(instance.jobs),
        "servers": len(instance.expanded_servers),
        "asked": sum(job.worth for job in instance.jobs),
        "total": sum(map(gpus_of, instance.expanded_servers)),
        "machine_load": round(os.getloadavg()[0], 1),
    }
    if method.startswith(TEXTBOOK) and row["jobs"] * row["servers"] > MOST_COEFFICIENTS:
        return row | {"status": "not run", "limit": "none", "message": "the model would be too large"}
    options = clusterplan.SolveOptions(time_limit_s=case["limit_s"], threads=case["threads"])
    start = time.perf_counter()
    try:
        result = clusterplan.solve(instance, method, options)
    except clusterplan.ClusterplanError as error:
        return row | {"status": "refused", "limit": "none", "message": str(error)[:200]}
    row |= {"total_s": time.perf_counter() - start, "peak_gib": peak_gib(), "message": result.message}
    row |= {key: getattr(result, key) for key in FIGURES}
    for record in result.objectives:
        if name := _NAMES.get(record.name):
            row |= {name: record.value, f"{name}_bound": record.bound}
            row[f"{name}_certified"] = record.certified_bound
    start = time.perf_counter()
    verification = clusterplan.verify(instance, result)
    row |= {"verify_s": time.perf_counter() - start, "verified": verification.ok}
    return row | ({} if verification.ok else {"message": "; ".join(verification.faults)})


def rows(trial: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a row for each method on each instance."""
    from clusterplan.solvers.registry import solvers_for

    names = [solver.name for solver in solvers_for("consolidation", available=True)]
    for instance in instances():
        if trial.cluster and instance["cluster"] not in trial.cluster:
            continue
        if trial.list and instance["list"] not in trial.list:
            continue
        if trial.load and str(instance["load"]) not in trial.load:
            continue
        for method in names:
            if method not in NOT_COMPARED and (trial.method is None or method in trial.method):
                case = {**instance, "method": method, "threads": THREADS, "limit_s": trial.limit_s}
                patience_s = PATIENCE * trial.limit_s + PATIENCE_S
                yield {**case, **in_own_process(__file__, case, patience_s)[-1]}


def main() -> None:
    """Measure all methods on all clusters, or some."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--cluster", action="append", help="only this one; repeatable")
    parser.add_argument("--list", action="append", help="only this list, or instant; repeatable")
    parser.add_argument("--load", action="append", help="only this load; repeatable")
    parser.add_argument("--method", action="append", help="only this method; repeatable")
    parser.add_argument("--limit-s", type=float, default=LIMIT_S, help="seconds of each method")
    parser.add_argument("--report", action="store_true", help="only write the report anew")
    given = parser.parse_args()
    if given.case:
        say(measured(json.loads(given.case)))
        return
    if not given.report:
        asked = {key: getattr(given, key) for key in ("cluster", "list", "load", "method")}

        def measured_again(row: dict[str, str]) -> bool:
            return all(names is None or row[key] in names for key, names in asked.items())

        store("clusters", itertools.chain(kept("clusters", measured_again), rows(given)), COLUMNS)
    from clusters_report import write_report

    write_report(RESULTS)


if __name__ == "__main__":
    main()
