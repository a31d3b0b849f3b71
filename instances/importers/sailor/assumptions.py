"""What the import of Sailor's profiles assumes, in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .options import SailorOptions
from .profiles import Times
from .units import Unit

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
    """Yield what the source does not say."""
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
    yield from _units(units, parallel)
    yield from _communication(options)
    yield from _memory(gpus, bool(parallel))
    yield from _prices(options, gpus)
    yield options.how_much_is_trained()


def _units(units: Sequence[Unit], parallel: Sequence[Unit]) -> Iterable[str]:
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


def _prices(options: SailorOptions, gpus: Iterable[str]) -> Iterable[str]:
    known = [name for name in gpus if name not in options.prices]
    if known:
        yield f"Prices of {', '.join(known)} are on-demand prices of one GPU in the source's repository."
    if options.prices:
        yield f"Prices of {', '.join(options.prices)} were given at import and are not from the source."
