"""Sailor: measured times of each layer of a language model on several GPU types (SOSP'25).

``profiles/MODEL/GPU/profile.json`` is microbatch → tensor-parallel degree → layer → seconds of forward,
backward and update; ``llm_info.json`` is model → tensor-parallel degree → layer → bytes of one sample.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from ..common.errors import refuse_faults
from ..common.faults import validated
from ..common.fields import ManyNamed, Model, Name, NonNegative, Part, PositiveCount, unknown_names
from ..common.hardware import GIB
from ..common.printable import shortened
from ..files.reading import fail, read_mapping
from ..staging.instance import StagingInstance
from .importer import Importer, Option
from .staging_options import StagingOptions

SOURCE = "eth-easl/sailor (commit cf2c8e3, MIT)"
DEGREE = "1"
"""Tensor-parallel degree: how many GPUs share one layer. One unit is one GPU."""
PRICES_USD_PER_HOUR = {"A100-40": 3.673385, "V100-16": 2.859998, "GH-96": 11.06}
"""On-demand prices of one GPU, as in Sailor's repository."""
GPU_MEMORY_GB = {
    "V100-16": 16,
    "A100-40": 40,
    "A100-80": 80,
    "GH-96": 96,
    "Titan-RTX": 24,
    "RTX-2080": 11,
    "RTX-3090": 24,
}
COPIES = 4
"""Weights, gradients and the two moments of Adam."""


ALL = ("all",)
"""Stands for the types that were measured on one GPU."""


def _split(types: Any) -> Any:
    return tuple(name.strip() for name in types.split(",")) if isinstance(types, str) else types


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
        Option("GPU types, separated by commas; all: those measured on one GPU.", kind=str),
    ]
    microbatch: Annotated[
        PositiveCount | None, Option("Samples of the profiled batch. [default: most measured]")
    ] = None
    prices: Annotated[
        dict[Name, NonNegative], Option("USD per GPU-hour, such as Titan-RTX=0.5.", option="--price")
    ] = {}
    microbatches_per_step: Annotated[PositiveCount, Option("Microbatches that share an all-reduce.")] = 4
    llm_info: Annotated[Path | None, Option("Sizes; by default llm_info.json above the folder.")] = None


class _Times(Model):
    """Seconds of forward, backward and update, by layer."""

    layers: ManyNamed[Name, tuple[NonNegative, NonNegative, NonNegative]]


class _Bytes(Part):
    """Sizes of one layer for one sample."""

    params_bytes: NonNegative
    act_input_bytes: NonNegative
    act_output_bytes: NonNegative
    act_mem_bytes: NonNegative


class _Sizes(Model):
    layers: ManyNamed[Name, _Bytes]


@Importer
def import_sailor(options: SailorOptions) -> StagingInstance:
    """Return the staging instance of a model that Sailor profiled."""
    model_dir, every = options.model_dir, options.types == ALL
    profiled = _profiled(model_dir)
    measured = _measured(model_dir, profiled) if every else {}
    if every:
        alone = [name for name, batches in measured.items() if batches]
        # Validated again: perhaps no type was measured on one GPU.
        options = validated(SailorOptions, {**dict(options), "types": alone}, "options")
    _check_types(options, profiled)
    measured = measured or _measured(model_dir, options.types)
    microbatch = _microbatch(options, measured, str(model_dir))
    model = model_dir.absolute().name
    info = options.llm_info or _find_info(model_dir)
    sizes = _read_sizes(info, model)
    times = {
        name: _read_times(model_dir / name / "profile.json", microbatch, sizes) for name in options.types
    }
    document = {
        "name": f"sailor-{model}",
        "source": f"profiles of {model} and {info.name}, in the layout of {SOURCE}",
        "assumptions": [*_assumptions(options, times), *(_left_out(measured) if every else ())],
        "throughput_floor_samples_per_s": options.throughput,
        "training": {"samples": options.samples, "epochs": options.epochs},
        "probe_batch": microbatch,
        "link_gbit_per_s": options.link_gbit_per_s,
        "types": [_type(name, options) for name in options.types],
        "layers": [_layer(key, size, microbatch, options, times) for key, size in sizes.items()],
    }
    return validated(StagingInstance, document, str(model_dir))


def _profiled(model_dir: Path) -> list[str]:
    """Return the GPU types that have a profile."""
    source = str(model_dir)
    try:
        names = sorted(path.parent.name for path in model_dir.glob("*/profile.json"))
    except (OSError, ValueError) as error:
        raise fail(source, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not names:
        raise fail(source, "has no GPU/profile.json; give the folder of one model, such as profiles/OPT-350")
    return names


def _measured(model_dir: Path, types: Iterable[str]) -> dict[str, list[int]]:
    """Return the microbatches that were measured on one GPU of each type."""
    return {
        name: sorted(
            int(batch)
            for batch, degrees in read_mapping(model_dir / name / "profile.json").items()
            if re.fullmatch(r"[1-9][0-9]{0,8}", batch)
            and (not isinstance(degrees, dict) or DEGREE in degrees)
        )
        for name in types
    }


def _check_types(options: SailorOptions, measured: Sequence[str]) -> None:
    """Refuse types that were not measured or have no price, and options for types that are not chosen."""
    complaints = [*unknown_names(options.types, measured, "types", "GPU type", "measured types")]
    complaints += unknown_names(options.limit, options.types, "limit", "GPU type", "chosen types")
    complaints += unknown_names(options.prices, options.types, "prices", "GPU type", "chosen types")
    priced = {*options.prices, *PRICES_USD_PER_HOUR}
    missing = [name for name in dict.fromkeys(options.types) if name in measured and name not in priced]
    if missing:
        known, given = ", ".join(PRICES_USD_PER_HOUR), ",".join(f"{name}=USD" for name in missing)
        what = f"no price is known of {', '.join(missing)}; give --price {given} (per GPU and hour)"
        complaints.append(("prices", f"{what}; known: {known}"))
    refuse_faults("options", complaints)


def _microbatch(options: SailorOptions, measured: Mapping[str, Sequence[int]], source: str) -> int:
    """Return the microbatch that is asked for, or the largest that was measured on one GPU of each type."""
    alone = [name for name in options.types if not measured[name]]
    if alone:
        what = f"no time of one GPU (tensor-parallel degree {DEGREE}) of {', '.join(alone)}"
        raise fail(source, f"has {what}; choose other types, or all", "types")
    common = sorted(set.intersection(*(set(measured[name]) for name in options.types)))
    there = ", ".join(map(str, common)) or "none"
    if options.microbatch is None:
        if not common:
            raise fail("options", "none was measured on all types; choose fewer types", "microbatch")
        return common[-1]
    if options.microbatch not in common:
        lacking = ", ".join(name for name in options.types if options.microbatch not in measured[name])
        what = f"{options.microbatch} was not measured on one {lacking}; measured on all types: {there}"
        raise fail("options", what, "microbatch")
    return options.microbatch


def _left_out(measured: Mapping[str, Sequence[int]]) -> Iterable[str]:
    alone = [name for name, batches in measured.items() if not batches]
    if alone:
        yield f"{', '.join(alone)} is left out: no time of one GPU was measured on it."


def _find_info(model_dir: Path) -> Path:
    for folder in model_dir.absolute().parents:
        if (folder / "llm_info.json").is_file():
            return folder / "llm_info.json"
    raise fail(
        str(model_dir), "no folder above it holds llm_info.json, the sizes of the layers; put it there"
    )


def _entry(data: Any, key: str, source: str, path: str, what: str) -> dict[str, Any]:
    """Return the mapping under a key, or say which keys there are."""
    if not isinstance(data, dict) or key not in data:
        there = ", ".join(map(shortened, list(data)[:20])) if isinstance(data, dict) else ""
        raise fail(source, f"has no {what} {key!r}; there are: {there or 'none'}", path)
    found = data[key]
    if not isinstance(found, dict):
        raise fail(source, "is not a mapping", f"{path}.{key}" if path else key)
    return found


def _read_layers(path: Path, key: str, what: str) -> dict[str, Any]:
    """Return the layers on one GPU, as they stand in a file under a model or microbatch."""
    degrees = _entry(read_mapping(path), key, str(path), "", what)
    return _entry(degrees, DEGREE, str(path), key, "tensor-parallel degree")


def _read_sizes(path: Path, model: str) -> dict[str, _Bytes]:
    """Return the sizes of the model's layers, in their order."""
    source = str(path)
    layers = _read_layers(path, model, "model")
    order = [str(index) for index in range(len(layers))]
    if not layers or set(layers) != set(order):
        raise fail(source, "its layers are not numbered 0, 1, 2, … without a gap", f"{model}.{DEGREE}")
    sizes = validated(_Sizes, {"layers": layers}, f"{source}: {model}.{DEGREE}").layers
    return {key: sizes[key] for key in order}


def _read_times(
    path: Path, microbatch: int, sizes: Mapping[str, _Bytes]
) -> dict[str, tuple[float, float, float]]:
    """Return the seconds of each layer on one GPU type."""
    source, where = str(path), f"{microbatch}.{DEGREE}"
    layers = _read_layers(path, str(microbatch), "microbatch")
    times = validated(_Times, {"layers": layers}, f"{source}: {where}").layers
    if set(times) != set(sizes):
        raise fail(
            source, f"its layers are not 0 to {len(sizes) - 1}, as the sizes of the layers have them", where
        )
    untimed = [key for key, (forward, backward, _) in times.items() if forward + backward <= 0]
    what = "forward and backward take 0 s; a measured time is above 0"
    refuse_faults(source, ((f"{where}.{key}", what) for key in untimed))
    return times


def _type(name: str, options: SailorOptions) -> dict[str, Any]:
    memory = GPU_MEMORY_GB.get(name)
    price = options.prices.get(name, PRICES_USD_PER_HOUR.get(name))
    return {
        "name": name,
        "price_usd_per_hour": price,
        "limit": options.limit.get(name),
        "memory_gib": None if memory is None else memory * 1e9 / GIB,
    }


def _layer(
    key: str,
    size: _Bytes,
    microbatch: int,
    options: SailorOptions,
    times: Mapping[str, Mapping[str, tuple[float, float, float]]],
) -> dict[str, Any]:
    link = options.link_gbit_per_s
    step_s = 0.0 if link is None else 2 * size.params_bytes * 8 / (link * 1e9)
    all_reduce_s = step_s / options.microbatches_per_step
    return {
        "name": f"layer-{int(key):02d}",
        "memory_gib": (COPIES * size.params_bytes + size.act_mem_bytes * microbatch) / GIB,
        "input_bytes": size.act_input_bytes * microbatch,
        "output_bytes": size.act_output_bytes * microbatch,
        "weight_bytes": size.params_bytes,
        # The update is left out: it happens once in a training step, not once for each microbatch.
        "compute_s": {name: math.fsum(layers[key][:2]) for name, layers in times.items()},
        "communication_s": {} if link is None else dict.fromkeys(times, all_reduce_s),
        "compute_parallel": options.parallel_share,
        "communication_parallel": 0.0,
    }


def _assumptions(
    options: SailorOptions, times: Mapping[str, Mapping[str, tuple[float, float, float]]]
) -> Iterable[str]:
    yield (
        "A layer takes its forward and backward seconds for each microbatch; the seconds of the weight "
        "update are left out, because it happens once in a training step, not once for each microbatch."
    )
    missing = [name for name, layers in times.items() if all(update == 0 for _, _, update in layers.values())]
    if missing:
        yield f"Update seconds of {', '.join(missing)} are 0 in the source: missing, and not needed."
    yield options.how_units_share("GPUs")
    yield "One unit is one GPU with whole layers (tensor-parallel degree 1)."
    yield from _communication(options)
    yield from _memory(options.types)
    yield from _prices(options)
    yield options.how_much_is_trained()


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


def _memory(types: Iterable[str]) -> Iterable[str]:
    yield (
        f"A GPU holds {COPIES} x the parameter bytes of its layers (weights, gradients and the two moments "
        "of Adam) and the activations of one whole microbatch, however many GPUs share it, and nothing else."
    )
    yield "GPU memory is the GPU's figure in GB of 1e9 bytes, all of it usable."
    unknown = [name for name in types if name not in GPU_MEMORY_GB]
    if unknown:
        yield f"The memory of {', '.join(unknown)} is unknown and not checked."


def _prices(options: SailorOptions) -> Iterable[str]:
    known = [name for name in options.types if name not in options.prices]
    if known:
        yield f"Prices of {', '.join(known)} are on-demand prices of one GPU in the source's repository."
    if options.prices:
        yield f"Prices of {', '.join(options.prices)} were given at import and are not from the source."
