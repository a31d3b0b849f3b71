"""Jobs in columns: what a hundred thousand jobs are held in, and what every method computes with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ..common.arrays import Floats, Ints
from .job import SchedulingJob
from .spreading import Spreading

if TYPE_CHECKING:
    import pandas as pd


OF_MALLEABLE = {"demand", "work", "speeds", "variants", "requested"}
"""What the columns do not say of a malleable job."""


@dataclass(frozen=True, eq=False)
class JobTable(Sequence[SchedulingJob]):
    """Jobs, one row each, as a sequence of `SchedulingJob` that are made when somebody asks for them.

    Attributes
    ----------
    resources
        Names of the R columns of `demand`.
    names, arrival_s, weight, tasks, duration_s
        One each for the J jobs.
    demand
        What one task takes, shape (J, R).
    estimate_s, deadline_s, restart_s, step_s
        Shape (J,); NaN where a job has none.
    tenant, model
        Shape (J,); index into `tenants` and `models`, −1 where a job has none.
    malleable
        The malleable jobs by index. In the other columns each is as it would be in the configuration that is
        requested of it, once `menus.as_requested` has filled them in; until then it has no duration (NaN).
    spreading
        How jobs suffer from being spread over servers; None where no job says anything.
    """

    resources: tuple[str, ...]
    names: Sequence[str]
    arrival_s: Floats
    weight: Floats
    tasks: Ints
    demand: Floats
    duration_s: Floats
    estimate_s: Floats
    deadline_s: Floats
    restart_s: Floats
    step_s: Floats
    tenant: Ints
    tenants: tuple[str, ...]
    model: Ints
    models: tuple[str, ...]
    malleable: Mapping[int, SchedulingJob] = field(default_factory=dict)
    spreading: Spreading | None = None

    @classmethod
    def of(cls, jobs: Sequence[SchedulingJob], resources: tuple[str, ...]) -> JobTable:
        """Return jobs in columns, with demands in the order of `resources`."""
        if isinstance(jobs, JobTable):
            return jobs._with_resources(resources)
        tenant, tenants = _codes(job.tenant for job in jobs)
        model, models = _codes(job.model for job in jobs)
        demand = [[job.demand.get(name, 0.0) for name in resources] for job in jobs]
        return cls(
            resources=resources,
            names=[job.name for job in jobs],
            arrival_s=np.array([job.arrival_s for job in jobs], dtype=float),
            weight=np.array([job.weight for job in jobs], dtype=float),
            tasks=np.array([job.tasks for job in jobs], dtype=np.int64),
            demand=np.array(demand, dtype=float).reshape(len(jobs), len(resources)),
            duration_s=_optional(job.duration_s for job in jobs),
            estimate_s=_optional(job.estimate_s for job in jobs),
            deadline_s=_optional(job.deadline_s for job in jobs),
            restart_s=_optional(job.restart_s for job in jobs),
            step_s=_optional(job.step_s for job in jobs),
            tenant=tenant,
            tenants=tenants,
            model=model,
            models=models,
            malleable={j: job for j, job in enumerate(jobs) if job.work is not None},
            spreading=Spreading.of(jobs),
        )

    def _with_resources(self, resources: tuple[str, ...]) -> JobTable:
        if resources == self.resources:
            return self
        demand = np.zeros((len(self), len(resources)))
        for r, name in enumerate(resources):
            if name in self.resources:
                demand[:, r] = self.demand[:, self.resources.index(name)]
        columns = {column.name: getattr(self, column.name) for column in fields(self)}
        return JobTable(**{**columns, "resources": resources, "demand": demand})

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, index: int) -> SchedulingJob: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[SchedulingJob, ...]: ...
    def __getitem__(self, index: int | slice) -> SchedulingJob | tuple[SchedulingJob, ...]:
        if isinstance(index, slice):
            return tuple(self._job(j) for j in range(*index.indices(len(self))))
        if not -len(self) <= index < len(self):
            raise IndexError(f"job {index} of {len(self)}")
        return self._job(index % len(self))

    @cached_property
    def total_demand(self) -> Floats:
        """What each job takes while it runs, shape (J, R)."""
        return np.asarray(self.demand * self.tasks[:, None])

    def sha256(self) -> str:
        """Return the hash of everything in the table."""
        digest = hashlib.sha256()
        tenant, tenants = in_first_order(self.tenant, self.tenants)
        model, models = in_first_order(self.model, self.models)
        ordered: dict[str, Any] = {"tenant": tenant, "tenants": tenants, "model": model, "models": models}
        for one in fields(self):
            column = ordered.get(one.name, getattr(self, one.name))
            if one.name == "malleable" or column is None:
                continue
            if isinstance(column, Spreading):
                digest.update(column.sha256().encode())
            elif isinstance(column, np.ndarray):
                digest.update(np.ascontiguousarray(column + 0.0, dtype="<f8").tobytes())  # -0.0 is 0.0
            else:
                digest.update(json.dumps(list(column)).encode())
        for j, job in sorted(self.malleable.items()):
            own = job.model_dump(mode="json", exclude_none=True, include=OF_MALLEABLE)
            digest.update(json.dumps([j, own], sort_keys=True).encode())
        return digest.hexdigest()

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each job; demands are those of all its tasks."""
        import pandas as pd

        columns = {
            "job": list(self.names),
            "arrival_s": self.arrival_s,
            "duration_s": self.duration_s,
            "estimate_s": self.estimate_s,
            "weight": self.weight,
            "tasks": self.tasks,
            **{name: self.total_demand[:, r] for r, name in enumerate(self.resources)},
            "tenant": _words(self.tenant, self.tenants),
            "model": _words(self.model, self.models),
        }
        return pd.DataFrame(columns)

    def _job(self, j: int) -> SchedulingJob:
        if j in self.malleable:
            return self.malleable[j]
        demand = zip(self.resources, self.demand[j].tolist(), strict=True)
        return SchedulingJob(
            name=self.names[j],
            arrival_s=float(self.arrival_s[j]),
            weight=float(self.weight[j]),
            tenant=self.tenants[self.tenant[j]] if self.tenant[j] >= 0 else None,
            tasks=int(self.tasks[j]),
            demand={name: amount for name, amount in demand if amount},
            duration_s=float(self.duration_s[j]),
            estimate_s=_given(self.estimate_s[j]),
            deadline_s=_given(self.deadline_s[j]),
            restart_s=_given(self.restart_s[j]),
            step_s=_given(self.step_s[j]),
            model=self.models[self.model[j]] if self.model[j] >= 0 else None,
            **({} if self.spreading is None else self.spreading.of_job(j)),
        )


def _given(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _optional(values: Iterable[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def _codes(words: Iterable[str | None]) -> tuple[Ints, tuple[str, ...]]:
    """Return the index of each word among the different ones, −1 for None, and these in their first order."""
    index: dict[str, int] = {}
    codes = [-1 if word is None else index.setdefault(word, len(index)) for word in words]
    return np.array(codes, dtype=np.int64), tuple(index)


def in_first_order(codes: Ints, words: Sequence[str]) -> tuple[Ints, tuple[str, ...]]:
    """Return the same texts with those that are used in the order of the first rows that have them."""
    used, first = np.unique(codes[codes >= 0], return_index=True)
    order = used[np.argsort(first)]
    place = np.full(len(words) + 1, -1)
    place[order] = np.arange(len(order))
    return place[codes], tuple(words[code] for code in order.tolist())


def _words(codes: Ints, words: tuple[str, ...]) -> list[str | None]:
    return [words[code] if code >= 0 else None for code in codes.tolist()]
