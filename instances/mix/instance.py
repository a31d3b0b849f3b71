"""Mix instances: what runs together on a device of which hardware, in how many copies.

A configuration is what runs on one device, or on several: a group of jobs that share it, or a replica of a
model that serves requests. Types of jobs have counts, types of requests have rates; an instance has one sort.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from ..common.base import Instance
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
    repeated,
    require,
    unknown_names,
    validated_in_batches,
)
from ..common.hardware import HardwareCatalogue, HardwareType, fill_from_catalogue

if TYPE_CHECKING:
    import pandas as pd


BUDGET, DEVICES = "budget_usd_per_hour", "devices"
"""Names of the limits on the USD per hour and on the devices of all configurations together."""
MAX_CONFIGURATIONS = 100_000


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

    name: Name
    hardware: Name
    devices: PositiveCount = 1
    jobs: Annotated[dict[Name, PositiveCount], *entries(1000)] = NONE_NAMED
    progress: Amounts = NONE_NAMED
    requests_per_s: Annotated[dict[Name, Positive], *entries(1000)] = NONE_NAMED

    @model_validator(mode="before")
    @classmethod
    def _named(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or data.get("name") is not None:
            return data
        members = data.get("jobs") or data.get("requests_per_s") or {}
        if not isinstance(members, Mapping):
            return data
        times = {
            name: f"{count} × " if count != 1 and "jobs" in data else "" for name, count in members.items()
        }
        inside = " + ".join(f"{times[name]}{name}" for name in members)
        devices = data.get("devices", 1)
        return {**data, "name": f"{inside} on {f'{devices} ' if devices != 1 else ''}{data.get('hardware')}"}

    @property
    def members(self) -> Mapping[str, float]:
        """How many jobs of each type it has, or how many requests of each it serves in a second."""
        return self.jobs or self.requests_per_s


def _price(machine: HardwareType, row: Mapping[str, Any]) -> Fields:
    del row
    return {"price_usd_per_hour": machine.unit_price_usd_per_hour()}


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
        return fill_from_catalogue(data, "hardware", _price)

    def _complaints(self) -> Iterator[Complaint]:
        types, hardware = [one.name for one in self.types], [one.name for one in self.hardware]
        yield from repeated(types, "types")
        yield from repeated(hardware, "hardware")
        for name in {*types, BUDGET, DEVICES}.intersection(hardware) | {BUDGET, DEVICES}.intersection(types):
            yield "hardware", f"and types have {name!r} in common; prices of a plan need names of their own"
        yield from repeated((one.name for one in self.configurations), "configurations")
        yield from self._type_complaints()
        for index, one in enumerate(self.configurations):
            path = f"configurations[{index}]"
            yield from _unknown(one.hardware, hardware, f"{path}.hardware", "hardware")
            yield from unknown_names(one.members, types, path, "type")
            yield from self._configuration_complaints(one, path)
        if not self.configurations and self.share_up_to is None:
            yield (
                "configurations",
                "is missing; say what may run together, or give share_up_to and resource_s",
            )
        priced = self.serves or self.budget_usd_per_hour is not None
        for index, each in enumerate(self.hardware):
            if priced and each.price_usd_per_hour is None:
                yield (
                    f"hardware[{index}].price_usd_per_hour",
                    f"of {each.name!r} is missing; give the USD per hour of one",
                )

    def _type_complaints(self) -> Iterator[Complaint]:
        given, other = ("requests_per_s", "count") if self.serves else ("count", "requests_per_s")
        for index, one in enumerate(self.types):
            path = f"types[{index}]"
            if getattr(one, given) is None:
                yield (
                    f"{path}.{given}",
                    "is missing; give each type of job a count, or each of request a rate",
                )
            if getattr(one, other) is not None:
                yield f"{path}.{other}", f"is given, and the types have a {given}; an instance has one sort"
            if one.names is not None and len(one.names) != one.count:
                yield f"{path}.names", f"are {len(one.names):,}, and count is {one.count}"
        for key in ("must_run", "least_progress", "share_up_to", "overhead") if self.serves else ():
            if getattr(self, key):
                yield key, "is for jobs, and the types are of requests"

    def _configuration_complaints(self, one: Configuration, path: str) -> Iterator[Complaint]:
        wanted = "requests_per_s" if self.serves else "jobs"
        if not getattr(one, wanted):
            yield f"{path}.{wanted}", "is missing; say which types it has"
        for key in ("jobs", "progress") if self.serves else ("requests_per_s",):
            if getattr(one, key):
                yield f"{path}.{key}", f"is given beside types of {'requests' if self.serves else 'jobs'}"
        for name in one.jobs if not self.serves else ():
            if name not in one.progress:
                yield f"{path}.progress", f"has none of {name!r}; give the speed of each of its jobs"
        yield from unknown_names(one.progress, one.members, f"{path}.progress", "job of this configuration")

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each configuration."""
        import pandas as pd

        rows = [one.model_dump(include={"name", "hardware", "devices"}) for one in self.configurations]
        return pd.DataFrame(rows, columns=["name", "hardware", "devices"])


def _unknown(name: str, known: list[str], path: str, what: str) -> Iterator[Complaint]:
    """Yield a complaint at the path itself if a name is unknown."""
    for _, message in unknown_names([name], known, "", what, what):
        yield path, message
