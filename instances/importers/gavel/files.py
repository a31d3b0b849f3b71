"""What the importers of Gavel's data share: its speed table and its traces of jobs (OSDI'20).

The speed table is JSON: GPU type → ``('Model (batch size B)', GPUs)`` → ``null`` → steps per second of the
job alone; a type with ``_unconsolidated`` behind its name has the speeds of jobs spread over servers. A trace
has one job a line, with tabs between ten columns (type, command, folder, step flag, needs data, total steps,
GPUs, priority, service-level objective, arrival) or seven (type, command, step flag, needs data, total steps,
arrival, GPUs).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from ...common.errors import Fault, Faults, InstanceError
from ...common.faults import validated
from ...common.fields import (
    Cell,
    Model,
    Name,
    NonNegative,
    Number,
    Positive,
    PositiveCount,
    ServerCount,
)
from ...common.printable import shortened, some
from ...files.limits import MOST_SMALL_ROWS
from ...files.reading import fail, read_mapping, read_text
from ..importer import ImportOptions, Option

SOURCE = "stanford-futuredata/gavel (commit c4fa400, MIT)"
COLUMNS = {
    10: {"model": 0, "steps": 5, "gpus": 6, "priority": 7, "slo": 8, "arrival_s": 9},
    7: {"model": 0, "steps": 4, "arrival_s": 5, "gpus": 6},
}
"""Number of columns of a trace → where each thing stands that is read."""

UNCONSOLIDATED = "_unconsolidated"
_KEY = re.compile(r"\('([^']+)', ([1-9][0-9]{0,8})\)")
MOST_TABS = 1000

Capacity = Annotated[
    dict[Name, PositiveCount], Option("Allocation: GPUs of each type, such as v100=64,p100=64,k80=64.")
]
GpuType = Annotated[Name, Option("Consolidation: GPUs of the servers, as v100.")]
Servers = Annotated[ServerCount, Option("Consolidation: how many servers.")]
GpusPerServer = Annotated[PositiveCount, Option("Consolidation: GPUs of each server.")]


class GavelFiles(ImportOptions):
    """The files, and how much of the trace is read."""

    throughputs: Annotated[Path, Option("simulation_throughputs.json")]
    trace: Annotated[Path, Option("A .trace file.")]
    first: Annotated[PositiveCount | None, Option("Only the first N jobs of the trace.")] = None

    def source(self) -> str:
        """Return what an instance says of its source."""
        return f"{self.throughputs.name} and {self.trace.name}, in the layout of {SOURCE}"

    def jobs(self) -> tuple[dict[str, TraceJob], int]:
        """Return the jobs that are considered, by name, and how many the trace has.

        Raises
        ------
        InstanceError
            If the trace cannot be read, or a line is wrong.
        """
        listed = read_trace(self.trace)
        # As many digits as the largest number needs, so that names sort as numbers do.
        width = max(3, len(str(max(listed))))
        first = islice(listed.items(), self.first)
        return {f"job-{number:0{width}d} {job.model}": job for number, job in first}, len(listed)


Speeds = dict[str, dict[int, float]]
"""Model → GPUs → steps per second, on one GPU type."""


class _Measured(Model):
    null: NonNegative


class TraceJob(Model):
    """One line of a trace, which is the `line`-th of its file."""

    model: str
    steps: Positive
    gpus: PositiveCount
    arrival_s: Number
    priority: Number | None = None
    slo: Number | None = None
    line: int = 0

    @property
    def weight(self) -> float:
        """The priority where it is usable, else 1."""
        return self.priority if self.priority is not None and self.priority > 0 else 1.0


def read_table(path: Path) -> dict[str, Any]:
    """Return the speed table as plain data, by GPU type.

    Raises
    ------
    InstanceError
        If the file is no mapping.
    """
    what = "is not a mapping of GPU types; Gavel's simulation_throughputs.json is needed"
    return read_mapping(path, what)


def gpu_types(table: dict[str, Any]) -> list[str]:
    """Return the GPU types of a speed table."""
    return [name for name in table if not name.endswith(UNCONSOLIDATED)]


def speeds_of(table: dict[str, Any], name: str, source: str) -> tuple[Speeds, list[str]]:
    """Return the speeds of one GPU type, and the entries left out because they are 0.

    Raises
    ------
    InstanceError
        If an entry is wrong; one fault each.
    """
    entries = table[name]
    if not isinstance(entries, dict):
        raise fail(source, "is not a mapping of entries such as \"('A3C', 1)\"", name)
    faults, keys = Faults(), {}
    for key, entry in entries.items():
        match = _KEY.fullmatch(key)
        if not match:
            what = "is not a key of the form ('Model (batch size 64)', 2)"
            faults.add(Fault(source, f"{name}.{shortened(key)}", what))
        elif not isinstance(entry, dict) or "null" not in entry:
            what = "has no 'null', the steps per second of the job alone"
            faults.add(Fault(source, f"{name}.{shortened(key)}", what))
        else:
            keys[key] = (match[1], int(match[2]))
    speeds: Speeds = defaultdict(dict)
    zeros = []
    for key, (model, gpus) in keys.items():
        try:
            speed = validated(_Measured, {"null": entries[key]["null"]}, f"{source}: {name}.{key}").null
        except InstanceError as error:
            faults.add_all(error)
            continue
        if speed > 0:
            speeds[model][gpus] = speed
        else:
            zeros.append(f"{key} on {name}")
    faults.refuse()
    return speeds, zeros


def read_trace(path: Path) -> dict[int, TraceJob]:
    """Return the jobs of a trace by their number, counted from 1.

    Raises
    ------
    InstanceError
        If a line is wrong; one fault each.
    """
    source = str(path)
    faults = Faults()
    jobs: dict[int, TraceJob] = {}
    text = read_text(path)
    if text.count("\n") > MOST_SMALL_ROWS:
        raise fail(source, f"has more than {MOST_SMALL_ROWS:,} lines; split it")
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    for position, (number, line) in enumerate(lines, 1):
        try:
            jobs[position] = _trace_job(line, number, source)
        except InstanceError as error:
            faults.add_all(error)
            if faults.stop():
                break
    faults.refuse()
    return jobs


def _trace_job(line: str, number: int, source: str) -> TraceJob:
    where = f"{source}: line {number}"
    cells = line.rstrip("\r").split("\t", MOST_TABS)
    if len(cells) not in COLUMNS:
        raise fail(where, f"has {len(cells)} columns with tabs between them; a trace has 10 or 7")
    row = {name: Cell(cells[index].strip()) for name, index in COLUMNS[len(cells)].items()}
    return validated(TraceJob, {**row, "model": str(row["model"]), "line": number}, where)


def named(names: Iterable[str]) -> str:
    """List distinct names, the first few of them in full; they come from a file and may be anything."""
    distinct = [name[:60] if name.isprintable() else repr(name)[:60] for name in dict.fromkeys(names)]
    return some(distinct)
