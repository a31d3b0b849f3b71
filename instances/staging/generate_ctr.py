"""Generator of synthetic click-through-rate models on HeterPS's cluster of CPU cores and GPUs.

The hardware is the paper's; its models are not public, so the layers are synthetic: lookups of embeddings
move much data and gain little from a GPU, dense layers compute and gain a hundredfold and more.
"""

from __future__ import annotations

import itertools

import numpy as np

from ..common.errors import OptionError
from ..common.fields import Fields
from ..documents import load_catalogue
from .instance import StagingInstance

PROBE = 4096
LINK_GBIT_PER_S = 100
CORES, GPUS = 480, 32
"""Units of the cluster: 10 servers with 48 cores, 4 servers with 8 V100."""
FLOOR_SAMPLES_PER_S = 150_000.0
CORE_FLOPS = 25e9
"""Floating-point operations per second of a core, assumed."""
NUMBER_BYTES = 4


def generate_ctr(layers: int = 16, seed: int = 0, floor: float | None = None) -> StagingInstance:
    """Return a random click-through-rate model on HeterPS's cluster.

    Parameters
    ----------
    layers
        Number of layers. A quarter of them are lookups of embeddings, in up to three towers with a dense
        layer each, as for users and items; one joins the towers, and the rest are dense.
    seed
        The same seed gives the same instance.
    floor
        Minimum throughput of a plan in samples per second.

    Raises
    ------
    OptionError
        If a parameter is out of range.
    """
    if not 3 <= layers <= 2000:
        raise OptionError("layers must be 3 to 2000")
    floor = FLOOR_SAMPLES_PER_S * 16 / max(16, layers) if floor is None else floor
    if not 0 < floor <= 1e15:
        raise OptionError("the floor must be a number of samples per second above 0")
    rng = np.random.default_rng(seed)
    lookups = max(1, layers // 4)
    dense = layers - lookups - 1
    towers = int(rng.integers(1, 1 + min(3, lookups, dense)))
    widths = rng.choice([256, 512, 1024, 2048], dense + 1, p=[0.2, 0.3, 0.35, 0.15])
    made = [_dense(index, *pair, rng) for index, pair in enumerate(itertools.pairwise(widths.tolist()))]
    rows: list[Fields] = []
    for tower, indices in enumerate(np.array_split(np.arange(lookups), towers)):
        rows += [*(_lookup(index, rng) for index in indices.tolist()), made[tower]]
    _carry_along(rows)
    rows += [_join(rows[-1]["output_bytes"], rng), *made[towers:]]
    return StagingInstance.model_validate(
        {
            "name": f"synthetic-ctr-{layers}-{seed}",
            "source": "SYNTHETIC model on the hardware of HeterPS (arXiv 2111.10635; FGCS 148, 2023): "
            f"prices, limits ({CORES} CPU cores, {GPUS} V100) and link",
            "assumptions": [
                "all times, shares and sizes of the layers are synthetic and random; no profile of a model "
                "of the paper is public",
                "a V100 looks embeddings up 5 to 9 times as fast as a core and does dense layers 36 to 264 "
                "times as fast, the wider the faster; it has 60.5 times the price",
                "memory is not modelled, because embedding tables lie on parameter servers",
                "the probe batch, the samples and the floor are made up",
            ],
            "throughput_floor_samples_per_s": floor,
            "training": {"samples": 1_000_000_000},
            "probe_batch": PROBE,
            "link_gbit_per_s": LINK_GBIT_PER_S,
            "catalogue": load_catalogue("catalogue:heterps"),
            "types": [
                {"name": "cpu-core", "hardware": "cpu-core", "limit": CORES, "memory_gib": None},
                {"name": "v100", "hardware": "v100", "limit": GPUS, "memory_gib": None},
            ],
            "layers": rows,
        }
    )


def _carry_along(rows: list[Fields]) -> None:
    """Add outputs of earlier embeddings and towers to each layer's output, up to the join."""
    finished = tower = 0.0
    for row in rows:
        if row["kind"] == "embedding":
            tower += row["output_bytes"]
            row["output_bytes"] = finished + tower
        else:
            finished += row["output_bytes"]
            row["output_bytes"], tower = finished, 0.0


def _row(
    name: str,
    kind: str,
    compute: tuple[float, float],
    communication: tuple[float, float],
    shares: tuple[float, float],
    sizes: tuple[float, float, float],
) -> Fields:
    """Return a layer as in a document.

    Pairs are of CPU core and V100; sizes are bytes of input, output and weights.
    """

    def by_type(values: tuple[float, float], digits: int) -> dict[str, float]:
        return {name: round(value, digits) for name, value in zip(("cpu-core", "v100"), values, strict=True)}

    return {
        "name": name,
        "kind": kind,
        "input_bytes": sizes[0],
        "output_bytes": sizes[1],
        "weight_bytes": sizes[2],
        "compute_s": by_type(compute, 6),
        "communication_s": by_type(communication, 6),
        "compute_parallel": by_type(shares, 4),
        "communication_parallel": 0.5 if kind == "embedding" else 0.0,
    }


def _lookup(index: int, rng: np.random.Generator) -> Fields:
    rows = int(rng.integers(8, 40))
    out = PROBE * int(rng.choice([16, 32, 64])) * int(rng.integers(2, 9)) * NUMBER_BYTES
    seconds = rows * rng.uniform(0.008, 0.012)
    moved = PROBE * rows * 64 * NUMBER_BYTES * 8 / (LINK_GBIT_PER_S * 1e9)
    return _row(
        f"lookup-{index}",
        "embedding",
        (seconds, seconds / rng.uniform(5, 9)),
        (moved, moved * rng.uniform(1.5, 3)),
        (rng.uniform(0.99, 0.998), rng.uniform(0.6, 0.8)),
        (PROBE * rows * 8, out, rng.uniform(1e9, 5e10)),
    )


def _join(arriving: float, rng: np.random.Generator) -> Fields:
    seconds = rng.uniform(0.03, 0.12)
    return _row(
        "join",
        "concat",
        (seconds, seconds / rng.uniform(10, 20)),
        (0.0, 0.0),
        (0.99, 0.9),
        (arriving, arriving, 0.0),
    )


def _speedup(before: int, after: int, rng: np.random.Generator) -> float:
    """Return the random speed of a V100 relative to a CPU core; it grows with the layer's width."""
    return float(np.sqrt(before * after) / 2048 * 200 + 20) * rng.uniform(0.8, 1.2)


def _dense(index: int, before: int, after: int, rng: np.random.Generator) -> Fields:
    weights = before * after * NUMBER_BYTES
    seconds = 6 * PROBE * before * after / CORE_FLOPS * rng.uniform(0.8, 1.2)
    sent = 2 * weights * 8 / (LINK_GBIT_PER_S * 1e9)
    return _row(
        f"dense-{index}",
        "dense",
        (seconds, seconds / _speedup(before, after, rng)),
        (sent, sent),
        (rng.uniform(0.98, 0.996), rng.uniform(0.95, 0.99)),
        (PROBE * before * NUMBER_BYTES, PROBE * after * NUMBER_BYTES, weights),
    )
