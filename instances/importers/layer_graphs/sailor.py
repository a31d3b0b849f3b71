"""Sailor: measured times of each layer of a language model on several GPU types (SOSP'25).

``profiles/MODEL/GPU/profile.json`` is microbatch → tensor-parallel degree → layer → seconds of forward,
backward and update; ``llm_info.json`` is model → tensor-parallel degree → layer → bytes of one sample, in
each of the GPUs that share the layer.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...common.errors import refuse_faults
from ...common.faults import validated
from ...common.fields import unknown_names
from ...common.hardware import GIB
from ...files.reading import fail
from ...staging.instance import StagingInstance
from ..importer import Importer
from .sailor_profiles import (
    ALL,
    DEGREE,
    Bytes,
    Info,
    Limits,
    Profiles,
    SailorOptions,
    Times,
    Unit,
    find_info,
    units_of,
)

COPIES = 4
"""Weights, gradients and the two moments of Adam."""
GPU_MEMORY_GB = {
    "V100-16": 16,
    "A100-40": 40,
    "A100-80": 80,
    "GH-96": 96,
    "Titan-RTX": 24,
    "RTX-2080": 11,
    "RTX-3090": 24,
}


def assumptions(options: SailorOptions, times: Mapping[Unit, Mapping[str, Times]]) -> Iterable[str]:
    """Yield the assumptions about data that the source lacks."""
    units = list(times)
    gpus = list(dict.fromkeys(unit.gpu for unit in units))
    yield (
        "A layer takes its forward and backward seconds for each microbatch; the seconds of the weight "
        "update are left out, because it happens once in a training step, not once for each microbatch."
    )
    missing = [
        unit.name for unit, layers in times.items() if all(update == 0 for _, _, update in layers.values())
    ]
    if missing:
        yield f"Update seconds of {', '.join(missing)} are 0 in the source: missing, and not needed."
    parallel = [unit for unit in units if unit.degree > 1]
    yield options.how_units_share("units" if parallel else "GPUs")
    yield from _unit_assumptions(units, parallel)
    yield from _communication(options)
    yield from _memory(gpus, bool(parallel))
    yield from _price_assumptions(options, gpus)
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


def _memory(gpus: Iterable[str], parallel: bool) -> Iterable[str]:
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


def _price_assumptions(options: SailorOptions, gpus: Iterable[str]) -> Iterable[str]:
    known = [name for name in gpus if name not in options.prices]
    if known:
        yield f"Prices of {', '.join(known)} are on-demand prices of one GPU in the source's repository."
    if options.prices:
        yield f"Prices of {', '.join(options.prices)} were given at import and are not from the source."


log = logging.getLogger("clusterplan")

SOURCE = "eth-easl/sailor (commit cf2c8e3, MIT)"
PRICES_USD_PER_HOUR = {"A100-40": 3.673385, "V100-16": 2.859998, "GH-96": 11.06}
"""On-demand prices of one GPU, as in Sailor's repository."""


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
        what = "no folder above it holds llm_info.json, the sizes of the layers; put it there"
        raise fail(source, what)
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
    layers, expected = profiles.layers(unit, measured[0]), info.layers(unit.degree)
    if layers is not None and expected is not None and layers != expected:
        return f"its profile has {layers} layers, and {info.model} has {expected}"
    if options.tensor_parallel is None or options.microbatch in (None, *measured):
        return None
    return f"microbatch {options.microbatch} was not measured on it"


def _info(options: SailorOptions, model: str) -> Info | None:
    path = options.llm_info or find_info(options.model_dir)
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
        what = f"no price is known of {', '.join(missing)}; give --price {given} (per GPU and hour)"
        complaints.append(("prices", f"{what}; known: {known}"))
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


def _type(unit: Unit, prices: Mapping[str, float], limits: Limits) -> dict[str, Any]:
    memory = GPU_MEMORY_GB.get(unit.gpu)
    return {
        "name": unit.name,
        "price_usd_per_hour": unit.degree * prices[unit.gpu],
        "limit": limits.of(unit),
        "memory_gib": None if memory is None else memory * 1e9 / GIB,
    }


def _layer(
    key: str,
    sizes: Mapping[int, Mapping[str, Bytes]],
    microbatch: int,
    options: SailorOptions,
    times: Mapping[Unit, Mapping[str, Times]],
) -> dict[str, Any]:
    own = {degree: layers[key] for degree, layers in sizes.items()}
    memory = {
        degree: (COPIES * size.params_bytes + size.act_mem_bytes * microbatch) / GIB
        for degree, size in own.items()
    }
    link = options.link_gbit_per_s
    # Each GPU of a unit exchanges its share of the parameters with its counterparts.
    all_reduce_s = {
        degree: 0.0
        if link is None
        else 2 * size.params_bytes * 8 / (link * 1e9) / options.microbatches_per_step
        for degree, size in own.items()
    }
    (degree, whole), *others = own.items()
    return {
        "name": f"layer-{int(key):02d}",
        "memory_gib": {unit.name: memory[unit.degree] for unit in times} if others else memory[degree],
        "input_bytes": whole.act_input_bytes * microbatch,
        "output_bytes": whole.act_output_bytes * microbatch,
        "weight_bytes": whole.params_bytes * degree,
        # The update is left out: it happens once in a training step, not once for each microbatch.
        "compute_s": {unit.name: math.fsum(layers[key][:2]) for unit, layers in times.items()},
        "communication_s": {} if link is None else {unit.name: all_reduce_s[unit.degree] for unit in times},
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
