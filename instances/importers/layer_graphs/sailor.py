"""Sailor: measured times of each layer of a language model on several GPU types (SOSP'25).

``profiles/MODEL/GPU/profile.json`` is microbatch → tensor-parallel degree → layer → seconds of forward,
backward and update; ``llm_info.json`` is model → tensor-parallel degree → layer → bytes of one sample, in
each of the GPUs that share the layer. A unit is a GPU, or several that share every layer by tensor
parallelism.
"""

from __future__ import annotations

import logging
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
    Fields,
    ManyNamed,
    Model,
    Name,
    NonNegative,
    Part,
    PositiveCount,
    unknown_names,
)
from ...common.hardware import GIB
from ...files.reading import fail, read_mapping
from ...staging.instance import StagingInstance
from ..importer import Importer, Option, at
from .graph_instance import StagingOptions

log = logging.getLogger("clusterplan")
SOURCE = "eth-easl/sailor (commit cf2c8e3, MIT)"
PRICES_USD_PER_HOUR = {"A100-40": 3.673385, "V100-16": 2.859998, "GH-96": 11.06}
"""On-demand prices of one GPU, as in Sailor's repository."""
COPIES = 4
"""Weights, gradients and the two moments of Adam."""
GPU_MEMORY_GB = {
    **{"V100-16": 16, "A100-40": 40, "A100-80": 80, "GH-96": 96},
    **{"Titan-RTX": 24, "RTX-2080": 11, "RTX-3090": 24},
}
TENSOR_PARALLEL = re.compile(r"(.+)-tp([1-9][0-9]{0,3})")
DEGREE = re.compile(r"[1-9][0-9]{0,3}")
BATCH = re.compile(r"[1-9][0-9]{0,8}")
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
                what = (
                    f"{count} GPUs are too few for {unit.name}, whose units have {unit.degree}; raise it, "
                    "or choose other types"
                )
                yield f"limit.{unit.gpu}", what

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


Times = tuple[float, float, float]
"""Seconds of forward, backward and update."""


class _Times(Model):
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
        self.model_dir, source = model_dir, str(model_dir)
        try:
            self.gpus = sorted(path.parent.name for path in model_dir.glob("*/profile.json"))
        except (OSError, ValueError) as error:
            raise fail(source, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
        if not self.gpus:
            what = "has no GPU/profile.json; give the folder of one model, such as profiles/OPT-350"
            raise fail(source, what)
        self._read: dict[str, Fields] = {}

    def path(self, gpu: str) -> Path:
        """Return the path of the profile file of a GPU type."""
        return self.model_dir / gpu / "profile.json"

    def of(self, gpu: str) -> Fields:
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


class Info:
    """The sizes of the layers of one model, by tensor-parallel degree."""

    def __init__(self, path: Path, model: str) -> None:
        self.path, self.model, self.data = path, model, read_mapping(path)

    def has(self, degree: int) -> bool:
        """Return whether layer sizes are known for a tensor-parallel degree; true for malformed entries."""
        model = self.data.get(self.model)
        return not isinstance(model, dict) or str(degree) in model

    def sizes(self, degree: int) -> dict[str, Bytes]:
        """Return layer → its sizes in bytes on each of `degree` GPUs, in the order of the layers."""
        source, where = str(self.path), f"{self.model}.{degree}"
        layers = _layers(self.data, source, self.model, "model", degree)
        order = [str(index) for index in range(len(layers))]
        if not layers or set(layers) != set(order):
            raise fail(source, "its layers are not numbered 0, 1, 2, … without a gap", where)
        sizes = validated(_Sizes, {"layers": layers}, f"{source}: {where}").layers
        return {key: sizes[key] for key in order}


def layer_count(data: Mapping[str, Any], key: str, degree: int) -> int | None:
    """Return the number of layers under a model or microbatch and a degree; None if none is listed."""
    layers = at(data, key, str(degree))
    return len(layers) if isinstance(layers, dict) else None


def _layers(data: Mapping[str, Any], source: str, key: str, what: str, degree: int) -> Fields:
    """Return the mapping of layers in a file, under a model or microbatch and a tensor-parallel degree."""
    return _entry(_entry(data, key, source, "", what), str(degree), source, key, "tensor-parallel degree")


def _entry(data: Any, key: str, source: str, path: str, what: str) -> Fields:
    """Return the mapping under a key of JSON data; refuse a missing key with a list of the existing ones."""
    if not isinstance(data, dict) or key not in data:
        existing = ", ".join(map(shortened, list(data)[:20])) if isinstance(data, dict) else ""
        raise fail(source, f"has no {what} {key!r}; there are: {existing or 'none'}", path)
    entry = data[key]
    if not isinstance(entry, dict):
        raise fail(source, "is not a mapping", f"{path}.{key}" if path else key)
    return entry


@Importer
def import_sailor(options: SailorOptions) -> StagingInstance:
    """Return the staging instance of a model that Sailor profiled."""
    source, model = str(options.model_dir), options.model_dir.absolute().name
    profiles = Profiles(options.model_dir)
    units, without = _units(options, profiles, model)
    prices = _prices(options, units)
    limits = Limits(options.limit, units)
    refuse_faults("options", limits.complaints())
    microbatch = _microbatch(options, profiles, units)
    info = _info(options, model)
    if info is None:
        raise fail(source, "no folder above it holds llm_info.json, the sizes of the layers; put it there")
    sizes = _sizes(info, units)
    keys = next(iter(sizes.values())).keys()
    times = {unit: profiles.times(unit, microbatch, keys) for unit in units}
    budget = limits.hourly_budget_usd(prices)
    together = list(limits.sentences(budget))
    if budget is None or not limits.bind_together:
        for sentence in together:
            log.warning(sentence)
    parallel = any(unit.degree > 1 for unit in units)
    document = {
        "name": f"sailor-{model}",
        "source": f"profiles of {model} and {info.path.name}, in the layout of {SOURCE}",
        "assumptions": [*assumptions(options, times), *together, *without],
        "objective": options.objective,
        "stage_rule": options.stage_rule or ("free_cuts" if parallel else "maximal_runs"),
        "throughput_floor_samples_per_s": options.throughput,
        "hourly_budget_usd": budget,
        "training": {"samples": options.samples, "epochs": options.epochs},
        "probe_batch": microbatch,
        "link_gbit_per_s": options.link_gbit_per_s,
        "types": [_type(unit, prices, limits) for unit in units],
        "layers": [_layer(key, sizes, microbatch, options, times) for key in keys],
    }
    return validated(StagingInstance, document, source)


def _units(options: SailorOptions, profiles: Profiles, model: str) -> tuple[list[Unit], list[str]]:
    """Return the hardware types of the instance, and notes on requested types that the source lacks."""
    degrees = options.tensor_parallel
    strange = [one for one in degrees or () if one != ALL and not DEGREE.fullmatch(one)]
    what = "{!r} is no number of GPUs; write such as 1,2,4, or all"
    refuse_faults("options", (("tensor_parallel", what.format(one)) for one in strange))
    asked = units_of(options.types, degrees, profiles.gpus, profiles.degrees)
    info = None if all(unit.named for unit in asked) else _info(options, model)
    units, left_out = [], dict[str, list[str]]()
    for unit in asked:
        why = None if unit.named else _why_not(unit, options, profiles, info)
        if why is None:
            units.append(unit)
        else:
            left_out.setdefault(why, []).append(unit.name)
    sentences = [f"{', '.join(names)} is left out: {why}." for why, names in left_out.items()]
    kept = {unit.gpu for unit in units}
    if not kept or (options.types != (ALL,) and any(unit.gpu not in kept for unit in asked)):
        what = f"has too few profiles: {' '.join(sentences) or 'nothing was measured.'} Choose other types"
        raise fail(str(options.model_dir), what, "types")
    return units, sentences


def _why_not(unit: Unit, options: SailorOptions, profiles: Profiles, info: Info | None) -> str | None:
    """Return why profiles of a GPU type and tensor-parallel degree cannot be used; None if they can."""
    measured = profiles.microbatches(unit)
    if not measured:
        return f"no time of {_gpus(unit.degree)} was measured on it"
    if info is None:
        return None
    if not info.has(unit.degree):
        return f"{info.path.name} has no sizes for tensor-parallel degree {unit.degree} of {info.model}"
    layers = layer_count(profiles.of(unit.gpu), str(measured[0]), unit.degree)
    expected = layer_count(info.data, info.model, unit.degree)
    if layers is not None and expected is not None and layers != expected:
        return f"its profile has {layers} layers, and {info.model} has {expected}"
    if options.tensor_parallel is None or options.microbatch in (None, *measured):
        return None
    return f"microbatch {options.microbatch} was not measured on it"


def _info(options: SailorOptions, model: str) -> Info | None:
    """Return the sizes of the layers, from a folder above that of the model unless a file is given."""
    above = (folder / "llm_info.json" for folder in options.model_dir.absolute().parents)
    path = options.llm_info or next((path for path in above if path.is_file()), None)
    return None if path is None else Info(path, model)


def _gpus(degree: int) -> str:
    return "one GPU" if degree == 1 else f"{degree} GPUs"


def _prices(options: SailorOptions, units: Sequence[Unit]) -> dict[str, float]:
    """Return hardware type → price of one GPU; refuse limits and prices of types not chosen."""
    gpus = dict.fromkeys(unit.gpu for unit in units)
    names = [*gpus, *(unit.name for unit in units)]
    complaints = [*unknown_names(options.limit, names, "limit", "GPU type", "chosen types")]
    complaints += unknown_names(options.prices, gpus, "prices", "GPU type", "chosen types")
    prices = {**PRICES_USD_PER_HOUR, **options.prices}
    missing = [gpu for gpu in gpus if gpu not in prices]
    if missing:
        known, given = ", ".join(PRICES_USD_PER_HOUR), ",".join(f"{name}=USD" for name in missing)
        what = (
            f"no price is known of {', '.join(missing)}; give --price {given} (per GPU and hour); "
            f"known: {known}"
        )
        complaints.append(("prices", what))
    refuse_faults("options", complaints)
    return {gpu: prices[gpu] for gpu in gpus}


def _microbatch(options: SailorOptions, profiles: Profiles, units: Sequence[Unit]) -> int:
    """Return the requested microbatch size, or the largest that was measured on all types."""
    measured = {unit: profiles.microbatches(unit) for unit in units}
    for unit in units:
        if not measured[unit]:
            available = ", ".join(map(str, profiles.degrees(unit.gpu)))
            what = f"has no time of {_gpus(unit.degree)} (tensor-parallel degree {unit.degree}) of {unit.gpu}"
            what += f", only of degree {available}" if available else ""
            raise fail(str(options.model_dir), f"{what}; choose other types, or all", "types")
    common = sorted(set.intersection(*map(set, measured.values())))
    available = ", ".join(map(str, common)) or "none"
    if options.microbatch is None:
        if not common:
            raise fail("options", "none was measured on all types; choose fewer types", "microbatch")
        return common[-1]
    if options.microbatch not in common:
        lacking = [unit for unit in measured if options.microbatch not in measured[unit]]
        one = "one " if all(unit.degree == 1 for unit in lacking) else ""
        what = f"{options.microbatch} was not measured on {one}{', '.join(unit.name for unit in lacking)}"
        raise fail("options", f"{what}; measured on all types: {available}", "microbatch")
    return options.microbatch


def _type(unit: Unit, prices: Mapping[str, float], limits: Limits) -> Fields:
    return {
        "name": unit.name,
        "price_usd_per_hour": unit.degree * prices[unit.gpu],
        "limit": limits.of(unit),
        "memory_gib": GPU_MEMORY_GB[unit.gpu] * 1e9 / GIB if unit.gpu in GPU_MEMORY_GB else None,
    }


def _layer(
    key: str,
    sizes: Mapping[int, Mapping[str, Bytes]],
    microbatch: int,
    options: SailorOptions,
    times: Mapping[Unit, Mapping[str, Times]],
) -> Fields:
    own = {degree: layers[key] for degree, layers in sizes.items()}
    memory = {
        degree: (COPIES * size.params_bytes + size.act_mem_bytes * microbatch) / GIB
        for degree, size in own.items()
    }
    link = options.link_gbit_per_s
    (degree, whole), *others = own.items()
    return {
        "name": f"layer-{int(key):02d}",
        "memory_gib": {unit.name: memory[unit.degree] for unit in times} if others else memory[degree],
        "input_bytes": whole.act_input_bytes * microbatch,
        "output_bytes": whole.act_output_bytes * microbatch,
        "weight_bytes": whole.params_bytes * degree,
        # The update is left out: it happens once in a training step, not once for each microbatch.
        "compute_s": {unit.name: math.fsum(layers[key][:2]) for unit, layers in times.items()},
        # Each GPU of a unit exchanges its share of the parameters with its counterparts.
        "communication_s": {
            unit.name: 2 * own[unit.degree].params_bytes * 8 / (link * 1e9) / options.microbatches_per_step
            for unit in times
            if link is not None
        },
        "compute_parallel": options.parallel_share,
        "communication_parallel": 0.0,
    }


def _sizes(info: Info, units: Sequence[Unit]) -> dict[int, dict[str, Bytes]]:
    """Return tensor-parallel degree → layer → its sizes in bytes, the smallest degree first."""
    sizes = {degree: info.sizes(degree) for degree in sorted({unit.degree for unit in units})}
    first = min(sizes)
    for degree, layers in sizes.items():
        if layers.keys() != sizes[first].keys():
            what = f"has sizes of {len(layers)} layers, and of {len(sizes[first])} for degree {first}"
            raise fail(str(info.path), what, f"{info.model}.{degree}")
    return sizes


def assumptions(options: SailorOptions, times: Mapping[Unit, Mapping[str, Times]]) -> Iterable[str]:
    """Yield the assumptions about data that the source lacks."""
    units = list(times)
    gpus = list(dict.fromkeys(unit.gpu for unit in units))
    yield (
        "A layer takes its forward and backward seconds for each microbatch; the seconds of the weight "
        "update are left out, because it happens once in a training step, not once for each microbatch."
    )
    missing = [unit.name for unit in units if not any(update for *_, update in times[unit].values())]
    if missing:
        yield f"Update seconds of {', '.join(missing)} are 0 in the source: missing, and not needed."
    parallel = [unit for unit in units if unit.degree > 1]
    yield options.how_units_share("units" if parallel else "GPUs")
    yield from _unit_assumptions(units, parallel)
    yield from _communication(options)
    share = " its share of them with tensor parallelism," if parallel else ""
    yield (
        f"A GPU holds {COPIES} x the parameter bytes of its layers (weights, gradients and the two moments "
        f"of Adam) and the activations of one whole microbatch,{share} however many GPUs share it, and "
        "nothing else."
    )
    yield "GPU memory is the GPU's figure in GB of 1e9 bytes, all of it usable."
    unknown = [name for name in gpus if name not in GPU_MEMORY_GB]
    if unknown:
        yield f"The memory of {', '.join(unknown)} is unknown and not checked."
    known = [name for name in gpus if name not in options.prices]
    if known:
        yield f"Prices of {', '.join(known)} are on-demand prices of one GPU in the source's repository."
    if options.prices:
        yield f"Prices of {', '.join(options.prices)} were given at import and are not from the source."
    yield options.how_much_is_trained()


def _unit_assumptions(units: Sequence[Unit], parallel: Sequence[Unit]) -> Iterable[str]:
    if not parallel:
        yield "One unit is one GPU with whole layers (tensor-parallel degree 1)."
        return
    alone = [unit.name for unit in units if unit.degree == 1]
    if alone:
        yield f"One unit of {', '.join(alone)} is one GPU with whole layers (tensor-parallel degree 1)."
    groups = ", ".join(f"of {unit.name} is {unit.degree} {unit.gpu}" for unit in parallel)
    yield (
        f"One unit {groups}, which share every layer by tensor parallelism, at the price of so many GPUs; "
        "the measured times are taken to include what they exchange. Its memory is that of each of them."
    )


def _communication(options: SailorOptions) -> Iterable[str]:
    if options.link_gbit_per_s is None:
        yield "The source has no communication times; neither all-reduce nor transfers take any."
        return
    link = f"an assumed link of {options.link_gbit_per_s:g} Gbit/s"
    count = options.microbatches_per_step
    yield (
        "The source has no communication times; once in an assumed training step of "
        f"{count} microbatch{'es' if count > 1 else ''} each layer does an all-reduce of twice its parameter "
        f"bytes over {link}, of which every microbatch bears its part; further GPUs do not shorten it, and a "
        "stage of one GPU is charged too."
    )
    yield f"A stage receives the activations of the stage before it over {link}."
