"""Profiles of Sailor: times by GPU, microbatch and tensor-parallel degree, and sizes of layers.

A unit is a GPU, or several GPUs that share every layer by tensor parallelism. The options of the importer
are here, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from ...common.errors import refuse_faults, shortened
from ...common.faults import validated
from ...common.fields import (
    Complaint,
    ManyNamed,
    Model,
    Name,
    NonNegative,
    Part,
    PositiveCount,
    unknown_names,
)
from ...files.reading import fail, read_mapping
from ..importer import Option
from .graph_instance import StagingOptions

TENSOR_PARALLEL = re.compile(r"(.+)-tp([1-9][0-9]{0,3})")
DEGREE = re.compile(r"[1-9][0-9]{0,3}")
ALL = "all"
"""Stands for all measured types, or all measured tensor-parallel degrees."""


@dataclass(frozen=True)
class Unit:
    """A hardware type: `degree` GPUs that share every layer by tensor parallelism.

    Attributes
    ----------
    named
        Whether it was requested by name; else it is left out if the source lacks it.
    """

    gpu: str
    degree: int = 1
    named: bool = True

    @property
    def name(self) -> str:
        """The name of the hardware type in the instance, such as A100-40 or A100-40-tp4."""
        return self.gpu if self.degree == 1 else f"{self.gpu}-tp{self.degree}"


def units_of(
    types: Sequence[str],
    degrees: Sequence[str] | None,
    gpus: Sequence[str],
    measured: Callable[[str], Iterable[int]],
) -> list[Unit]:
    """Return the hardware types that names of GPU types and tensor-parallel degrees denote.

    Parameters
    ----------
    types
        GPU types, types with a degree, or `all` alone.
    degrees
        Tensor-parallel degrees of GPU types without one, or `all`; None: a single GPU.
    gpus, measured
        The measured GPU types, and a function that returns the measured degrees of one.

    Raises
    ------
    InstanceError
        If a GPU type was not measured.
    """
    every = tuple(types) == (ALL,)
    units, unknown = [], []
    for name in gpus if every else types:
        with_degree = None if name in gpus else TENSOR_PARALLEL.fullmatch(name)
        if with_degree is not None and with_degree[1] in gpus:
            units.append(Unit(with_degree[1], int(with_degree[2])))
        elif name not in gpus:
            unknown.append(name)
        elif degrees is None:
            units.append(Unit(name, named=not every))
        else:
            own = measured(name) if ALL in degrees else sorted({int(degree) for degree in degrees})
            units += [Unit(name, degree, named=False) for degree in own]
    refuse_faults("options", unknown_names(unknown, gpus, "types", "GPU type", "measured types"))
    return units


@dataclass(frozen=True)
class Limits:
    """The available numbers of GPUs, or of tensor-parallel groups, of each hardware type.

    A limit of a GPU type counts GPUs, and bounds each of its types without its own limit; a limit of a type
    with several GPUs counts its units.
    """

    given: Mapping[str, int]
    units: Sequence[Unit]

    def counts_units(self, unit: Unit) -> bool:
        """Return whether a tensor-parallel type has its own limit, which counts groups, not GPUs."""
        return unit.degree > 1 and unit.name in self.given

    def of(self, unit: Unit) -> int | None:
        """Return how many groups of GPUs of a hardware type are available; None: any number."""
        if self.counts_units(unit):
            return self.given[unit.name]
        return self.given[unit.gpu] // unit.degree if unit.gpu in self.given else None

    def complaints(self) -> Iterator[Complaint]:
        """Yield complaints about limits of GPUs that are too small for one group of a type."""
        for unit in self.units:
            if self.of(unit) == 0:
                count = self.given[unit.gpu]
                what = f"{count} GPUs are too few for {unit.name}, whose units have {unit.degree}"
                yield f"limit.{unit.gpu}", f"{what}; raise it, or choose other types"

    @property
    def shared(self) -> dict[str, list[Unit]]:
        """GPU type → the hardware types that share its limit, if several do."""
        types_of: dict[str, list[Unit]] = {}
        for unit in self.units:
            if unit.gpu in self.given and not self.counts_units(unit):
                types_of.setdefault(unit.gpu, []).append(unit)
        return {gpu: units for gpu, units in types_of.items() if len(units) > 1}

    @property
    def bind_together(self) -> bool:
        """Whether all hardware types share one limit of GPUs, so that a budget can enforce it."""
        return [len(self.units)] == [len(units) for units in self.shared.values()]

    def hourly_budget_usd(self, prices_usd_per_hour: Mapping[str, float]) -> float | None:
        """Return the hourly price of all available GPUs if types share some; else None."""
        if not self.shared or any(self.of(unit) is None for unit in self.units):
            return None
        counted = {unit.gpu: self.given[unit.gpu] for unit in self.units if not self.counts_units(unit)}
        total = math.fsum(count * prices_usd_per_hour[gpu] for gpu, count in counted.items())
        own = (unit for unit in self.units if self.counts_units(unit))
        total += math.fsum(self.given[u.name] * u.degree * prices_usd_per_hour[u.gpu] for u in own)
        return total or None

    def sentences(self, budget_usd_per_hour: float | None) -> Iterator[str]:
        """Yield notes on the meaning of a limit of GPUs that several hardware types share."""
        for gpu, units in self.shared.items():
            each = ", ".join(f"{self.of(unit)} of {unit.name}" for unit in units)
            if self.bind_together and budget_usd_per_hour is not None:
                yield (
                    f"The {self.given[gpu]} {gpu} are shared by all types: the hourly budget is what they "
                    f"cost. Alone, a type has at most {each}."
                )
            else:
                yield (
                    f"The limit of {self.given[gpu]} {gpu} binds each of its types, not all together "
                    f"({each}); a plan that mixes them may take more GPUs. Choose one of them, or give each "
                    f"a limit, such as {units[-1].name}=1."
                )
        if budget_usd_per_hour is not None:
            yield f"The hourly budget, {budget_usd_per_hour:.10g} USD, is the price of all GPUs there are."


def _split(names: Any) -> Any:
    """Return the parts of a text between commas, and numbers in a list as text."""
    if isinstance(names, str):
        return tuple(name.strip() for name in names.split(","))
    return [str(name) if type(name) is int else name for name in names] if isinstance(names, list) else names


class SailorOptions(StagingOptions):
    """Measured layer times of a language model on several GPU types (Sailor): a staging instance."""

    ORDER = (
        *("model_dir", "types", "microbatch", "limit", "throughput", "prices", "parallel_share"),
        *("link_gbit_per_s", "microbatches_per_step"),
    )

    model_dir: Annotated[Path, Option("Folder of one model's profiles, such as profiles/OPT-350.")]
    types: Annotated[
        tuple[Name, ...],
        Field(min_length=1),
        BeforeValidator(_split),
        Option(
            "GPU types, separated by commas; A100-40-tp4: four that share each layer; all: those measured on "
            "one GPU, or at --tensor-parallel.",
            kind=str,
        ),
    ]
    tensor_parallel: Annotated[
        tuple[Name, ...] | None,
        BeforeValidator(_split),
        Option("GPUs of a unit, such as 1,2,4, or all that were measured. [default: 1]", kind=str),
    ] = None
    microbatch: Annotated[
        PositiveCount | None, Option("Samples of the profiled batch. [default: most measured]")
    ] = None
    limit: Annotated[
        dict[Name, PositiveCount],
        Option("GPUs of each type, such as A100-40=8,GH-96=4, or units: A100-40-tp4=2."),
    ] = {}
    prices: Annotated[
        dict[Name, NonNegative], Option("USD per GPU-hour, such as Titan-RTX=0.5.", option="--price")
    ] = {}
    microbatches_per_step: Annotated[PositiveCount, Option("Microbatches that share an all-reduce.")] = 4
    llm_info: Annotated[Path | None, Option("Sizes; by default llm_info.json above the folder.")] = None


BATCH = re.compile(r"[1-9][0-9]{0,8}")
Times = tuple[float, float, float]
"""Seconds of forward, backward and update."""


class _Times(Model):
    """Seconds of forward, backward and update, by layer."""

    layers: ManyNamed[Name, tuple[NonNegative, NonNegative, NonNegative]]


class Bytes(Part):
    """Sizes of one layer for one sample, in each of the GPUs that share it."""

    params_bytes: NonNegative
    act_input_bytes: NonNegative
    act_output_bytes: NonNegative
    act_mem_bytes: NonNegative


class _Sizes(Model):
    layers: ManyNamed[Name, Bytes]


class Profiles:
    """The profiles of one model, a file for each GPU type; files are read when they are first used."""

    def __init__(self, model_dir: Path) -> None:
        self.model_dir = model_dir
        source = str(model_dir)
        try:
            self.gpus = sorted(path.parent.name for path in model_dir.glob("*/profile.json"))
        except (OSError, ValueError) as error:
            raise fail(source, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
        if not self.gpus:
            what = "has no GPU/profile.json; give the folder of one model, such as profiles/OPT-350"
            raise fail(source, what)
        self._read: dict[str, dict[str, Any]] = {}

    def path(self, gpu: str) -> Path:
        """Return the path of the profile file of a GPU type."""
        return self.model_dir / gpu / "profile.json"

    def of(self, gpu: str) -> dict[str, Any]:
        """Return the content of the profile file of a GPU type."""
        if gpu not in self._read:
            data, path = read_mapping(self.path(gpu)), str(self.path(gpu))
            if any(isinstance(entry, dict) and "nodes" in entry for entry in data.values()):
                raise fail(path, "is in Piper's layout (nodes), which is not read; take Sailor's profiles")
            self._read[gpu] = data
        return self._read[gpu]

    def degrees(self, gpu: str) -> list[int]:
        """Return the tensor-parallel degrees at which a GPU type was measured."""
        keys = [degree for one in self.of(gpu).values() if isinstance(one, dict) for degree in one]
        return sorted({int(degree) for degree in keys if DEGREE.fullmatch(degree)})

    def microbatches(self, unit: Unit) -> list[int]:
        """Return the microbatch sizes that were measured on a GPU type with its degree."""
        return sorted(
            int(batch)
            for batch, degrees in self.of(unit.gpu).items()
            # An entry that is no mapping is a fault, which is raised when its times are read.
            if BATCH.fullmatch(batch) and (not isinstance(degrees, dict) or str(unit.degree) in degrees)
        )

    def layers(self, unit: Unit, microbatch: int) -> int | None:
        """Return the number of profiled layers on a GPU type and degree; None if the file lists none."""
        degrees = self.of(unit.gpu)[str(microbatch)]
        layers = degrees.get(str(unit.degree)) if isinstance(degrees, dict) else None
        return len(layers) if isinstance(layers, dict) else None

    def times(self, unit: Unit, microbatch: int, layers: Iterable[str]) -> dict[str, Times]:
        """Return layer → measured (forward, backward, update) seconds on a GPU type and degree."""
        source, where = str(self.path(unit.gpu)), f"{microbatch}.{unit.degree}"
        listed = _layers(self.of(unit.gpu), source, str(microbatch), "microbatch", unit.degree)
        times = validated(_Times, {"layers": listed}, f"{source}: {where}").layers
        expected = list(layers)
        if set(times) != set(expected):
            what = f"its layers are not 0 to {len(expected) - 1}, as the sizes of the layers have them"
            more = f"; it has {len(times)} and is of another model: leave {unit.gpu} out"
            raise fail(source, what + (more if len(times) != len(expected) else ""), where)
        untimed = [key for key, (forward, backward, _) in times.items() if forward + backward <= 0]
        zero = "forward and backward take 0 s; a measured time is above 0"
        refuse_faults(source, ((f"{where}.{key}", zero) for key in untimed))
        return times


def find_info(model_dir: Path) -> Path | None:
    """Return the path of the sizes file, in a folder above that of the model; None if there is none."""
    candidates = (folder / "llm_info.json" for folder in model_dir.absolute().parents)
    return next((path for path in candidates if path.is_file()), None)


class Info:
    """The sizes of the layers of one model, by tensor-parallel degree."""

    def __init__(self, path: Path, model: str) -> None:
        self.path, self.model = path, model
        self._data = read_mapping(path)

    def has(self, degree: int) -> bool:
        """Return whether layer sizes are known for a tensor-parallel degree; true for malformed entries."""
        model = self._data.get(self.model)
        return not isinstance(model, dict) or str(degree) in model

    def layers(self, degree: int) -> int | None:
        """Return the number of layers with sizes for a tensor-parallel degree; None if not listed."""
        model = self._data.get(self.model)
        layers = model.get(str(degree)) if isinstance(model, dict) else None
        return len(layers) if isinstance(layers, dict) else None

    def sizes(self, degree: int) -> dict[str, Bytes]:
        """Return layer → its sizes in bytes on each of `degree` GPUs, in the order of the layers."""
        source, where = str(self.path), f"{self.model}.{degree}"
        layers = _layers(self._data, source, self.model, "model", degree)
        order = [str(index) for index in range(len(layers))]
        if not layers or set(layers) != set(order):
            raise fail(source, "its layers are not numbered 0, 1, 2, … without a gap", where)
        sizes = validated(_Sizes, {"layers": layers}, f"{source}: {where}").layers
        return {key: sizes[key] for key in order}


def _layers(data: Mapping[str, Any], source: str, key: str, what: str, degree: int) -> dict[str, Any]:
    """Return the mapping of layers in a file, under a model or microbatch and a tensor-parallel degree."""
    degrees = _entry(data, key, source, "", what)
    return _entry(degrees, str(degree), source, key, "tensor-parallel degree")


def _entry(data: Any, key: str, source: str, path: str, what: str) -> dict[str, Any]:
    """Return the mapping under a key of JSON data; refuse a missing key with a list of the existing ones."""
    if not isinstance(data, dict) or key not in data:
        existing = ", ".join(map(shortened, list(data)[:20])) if isinstance(data, dict) else ""
        raise fail(source, f"has no {what} {key!r}; there are: {existing or 'none'}", path)
    entry = data[key]
    if not isinstance(entry, dict):
        raise fail(source, "is not a mapping", f"{path}.{key}" if path else key)
    return entry
