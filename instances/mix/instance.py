"""Mix instances: what runs together on a device of which hardware, in how many copies.

A configuration is what runs on one device, or on several: a group of jobs that share it, or a replica of a
model that serves requests. Types of jobs have counts, types of requests have rates; an instance has one sort.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations_with_replacement, groupby, islice
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import ConfigDict, Field, ModelWrapValidatorHandler, model_validator

from ..common.base import Instance
from ..common.errors import shortened, some
from ..common.fields import (
    NONE_NAMED,
    TABLE_FILE,
    Amounts,
    ByCount,
    Complaint,
    Count,
    Fields,
    Flag,
    Model,
    Name,
    NonNegative,
    Positive,
    PositiveCount,
    entries,
    refuse,
    repeated,
    require,
    unknown_names,
    validated_in_batches,
)
from ..common.hardware import HardwareCatalogue, fill_from_catalogue
from .overlap import periods

if TYPE_CHECKING:
    import pandas as pd


BUDGET, DEVICES = "budget_usd_per_hour", "devices"
"""Names of the limits on the USD per hour and on the devices of all configurations together."""
MAX_CONFIGURATIONS = 100_000
MAX_COPIES = 1_000_000_000
"""Largest number of copies of a configuration that a plan can state."""
Rate = Annotated[Positive, Field(ge=1e-12)]
"""Requests per second of a replica; with smaller ones sums of floats would overflow."""
JOINED, MAX_PHASES = "+", 6
"""Sign between the names of resources of which only the sum is known; limit of the resources of a step."""
SORTS = {
    "types": {"count": "jobs", "requests_per_s": "requests"},
    "configurations": {"jobs": "jobs", "progress": "jobs", "requests_per_s": "requests"},
}
"""List → field that all its entries have if the types are of this sort, and none if they are of the other."""


class MixType(Model):
    """A type of job, of which there are so many, or a type of request, of which so many come each second.

    Attributes
    ----------
    count, weight, names
        Of jobs: how many there are, what the progress of one counts, and their names, for the plan.
    devices
        Of jobs: devices of one job; only jobs of equally many share them.
    resource_s
        Of jobs: seconds that a step spends on each resource, in the order in which it uses them, from which
        groups can be made. `storage+cpu` stands for two resources of which only the sum is known.
    step_s
        Of jobs: seconds of a step alone, by default the sum of `resource_s`; less if its stages overlap.
    requests_per_s, input_tokens, output_tokens
        Of requests: how many come each second, and how long one is.
    """

    name: Name
    count: Count | None = None
    weight: Positive = 1.0
    names: Annotated[tuple[Name, ...] | None, validated_in_batches()] = None
    devices: PositiveCount = 1
    resource_s: Amounts = NONE_NAMED
    step_s: Positive | None = None
    requests_per_s: NonNegative | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None


class MixHardware(Model):
    """A model of device.

    Attributes
    ----------
    hardware
        Entry of the instance's catalogue that provides the price of one device.
    limit
        Devices that there are; none means as many as one likes.
    """

    name: Name
    hardware: Name | None = None
    limit: Count | None = None
    price_usd_per_hour: NonNegative | None = None


class Configuration(Model):
    """What runs on some devices of one model: a group of jobs, or a replica that serves requests.

    Attributes
    ----------
    name
        By default the hardware and the jobs or requests.
    devices
        How many devices it takes.
    jobs, progress
        Of a group: how many jobs of each type share the devices, and the speed of each, relative to the same
        reference for all configurations, such as alone on the fastest model.
    requests_per_s
        Of a replica: how many requests of each type it serves in a second if it serves no others.
    """

    name: Name = ""
    hardware: Name
    devices: PositiveCount = 1
    jobs: Annotated[dict[Name, PositiveCount], *entries(1000)] = NONE_NAMED
    progress: Amounts = NONE_NAMED
    requests_per_s: Annotated[dict[Name, Rate], *entries(1000)] = NONE_NAMED

    @model_validator(mode="after")
    def _named(self) -> Self:
        if not self.name:
            counts = self.jobs or dict.fromkeys(self.requests_per_s, 1)
            inside = " + ".join(name if many == 1 else f"{many} × {name}" for name, many in counts.items())
            devices = "" if self.devices == 1 else f"{self.devices} "
            object.__setattr__(self, "name", shortened(f"{inside} on {devices}{self.hardware}", 200))
        return self

    @property
    def members(self) -> Mapping[str, float]:
        """How many jobs of each type it has, or how many requests of each it serves in a second."""
        return self.jobs or self.requests_per_s


class MixInstance(Instance):
    """What runs together on which devices: the most progress of jobs, or the least cost of serving.

    Attributes
    ----------
    must_run
        Of jobs: whether all of them have to run; otherwise some may wait.
    least_progress
        Of jobs: groups in which a job makes less progress are left out.
    devices, budget_usd_per_hour
        How many devices, and USD per hour, all configurations may take together.
    share_up_to
        Of jobs: how many share a device at most, in groups that are made from their `resource_s`; not more
        than there are resources, each of which one job uses at a time.
    overhead
        How many times longer than those of `resource_s` the steps of a group of so many jobs were measured.
    """

    model_config = ConfigDict(json_schema_extra=require("schema_version", "kind"))

    kind: Literal["mix"] = "mix"
    must_run: Flag = False
    least_progress: Positive | None = None
    devices: Count | None = None
    budget_usd_per_hour: NonNegative | None = None
    share_up_to: Annotated[PositiveCount, Field(le=4)] | None = None
    overhead: ByCount = NONE_NAMED
    catalogue: Annotated[HardwareCatalogue | None, TABLE_FILE] = None
    types: Annotated[tuple[MixType, ...], *entries(1000, least=1), TABLE_FILE]
    hardware: Annotated[tuple[MixHardware, ...], *entries(1000, least=1), TABLE_FILE]
    configurations: Annotated[tuple[Configuration, ...], *entries(MAX_CONFIGURATIONS), TABLE_FILE] = ()

    @property
    def serves(self) -> bool:
        """Whether the types are of requests, to be served at least cost, and not of jobs."""
        return self.types[0].requests_per_s is not None

    @model_validator(mode="before")
    @classmethod
    def _resolve(cls, data: Any) -> Any:
        return fill_from_catalogue(
            data, "hardware", lambda machine, _: {"price_usd_per_hour": machine.unit_price_usd_per_hour()}
        )

    @model_validator(mode="wrap")
    @classmethod
    def _with_groups(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        given = handler(data)
        if given.configurations or given.share_up_to is None:
            return given
        return handler({**data, "configurations": given._groups()})

    def _complaints(self) -> Iterator[Complaint]:
        types, hardware = [one.name for one in self.types], [one.name for one in self.hardware]
        yield from repeated(types, "types")
        yield from repeated(hardware, "hardware")
        for name in {*types, BUDGET, DEVICES}.intersection(hardware) | {BUDGET, DEVICES}.intersection(types):
            yield "hardware", f"and types have {name!r} in common; prices of a plan need names of their own"
        yield from repeated((one.name for one in self.configurations), "configurations")
        yield from self._complaints_of_sort()
        come = {one.name: one.requests_per_s or 0.0 for one in self.types}
        limits = {each.name: each.limit for each in self.hardware}
        for index, one in enumerate(self.configurations):
            path = f"configurations[{index}]"
            if one.hardware not in hardware:
                what = f"unknown hardware {one.hardware!r}; there are: {some(hardware)}"
                yield f"{path}.hardware", what
            yield from unknown_names(one.members, types, path, "type")
            for name in sorted(one.jobs.keys() ^ one.progress.keys()):
                field = "progress" if name in one.jobs else "jobs"
                yield f"{path}.{field}", f"has no {name!r}; jobs and progress have the same types"
            # Exact quotients may need one copy more than those of floats.
            asked = (math.ceil(come.get(name, 0.0) / rate) + 1 for name, rate in one.requests_per_s.items())
            if limits.get(one.hardware) is None and self.devices is None and sum(asked) > MAX_COPIES:
                what = f"would take {MAX_COPIES:,} copies or more to serve all requests of its types; "
                what += "check the units, give a limit, or leave out types that it hardly serves"
                yield f"{path}.requests_per_s", what
        for index, job in enumerate(self.types):
            if job.names is not None and len(job.names) != job.count:
                yield f"types[{index}].names", f"are {len(job.names):,}; count has to be as many"
        if not self.configurations and self.share_up_to is None:
            what = "is missing; say what may run together, or give share_up_to and resource_s"
            yield "configurations", what
        priced = self.serves or self.budget_usd_per_hour is not None
        for index, each in enumerate(self.hardware):
            if priced and each.price_usd_per_hour is None:
                what = f"of {each.name!r} is missing; give the USD per hour of one"
                yield f"hardware[{index}].price_usd_per_hour", what

    def _complaints_of_sort(self) -> Iterator[Complaint]:
        """Yield a complaint for each field that types of jobs, or of requests, need or cannot have."""
        own = "requests" if self.serves else "jobs"
        for key, fields in SORTS.items():
            for index, one in enumerate(getattr(self, key)):
                for field, sort in fields.items():
                    given = getattr(one, field) not in (None, NONE_NAMED)
                    if given != (sort == own):
                        word = "given" if given else "missing"
                        what = f"is {word}; jobs have count, jobs and progress, requests have requests_per_s"
                        yield f"{key}[{index}].{field}", f"{what}, and an instance has one sort"
        for key in ("must_run", "least_progress", "share_up_to", "overhead") if self.serves else ():
            if getattr(self, key):
                yield key, "is for jobs, and the types are of requests"

    def _groups(self) -> list[Fields]:
        """Return the groups of up to `share_up_to` jobs, each on hardware of every model.

        Only jobs of equally many devices share them. A job makes progress at its seconds alone over the
        period of its group.
        """
        resources = list(self.types[0].resource_s)
        phases = [name.count(JOINED) + 1 for name in resources]
        refuse(self._resource_complaints(sum(phases)))
        room = MAX_CONFIGURATIONS // len(self.hardware)
        groups = list(islice(_combinations(self.types, min(self.share_up_to or 1, sum(phases))), room + 1))
        if len(groups) > room:
            what = f"makes more than {MAX_CONFIGURATIONS:,} groups; let fewer share, or join similar types"
            refuse([("share_up_to", what)])
        seconds = np.array([[one.resource_s[name] for name in resources] for one in self.types])
        rows: list[Fields] = []
        for size, alike in groupby(groups, len):
            index = np.array([*alike])
            # Alone a job makes all its progress, also where its own stages overlap.
            longer = self.overhead.get(size, 1.0) if size > 1 else 0.0
            for group, period_s in zip(index, longer * periods(seconds[index], phases), strict=True):
                members = [self.types[number] for number in group]
                rows += (_group(members, period_s, each.name) for each in self.hardware)
        return rows

    def _resource_complaints(self, phases: int) -> Iterator[Complaint]:
        resources = self.types[0].resource_s.keys()
        if phases > MAX_PHASES:
            yield "types[0].resource_s", f"has more than {MAX_PHASES} resources"
        for index, one in enumerate(self.types):
            path = f"types[{index}].resource_s"
            if not any(one.resource_s.values()):
                yield path, "has no seconds; share_up_to makes groups from those of a step on each resource"
            elif one.resource_s.keys() != resources:
                yield path, f"has other resources than types[0], {', '.join(sorted(resources)) or 'none'}"

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each configuration."""
        import pandas as pd

        rows = [(one.name, one.hardware, one.devices) for one in self.configurations]
        return pd.DataFrame(rows, columns=["name", "hardware", "devices"])


def _combinations(types: Sequence[MixType], most: int) -> Iterator[tuple[int, ...]]:
    """Yield the groups of up to so many jobs of equally many devices, as numbers of their types."""
    counts = [one.count or 0 for one in types]
    for size in range(1, most + 1):
        for devices in dict.fromkeys(one.devices for one in types):
            alike = (number for number, one in enumerate(types) if one.count and one.devices == devices)
            for group in combinations_with_replacement(alike, size):
                if all(group.count(number) <= counts[number] for number in group):
                    yield group


def _group(members: Sequence[MixType], period_s: float, hardware: str) -> Fields:
    alone = {one.name: one.step_s or math.fsum(one.resource_s.values()) for one in members}
    return {
        "hardware": hardware,
        "devices": members[0].devices,
        "jobs": Counter(one.name for one in members),
        "progress": {name: round(step_s / max(step_s, period_s), 9) for name, step_s in alone.items()},
    }
