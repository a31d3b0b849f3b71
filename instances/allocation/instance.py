"""Allocation instances: jobs that train at a speed that depends on their parameter servers and workers.

Large tables of jobs are checked by columns as a whole, without an object for each row. The types of cells are
those of the fields of `Job`; the rules between fields are those of one job. Suspect rows are validated one by
one as in small tables, which gives the error messages; if one of them turns out to be valid, the whole table
is read row by row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from ..common.arrays import Flags, Ints
from ..common.base import Instance
from ..common.errors import MAX_FAULTS, Fault, InstanceError
from ..common.faults import validated
from ..common.fields import (
    NONE_NAMED,
    TABLE_FILE,
    Amounts,
    Complaint,
    Fields,
    NonNegative,
    Share,
    repeated,
    require,
    rows_or,
    unknown_names,
    validated_in_batches,
)
from ..common.hardware import HardwareCatalogue, fill_from_catalogue
from ..common.servers import AnyServer, each_server, name_complaints
from ..common.speed import broken, range_rules, theta_rules, variant_demands, variant_rules
from ..files.columnar import ColumnarRows, TooManyCells
from ..files.columnar import repeated as repeated_entries
from ..files.columns import Columns
from .job import UNCERTAIN_ASSUMPTIONS, Job, job_rules
from .job_table import MAX_THETA, MODELS, JobTable, current_variants
from .running import Stability, running_jobs

if TYPE_CHECKING:
    import pandas as pd


if TYPE_CHECKING:
    Rows = Sequence[Job]
else:
    Rows = tuple[Job, ...]  # the type in documents; a job table is not validated again

Jobs = Annotated[Rows, *rows_or(JobTable)]
"""A tuple of jobs; at scale a `JobTable`, which holds them in columns."""


def _with_running(schema: dict[str, Any]) -> None:
    """Extend the JSON Schema: servers in place of resources, and a result whose plan runs now."""
    schema["properties"]["running"] = {
        "type": "string",
        "description": "path to a result whose plan runs now, relative to this file",
    }
    require("schema_version", "kind", or_field=("resources", "servers"))(schema)


class AllocationInstance(Instance):
    """How many parameter servers and workers does each job get? (Optimus, EuroSys'18)

    Attributes
    ----------
    objective
        `total_completion_time`, Σ ω_j t_j, or `makespan`, max_j t_j; both in seconds.
    resources
        C_r, how much of each resource the cluster has: what its servers have together, if it has servers.
    prices_usd_per_hour, budget_usd_per_hour
        Price of one unit of a resource, and what all allocated units together may cost per hour.
    network_share
        σ, the share of the time per worker and parameter server that is spent on the network, and saved
        between tasks on one server; 1 if not given.
    catalogue, servers
        Servers on which the tasks are placed: each task is on one of them. A variant for one model of GPU
        asks for a resource that only servers with this model have.
    stability
        The plan that runs now, and what a change of it costs each job; the jobs hold both once it is read.
    """

    model_config = ConfigDict(json_schema_extra=_with_running)
    chosen_with_solve: ClassVar[tuple[str, ...]] = ("stability",)

    kind: Literal["allocation"] = "allocation"
    objective: Literal["total_completion_time", "makespan"] = "total_completion_time"
    resources: Amounts = NONE_NAMED
    prices_usd_per_hour: Amounts = NONE_NAMED
    budget_usd_per_hour: NonNegative | None = None
    network_share: Share | None = None
    catalogue: Annotated[HardwareCatalogue | None, TABLE_FILE] = None
    servers: (
        Annotated[tuple[AnyServer, ...], Field(min_length=1), validated_in_batches(), TABLE_FILE] | None
    ) = None
    jobs: Jobs
    stability: Annotated[Stability | None, Field(exclude=True)] = None

    @model_validator(mode="before")
    @classmethod
    def _resolve(cls, data: Any) -> Any:
        return fill_from_catalogue(
            data,
            "servers",
            lambda machine, _: {"capacity": machine.capacity(), "gpu_model": machine.gpu_model},
        )

    @model_validator(mode="after")
    def _fill_in(self) -> Self:
        if self.servers is not None:
            object.__setattr__(self, "resources", self._amounts())
        if self.stability is not None:
            object.__setattr__(self, "jobs", self._running_jobs(self.stability))
        return self

    @model_serializer(mode="wrap")
    def _without_sums(self, handler: SerializerFunctionWrapHandler) -> Fields:
        """Serialise without the amounts that the servers have together, so that servers can be changed."""
        data: Fields = handler(self)
        if self.servers is not None:
            data.pop("resources", None)
        return data

    def _running_jobs(self, stability: Stability) -> JobTable | tuple[Job, ...]:
        return running_jobs(self.jobs, stability, None if self.servers is None else self.expanded_servers)

    def with_running(self, plan: Sequence[Any], stability_s: float = 0.0) -> Self:
        """Return the instance with the jobs of a plan running as it says, where they are not said to run.

        Parameters
        ----------
        plan
            Entries of a plan, or the same as plain data.
        stability_s
            Seconds that a change of its configuration costs each running job at least.

        Raises
        ------
        InstanceError
            If an entry is wrong.
        """
        entries = [entry.model_dump() if isinstance(entry, BaseModel) else entry for entry in plan]
        stability = validated(Stability, {"seconds": stability_s, "jobs": entries}, f"{self.name}: stability")
        return self.model_copy(update={"jobs": self._running_jobs(stability), "stability": stability})

    def chosen(self) -> Fields:
        """Return what the option --stability says; empty without it."""
        given = self.stability
        return {} if given is None else {"stability": given.model_dump(mode="json")}

    def _amounts(self) -> dict[str, float]:
        """Return how much of each resource the cluster has."""
        if self.servers is None:
            return self.resources
        amounts: dict[str, list[float]] = {}
        for server in self.servers:
            for name in server.capacity:
                available = server.available.get(name, 0.0)
                amounts.setdefault(name, []).append(available * (server.count or 1))
        return {name: math.fsum(parts) for name, parts in amounts.items()}

    def _complaints(self) -> Iterator[Complaint]:
        table = self.jobs if isinstance(self.jobs, JobTable) else None
        yield from repeated(table.names if table else (job.name for job in self.jobs), "jobs")
        if not (self.resources or self.servers):
            yield "resources", "is missing; give the amount of each resource, or servers"
            return
        yield from self._server_complaints()
        known = self._amounts()
        yield from unknown_names(self.prices_usd_per_hour, known, "prices_usd_per_hour", "resource")
        if self.budget_usd_per_hour is not None and not any(self.prices_usd_per_hour.values()):
            yield "budget_usd_per_hour", "is set, but no resource has a price; give prices_usd_per_hour"
        if table:
            yield from unknown_names(table.resources, known, "jobs", "resource")
            return
        for j, job in enumerate(self.jobs):
            for path, demand in variant_demands(job.variants):
                yield from unknown_names(demand, known, f"jobs[{j}].{path}", "resource")

    def _server_complaints(self) -> Iterator[Complaint]:
        """Yield complaints about servers, and about what only an instance with servers may have."""
        if self.servers is None:
            beside = "is set, but the instance has no servers; give servers in place of resources"
            if self.network_share is not None:
                yield "network_share", beside
        else:
            if self.resources and self.resources != self._amounts():
                yield "resources", "is what the servers have together; leave it out"
            yield from name_complaints(self.servers)
            if self.objective == "makespan":
                yield "objective", "is planned on pooled resources only; take total_completion_time"
        if isinstance(self.jobs, JobTable):
            return
        for j, job in enumerate(self.jobs):
            placed = None if job.current is None else job.current.placement
            if placed is not None and self.servers is None:
                yield f"jobs[{j}].current.placement", beside
            elif placed is not None:
                where = f"jobs[{j}].current.placement"
                yield from unknown_names(placed, self.expanded_servers, where, "server")
            for v, variant in enumerate(job.variants):
                rows = getattr(variant.speed, "rows", ())
                if self.servers is None and any(row.servers is not None for row in rows):
                    yield f"jobs[{j}].variants[{v}].speed.rows", f"{beside}, or leave servers out of the rows"

    @cached_property
    def expanded_servers(self) -> dict[str, AnyServer]:
        """Name → row of every single server; empty if the instance has no servers."""
        return dict(each_server(self.servers or ()))

    @cached_property
    def has_placements(self) -> bool:
        """Whether it is known of some running job on which servers its tasks are."""
        return any(beside.get("current") for beside in self.beside_columns.values())

    @cached_property
    def beside_columns(self) -> dict[str, Any]:
        """Job → where it runs and its workload, if it has one of these, which no column of a table holds."""
        if isinstance(self.jobs, JobTable):
            return {}
        fields: Fields = {"workload": True, "current": {"placement"}}
        return {
            job.name: job.model_dump(mode="json", include=fields, exclude_none=True)
            for job in self.jobs
            if job.workload is not None or (job.current is not None and job.current.placement is not None)
        }

    def table(self) -> JobTable:
        """Return the jobs as a column-oriented table, with demands in the order of `resources`."""
        return JobTable.of(self.jobs, tuple(self.resources))

    def figure_notes(self) -> list[str]:
        """Return the assumptions about measured throughput that may be far from the truth."""
        return [note for note in self.assumptions if note.startswith(UNCERTAIN_ASSUMPTIONS)]

    def sha256(self) -> str:
        """Return the hash of the canonical document, the same for jobs in columns and as objects."""
        digest = JobTable.of(self.jobs, tuple(sorted(self.resources))).sha256()
        document = self.model_dump(mode="json", exclude_none=True, exclude={"jobs"}) | {"jobs": digest}
        priced = {name: price for name, price in self.prices_usd_per_hour.items() if price}
        beside = {"beside_columns": self.beside_columns} if self.beside_columns else {}
        return self._digest(document | {"prices_usd_per_hour": priced} | beside)

    def to_frame(self) -> pd.DataFrame:
        """Return a table with one row for each variant of each job."""
        return self.table().to_frame()


HEAD = 1_000
"""Rows at the start of a table that are checked before the others."""
CHUNK = 256
MAX_SUSPECTS = 20_000
"""Suspect rows that are validated one by one before the whole table is read row by row."""
_MEASUREMENTS = re.compile(r"loss(\..*)?|variants\.[0-9]+\.speed\.measurements")


def jobs_in(columns: Columns) -> ColumnarRows:
    """Return the columns of a table of jobs, and which rows may break a rule.

    Raises
    ------
    TooManyCells
        If the columns would take too much memory.
    """
    jobs = ColumnarRows(columns, Job)
    jobs.wrong |= jobs.given(jobs.unread)
    for path, suspects in _broken(jobs):
        jobs.suspect(path, suspects)
    return jobs


def _broken(jobs: ColumnarRows) -> Iterator[tuple[str, Flags]]:
    """Yield path of a list, or nothing for the jobs, and which entries break a rule between fields."""
    known = np.zeros(len(jobs.wrong), dtype=bool)
    known[current_variants(jobs)[0]] = True
    yield "", broken(job_rules(jobs["optional"] == 1, ~np.isnan(jobs["unplaced_s"]), jobs["current"], known))
    variants, model = "variants", jobs["variants.speed.model"].codes
    yield variants, repeated_entries(jobs[variants], jobs["variants.name"].codes)
    ring, measured = model == MODELS.index("ring_allreduce"), model == len(MODELS)
    formula = (model >= 0) & ~measured
    given = [(jobs[f"variants.{key}"], jobs[f"variants.{key}.min"]) for key in ("workers", "ps")]
    yield variants, broken(variant_rules((measured, ring, formula & ~ring), *given[0], *given[1]))
    yield (
        variants,
        formula & broken(theta_rules([jobs[f"variants.speed.theta.{k}"] for k in range(MAX_THETA)])),
    )
    for key in ("workers", "ps"):
        there, *ends = (jobs[f"variants.{key}{end}"] for end in ("", ".min", ".max"))
        yield variants, there & broken(range_rules(*ends))
    rows = "variants.speed.rows"
    yield rows, repeated_entries(jobs[rows], jobs[f"{rows}.ps"], jobs[f"{rows}.workers"])
    # Rows that name servers need an instance with servers, which is read as objects; so are workloads.
    yield rows, ~np.isnan(jobs[f"{rows}.servers"])
    yield "", jobs["workload"]


def read_allocation(columns: Columns, data: Mapping[str, Any], source: str) -> AllocationInstance | None:
    """Return the instance whose jobs are a table in columns, or None if it has to be read row by row.

    Parameters
    ----------
    columns
        The table of jobs.
    data
        The rest of the document.
    source
        The name of the document in error messages.

    Returns
    -------
    instance
        None if the table has to be read row by row, for instance because measurements are to be fitted.

    Raises
    ------
    InstanceError
        If anything is wrong; of faulty jobs, only the first hundred are named.
    """
    if data.get("servers") is not None:  # what runs on them is read from objects
        return None
    measured = [name for name in columns.names if _MEASUREMENTS.fullmatch(name)]
    if measured and any(columns.given(name).any() for name in measured):
        return None
    resources = data.get("resources")
    known = tuple(map(str, resources)) if isinstance(resources, Mapping) else ()
    # A large table that starts wrong is refused before the rest of it is read.
    head = columns.head(HEAD)
    for part, others in ((head, len(head) == HEAD), (columns, False)):
        try:
            jobs = jobs_in(part)
        except TooManyCells:
            return None
        suspects = np.flatnonzero(jobs.wrong)
        if len(suspects):
            _refuse_faulty(part, suspects, data, source, others)
            if part is columns:
                # All suspects are fine, so a check was too strict: all rows are read as objects.
                return None
    faults: list[Fault] = []
    try:
        asking = _with_unknown_resources(jobs, known)[:MAX_FAULTS]
        _refuse_rows(columns, asking.tolist(), data, source)
    except InstanceError as error:
        # What else is wrong is found in the whole table.
        faults += [fault for fault in error.faults if "_demand." in fault.path]
    try:
        table = JobTable.of_columns(jobs.values, known)
        instance = validated(AllocationInstance, {**data, "jobs": table}, source)
    except InstanceError as error:
        raise InstanceError([*error.faults, *faults], error.more, error.stopped) from None
    if faults:
        raise InstanceError(faults)
    return instance


def _refuse_faulty(
    columns: Columns, suspects: Ints, data: Mapping[str, Any], source: str, others: bool
) -> None:
    """Raise the faults of the first invalid rows among the suspects, if there are any.

    Parameters
    ----------
    others
        Whether there are more rows, which have not been checked.
    """
    faulty: list[int] = []
    for start in range(0, min(len(suspects), MAX_SUSPECTS), CHUNK):
        chunk = suspects[start : start + CHUNK]
        rows = zip(chunk.tolist(), columns.rows(chunk), strict=True)
        faulty += [index for index, row in rows if not _accepted(row, source)]
        if len(faulty) >= MAX_FAULTS:
            break
    named = faulty[:MAX_FAULTS]
    try:
        _refuse_rows(columns, named, data, source)
    except InstanceError as error:
        left = int((suspects > named[-1]).sum()) if len(named) == MAX_FAULTS else 0
        raise InstanceError(error.faults, error.more + left, others or error.stopped) from None


def _refuse_rows(columns: Columns, indices: list[int], data: Mapping[str, Any], source: str) -> None:
    """Raise the faults of an instance with these rows alone, which name the rows as in the whole table."""
    if not indices:
        return
    try:
        validated(AllocationInstance, {**data, "jobs": columns.rows(np.array(indices))}, source)
    except InstanceError as error:
        faults = [Fault(source, _renumbered(fault.path, indices), fault.what) for fault in error.faults]
        raise InstanceError(faults, error.more, error.stopped) from None


def _accepted(row: Fields, source: str) -> bool:
    try:
        validated(Job, row, source)
    except InstanceError:
        return False
    return True


def _renumbered(path: str, indices: list[int]) -> str:
    """Return the path of a fault with the index of its job in the whole table."""
    return re.sub(r"^jobs\[([0-9]+)\]", lambda match: f"jobs[{indices[int(match[1])]}]", path)


def _with_unknown_resources(jobs: ColumnarRows, known: tuple[str, ...]) -> Ints:
    """Return the rows of jobs that ask for an unknown resource, in ascending order."""
    owner = jobs.rows_of("variants")
    asking = [
        owner[~np.isnan(amounts)]
        for key in ("worker_demand", "ps_demand")
        for resource, amounts in jobs[f"variants.{key}"].items()
        if resource not in known
    ]
    return np.unique(np.concatenate([owner[:0], *asking]))
