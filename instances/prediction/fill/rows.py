"""Rows of a prediction: each sort of hardware and the best way to train on it, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..training.offers import Offer
from ..training.refusals import Refusal
from .forecast import Forecast
from .rented import Rented

GIGA = 1e9
OF_OFFERS: Mapping[str, Callable[[Offer], Any]] = {
    "machine": lambda offer: offer.server.name,
    "machines": lambda offer: offer.machines,
    "gpus": lambda offer: offer.gpus,
    "gpus_used": lambda offer: offer.parallelism.gpus,
    "tensor": lambda offer: offer.parallelism.tensor,
    "pipeline": lambda offer: offer.parallelism.pipeline,
    "data": lambda offer: offer.parallelism.data,
    "zero_stage": lambda offer: offer.parallelism.zero_stage,
    "recompute": lambda offer: offer.parallelism.recompute,
    "parallelism": lambda offer: str(offer.parallelism),
    "global_batch": lambda offer: offer.step.samples,
    "step_s": lambda offer: offer.step.step.seconds,
    "step_low_s": lambda offer: offer.step.step.low,
    "step_high_s": lambda offer: offer.step.step.high,
    "compute_s": lambda offer: offer.step.compute_s,
    "waiting_s": lambda offer: offer.step.waiting_s,
    "communication_s": lambda offer: offer.step.communication_s,
    "update_s": lambda offer: offer.step.update_s,
    "parameters_gb": lambda offer: offer.step.memory.parameters / GIGA,
    "gradients_gb": lambda offer: offer.step.memory.gradients / GIGA,
    "optimiser_gb": lambda offer: offer.step.memory.optimiser / GIGA,
    "activations_gb": lambda offer: offer.step.memory.activations / GIGA,
    "epochs": lambda offer: offer.epochs.seconds,
    "epochs_low": lambda offer: offer.epochs.low,
    "epochs_high": lambda offer: offer.epochs.high,
    "hours": lambda offer: offer.hours.seconds,
    "hours_low": lambda offer: offer.hours.low,
    "hours_high": lambda offer: offer.hours.high,
    "gpu_hours": lambda offer: offer.hours.seconds * offer.gpus,
    "cost_usd": lambda offer: None if offer.cost_usd is None else offer.cost_usd.seconds,
    "cost_low_usd": lambda offer: None if offer.cost_usd is None else offer.cost_usd.low,
    "cost_high_usd": lambda offer: None if offer.cost_usd is None else offer.cost_usd.high,
    "in_time": lambda offer: offer.in_time,
}
"""Fields that only an offer knows."""


def row_of(one: Forecast, offer: Offer | None, refusal: Refusal | None = None) -> dict[str, Any]:
    """Return one row; what only an offer knows is None where nothing fits, and `why_not` says why.

    `batch_s` is one batch on one GPU; `step_s` is a step of all GPUs, with communication and update. With
    `launch_bound` the GPUs of a step wait for the host to launch kernels; from `busy_batch` on they do not.
    """
    best = one if offer is None else offer.one
    head = {
        "hardware": one.rented.name,
        "gpu": one.rented.gpu.name,
        "precision": one.setting.precision,
        "fits": offer is not None,
        "why_not": None if refusal is None else refusal.short,
        "batch": one.batch,
        "launch_bound": best.launch_bound,
        "busy_batch": best.busy_batch,
        "batch_s": one.step.seconds,
        "inside": one.step.inside if offer is None else offer.hours.inside,
        "basis": one.step.basis if offer is None else offer.hours.basis,
        "price_usd_per_hour": (one.rented if offer is None else offer.server).price_usd_per_hour,
        "gpu_memory_gb": one.rented.gpu.memory_gb,
        "memory_gb": (one.memory_bytes if offer is None else offer.step.memory.total) / GIGA,
    }
    return head | {name: None if offer is None else value(offer) for name, value in OF_OFFERS.items()}


def row_left_out(one: Rented, refusal: Refusal, fields: Iterable[str]) -> dict[str, Any]:
    """Return the row of hardware of which there is no forecast, with None in all other fields."""
    return dict.fromkeys(fields) | {
        "hardware": one.name,
        "gpu": one.gpu.name,
        "fits": False,
        "why_not": refusal.short,
        "price_usd_per_hour": one.price_usd_per_hour,
        "gpu_memory_gb": one.gpu.memory_gb,
    }
