"""Rows of a prediction: each sort of hardware and the best way to train on it, as plain data."""

from __future__ import annotations

from typing import Any

from ..training.offers import Offer
from .forecast import Forecast

GIGA = 1e9


def row_of(one: Forecast, offer: Offer | None) -> dict[str, Any]:
    """Return one row; what only an offer knows is None where nothing fits.

    `batch_s` is one batch on one GPU; `step_s` is a step of all GPUs, with communication and update.
    """
    head = {
        "hardware": one.rented.name,
        "gpu": one.rented.gpu.name,
        "fits": offer is not None,
        "batch": one.batch,
        "batch_s": one.step.seconds,
        "inside": one.step.inside if offer is None else offer.step.step.inside,
        "basis": one.step.basis if offer is None else offer.step.step.basis,
        "price_usd_per_hour": one.rented.price_usd_per_hour,
        "gpu_memory_gb": one.rented.gpu.memory_gb,
        "memory_gb": one.memory_bytes / GIGA if offer is None else offer.step.memory.total / GIGA,
    }
    return head | (dict.fromkeys(OF_OFFERS) if offer is None else _of(offer))


def _of(offer: Offer) -> dict[str, Any]:
    way, step, hours, cost = offer.parallelism, offer.step, offer.hours, offer.cost_usd
    memory = step.memory
    return {
        "price_usd_per_hour": offer.server.price_usd_per_hour,
        "machine": offer.server.name,
        "machines": offer.machines,
        "gpus": offer.gpus,
        "gpus_used": way.gpus,
        "tensor": way.tensor,
        "pipeline": way.pipeline,
        "data": way.data,
        "zero_stage": way.zero_stage,
        "recompute": way.recompute,
        "parallelism": str(way),
        "global_batch": step.samples,
        "step_s": step.step.seconds,
        "step_low_s": step.step.low,
        "step_high_s": step.step.high,
        "compute_s": step.compute_s,
        "waiting_s": step.waiting_s,
        "communication_s": step.communication_s,
        "update_s": step.update_s,
        "parameters_gb": memory.parameters / GIGA,
        "gradients_gb": memory.gradients / GIGA,
        "optimiser_gb": memory.optimiser / GIGA,
        "activations_gb": memory.activations / GIGA,
        "epochs": offer.epochs.seconds,
        "epochs_low": offer.epochs.low,
        "epochs_high": offer.epochs.high,
        "hours": hours.seconds,
        "hours_low": hours.low,
        "hours_high": hours.high,
        "gpu_hours": hours.seconds * offer.gpus,
        "cost_usd": None if cost is None else cost.seconds,
        "cost_low_usd": None if cost is None else cost.low,
        "cost_high_usd": None if cost is None else cost.high,
        "in_time": offer.in_time,
    }


OF_OFFERS = (
    *("machine", "machines", "gpus", "gpus_used", "tensor", "pipeline", "data", "zero_stage", "recompute"),
    *("parallelism", "global_batch", "step_s", "step_low_s", "step_high_s", "compute_s", "waiting_s"),
    *("communication_s", "update_s", "parameters_gb", "gradients_gb", "optimiser_gb", "activations_gb"),
    *("epochs", "epochs_low", "epochs_high", "hours", "hours_low", "hours_high", "gpu_hours", "cost_usd"),
    *("cost_low_usd", "cost_high_usd", "in_time"),
)
"""Fields that only an offer knows."""
