"""A staging instance from forecasts: which layers on which hardware, and on how many units?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...common.errors import OptionError
from ...common.faults import validated
from ...common.hardware import GIB
from ...staging.instance import StagingInstance
from ..communication.links import LINK_ENDS
from ..models.description import ModelDescription
from .forecast import Forecast, width
from .sentences import of_forecasts, of_work, pointer, precisions
from .work import Work


def staging_of(
    model: ModelDescription, forecasts: Sequence[Forecast], work: Work, said: Sequence[str] = ()
) -> StagingInstance:
    """Return the staging instance of a model.

    Parameters
    ----------
    said
        Further assumptions.

    Raises
    ------
    OptionError
        If hardware has no price.
    InstanceError
        If what results is no valid instance.
    """
    unpriced = [one.rented.name for one in forecasts if one.rented.price_usd_per_hour is None]
    if unpriced:
        given = ",".join(f"{name}=USD" for name in unpriced)
        raise OptionError(f"no price is known of {', '.join(unpriced)}; give --price {given} (GPU and hour)")
    link = min(one.rented.network_gbit_per_s for one in forecasts)
    document = {
        "name": f"predicted-{model.name}"[:200],
        "source": "predicted from the model's description and data sheets",
        "assumptions": [
            *model.assumptions,
            *said,
            *_of_widths(forecasts),
            *of_forecasts(forecasts),
            *of_work(work),
            f"Further GPUs of a stage divide {work.parallel_share:g} of its compute time.",
            f"Once in {work.microbatches} batches each layer adds its gradients up in a ring over the "
            "network of its GPUs, 2·X·β seconds however many they are; a stage of one GPU is charged too.",
            f"A stage receives its input over the slowest network of all, {link:g} Gbit/s for each GPU.",
        ],
        "uncertainty": _intervals(forecasts),
        "objective": "cost",
        "stage_rule": "free_cuts",
        "throughput_floor_samples_per_s": work.floor_samples_per_s,
        "training": {"samples": work.samples, "epochs": work.epochs},
        "probe_batch": forecasts[0].batch,
        "link_gbit_per_s": link,
        "types": [_type(one) for one in forecasts],
        "layers": [_layer(index, forecasts, work) for index in range(len(forecasts[0].layers))],
    }
    return validated(StagingInstance, document, f"prediction of {model.name}")


def _type(one: Forecast) -> dict[str, Any]:
    return {
        "name": one.rented.name,
        "price_usd_per_hour": one.rented.price_usd_per_hour,
        "limit": one.rented.limit,
        "memory_gib": one.rented.memory_bytes / GIB,
    }


def _widest(forecasts: Sequence[Forecast]) -> Forecast:
    """Return the forecast whose elements have most bytes, which no other exceeds in memory."""
    return max(forecasts, key=lambda one: width(one.setting))


def _of_widths(forecasts: Sequence[Forecast]) -> Iterator[str]:
    """Yield how large layers are taken to be where GPUs compute with elements of different sizes."""
    widest = _widest(forecasts)
    if any(width(one.setting) < width(widest.setting) for one in forecasts):
        yield (
            f"GPUs compute in {precisions(forecasts)}; memory of layers and what is sent are as large as in "
            f"{widest.setting.precision} on all of them."
        )


def _layer(index: int, forecasts: Sequence[Forecast], work: Work) -> dict[str, Any]:
    widest = _widest(forecasts).layers
    return {
        "name": widest[index].layer.name,
        "memory_gib": widest[index].memory_bytes / GIB,
        "input_bytes": widest[index - 1].output_bytes if index else 0.0,
        "output_bytes": widest[index].output_bytes,
        "weight_bytes": widest[index].weight_bytes,
        "compute_s": {one.rented.name: one.layers[index].estimate.seconds for one in forecasts},
        "communication_s": {
            one.rented.name: 2
            * one.layers[index].weight_bytes
            * one.rented.network.seconds_per_byte
            / work.microbatches
            for one in forecasts
        },
        "compute_parallel": work.parallel_share,
        "communication_parallel": 0.0,
    }


def _intervals(forecasts: Sequence[Forecast]) -> list[dict[str, Any]]:
    """Return the intervals: the errors of all layers on one GPU are taken to go the same way."""
    found = []
    for one in forecasts:
        low, high = one.factors
        name = pointer(one.rented.name)
        common = {"inside": one.step.inside, "basis": one.step.basis}
        found.append({"figure": f"/layers/*/compute_s/{name}", "low": low, "high": high, **common})
        least, most = LINK_ENDS
        link = {"inside": False, "basis": "bandwidth as it is sold"}
        found.append({"figure": f"/layers/*/communication_s/{name}", "low": least, "high": most, **link})
    return found
