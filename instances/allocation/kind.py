"""Registration of allocation instances: data model, builder, tables in files, and a tiny example."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from ..common.base import Instance
from ..common.fields import Fields
from ..common.kind import InstanceKind, Rows, ServerBuilder, Tables, given
from ..files.columns import Columns
from ..files.tables import NO_COLUMN, can_be_columns
from ..references import Folder
from .generate import generate_allocation
from .instance import AllocationInstance, read_allocation
from .job import with_fits, with_throughput
from .job_table import written_jobs
from .running import with_running_plan

if TYPE_CHECKING:
    from .fits import SpeedFit  # which loads SciPy's statistics


def _resolved(data: Fields, source: str, folder: Folder) -> Instance | Fields:
    """Return the instance if its jobs are a large table; else the document with measurements fitted."""
    data = with_running_plan(data, source, folder)
    jobs = data.get("jobs")
    if isinstance(jobs, Columns):
        measured = "samples_per_s" in jobs.names and "name" not in jobs.names
        instance = None if measured else read_allocation(jobs, data, source)
        if instance is not None:
            return instance
        data["jobs"] = jobs.rows()
    return with_fits(with_throughput(data, source), source, folder)


def _why_no_table(instance: AllocationInstance) -> str | None:
    """Return why jobs cannot be saved in a table; None if they can."""
    if not can_be_columns(instance.resources):
        return NO_COLUMN
    beside = "the workloads of jobs, and the servers on which they run; save the instance as YAML or JSON"
    return f"a table has no columns for {beside}" if instance.beside_columns else None


ALLOCATION = InstanceKind(
    model=AllocationInstance,
    lists=("servers", "jobs"),
    tiny=lambda: generate_allocation(2, 2, tightness=0.9, seed=1),
    resolved=_resolved,
    tables=Tables(("jobs",), _why_no_table, lambda instance: {"jobs": written_jobs(instance.table())}),
)


class Allocation(ServerBuilder[AllocationInstance]):
    """Builds an allocation instance: ``Allocation(gpu=16).add_job("bert", {1: 10, 2: 19}, 36_000)``.

    Parameters
    ----------
    name, objective, prices_usd_per_hour, budget_usd_per_hour, network_share
        Fields of `AllocationInstance`.
    resources
        How much of each resource the cluster has; none where servers are added.
    """

    KIND = ALLOCATION

    def __init__(
        self,
        name: str = "allocation",
        *,
        objective: str | None = None,
        prices_usd_per_hour: Mapping[str, float] | None = None,
        budget_usd_per_hour: float | None = None,
        network_share: float | None = None,
        **resources: float,
    ) -> None:
        super().__init__(
            name,
            objective=objective,
            resources=resources or None,
            prices_usd_per_hour=prices_usd_per_hour,
            budget_usd_per_hour=budget_usd_per_hour,
            network_share=network_share,
        )
        self._resources = resources

    def add_job(
        self,
        name: str,
        speed: Mapping[Any, Any] | SpeedFit,
        remaining_steps: float,
        *,
        workers: int | tuple[int, int] | None = None,
        ps: int | tuple[int, int] | None = None,
        per_worker: Mapping[str, float] | None = None,
        per_ps: Mapping[str, float] | None = None,
        **fields: Any,
    ) -> Self:
        """Add a job with one variant; `add_jobs` takes jobs with several.

        Parameters
        ----------
        speed
            Workers → steps per second; a fit; or the fields of a speed model.
        workers, ps
            The maximum, or minimum and maximum; not for a speed that lists its workers.
        per_worker, per_ps
            Demand of one task by resource; by default a worker takes 1 ``gpu``, or 1 of the first resource.
        fields
            Other fields of the job, such as `weight` or `deadline_s`.
        """
        known = self._resources or {name: 0 for row in self._lists["servers"] for name in row["capacity"]}
        first = "gpu" if "gpu" in known else next(iter(known), "gpu")
        variant = {
            "name": "default",
            "worker_demand": {first: 1} if per_worker is None else per_worker,
            "ps_demand": per_ps or {},
            "workers": _range(workers),
            "ps": _range(ps),
            "speed": _speed(speed),
        }
        job = {"name": name, "remaining_steps": remaining_steps, **fields, "variants": [given(variant)]}
        return self._add("jobs", job)

    def add_jobs(self, rows: Rows) -> Self:
        """Add jobs given as in a document, or measured throughput with the columns job, gpus, samples_per_s.

        Raises
        ------
        InstanceError
            If rows of throughput are wrong.
        """
        read = with_throughput({"jobs": self._rows("jobs", rows)}, self._name)
        if "assumptions" in read:
            self._fields["assumptions"] = [*self._fields.get("assumptions", ()), *read["assumptions"]]
        return super().add_jobs(read["jobs"])


def _range(ends: int | tuple[int, int] | None) -> Fields | None:
    if ends is None:
        return None
    return {"min": ends[0], "max": ends[1]} if isinstance(ends, tuple) else {"max": ends}


def _speed(speed: Mapping[Any, Any] | SpeedFit) -> Any:
    if not isinstance(speed, Mapping):
        return speed.fields()
    if "model" in speed or "measurements" in speed:
        return dict(speed)
    return {"model": "table", "rows": [{"workers": w, "steps_per_s": f} for w, f in speed.items()]}
