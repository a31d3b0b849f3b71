"""Builder of allocation instances, one call for each job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from ..common.kind import Builder, Rows, given
from .fits import SpeedFit
from .instance import AllocationInstance
from .job import with_throughput
from .kind import ALLOCATION


class Allocation(Builder[AllocationInstance]):
    """Builds an allocation instance: ``Allocation(gpu=16).add_job("bert", {1: 10, 2: 19}, 36_000)``.

    Parameters
    ----------
    name, objective, prices_usd_per_hour, budget_usd_per_hour
        Fields of `AllocationInstance`.
    resources
        How much of each resource the cluster has.
    """

    KIND = ALLOCATION

    def __init__(
        self,
        name: str = "allocation",
        *,
        objective: str | None = None,
        prices_usd_per_hour: Mapping[str, float] | None = None,
        budget_usd_per_hour: float | None = None,
        **resources: float,
    ) -> None:
        super().__init__(
            name,
            objective=objective,
            resources=resources,
            prices_usd_per_hour=prices_usd_per_hour,
            budget_usd_per_hour=budget_usd_per_hour,
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
        first = "gpu" if "gpu" in self._resources else next(iter(self._resources), "gpu")
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
        return self._add_all("jobs", read["jobs"])


def _range(ends: int | tuple[int, int] | None) -> dict[str, Any] | None:
    if ends is None:
        return None
    return {"min": ends[0], "max": ends[1]} if isinstance(ends, tuple) else {"max": ends}


def _speed(speed: Mapping[Any, Any] | SpeedFit) -> Any:
    if isinstance(speed, SpeedFit):
        return speed.fields()
    if "model" in speed or "measurements" in speed:
        return dict(speed)
    return {"model": "table", "rows": [{"workers": w, "steps_per_s": f} for w, f in speed.items()]}
