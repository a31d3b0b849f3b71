"""Report of a prediction: assumptions with their intervals, the answer as text, and rows of hardware.

The answer gives the GPUs to rent, the duration, the cost, and their uncertainty. Each row has a type of
hardware and its best offer, as plain data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..common.errors import one_line
from .calibration import Estimate
from .epochs import Work
from .forecast import Forecast, Parallelism
from .hardware import FRAMEWORK_BYTES, Rented, Server
from .models.description import DeviceMemory, ModelDescription
from .offers import OF_MEMORY, Offer, Refusal

FULL, HALF = ("fp64", "fp32"), ("bf16", "fp16")
LEAST_PEAK_RATIO = 2.0
"""Least ratio of peaks that is mentioned."""


def forecast_notes(forecasts: Sequence[Forecast]) -> Iterator[str]:
    """Yield notes on what each GPU type's predicted times are based on, and on their intervals."""
    for one in forecasts:
        low, high = one.factors
        where = "inside" if one.step.inside else "outside"
        yield (
            f"Times on {one.rented.name} are predicted in {one.setting.precision} ({one.step.basis}), "
            f"{where} what was measured: a step of {one.batch} takes {one.step.seconds:.4g} s, with 90 % "
            f"confidence {one.step.low:.4g} to {one.step.high:.4g} s ({low - 1:+.0%} to {high - 1:+.0%})."
        )
        yield from one.rented.notes
        yield from launch_notes(one)


def launch_notes(one: Forecast, memory: DeviceMemory | None = None) -> Iterator[str]:
    """Yield a note if batches are launch-bound, with the minimum batch size that is not.

    The GPU then waits for the host to launch its kernels.

    Parameters
    ----------
    memory
        Memory use of the GPU; None if the number of GPUs that share the model is unknown.
    """
    if not one.launch_bound:
        return
    shared = one.setting.tensor_parallel
    group = f" that {shared} GPUs share" if shared > 1 else ""
    yield (
        f"{one.rented.name}: with batches of {one.batch:,}{group} the GPU waits for the host to launch its "
        f"kernels, so that a faster GPU would take as long; {_busy(one, memory)}."
    )


def _busy(one: Forecast, memory: DeviceMemory | None) -> str:
    if one.busy_batch is None:
        return "it waits with every batch"
    more = (one.busy_batch / one.batch - 1) * memory.activations if memory else 0.0
    if memory and memory.total + more > one.rented.memory_bytes:
        return f"it would be busy from {one.busy_batch:,} on, for which its memory is too small"
    return f"it is busy from {one.busy_batch:,} on"


def precision_choice_notes(
    precision: str | None, left_out: Sequence[tuple[Rented, Refusal]]
) -> Iterator[str]:
    """Yield notes on the default precision, and on GPUs that lack the requested one."""
    if precision is None:
        yield (
            "No precision was asked for: it is what people train in, bf16 where a GPU has it, else fp16 on "
            "tensor cores, else fp32; --precision asks for another."
        )
    for one, why in left_out:
        yield f"{one.name} is left out: {why.short} ({why.advice})."


def work_assumptions(work: Work) -> Iterator[str]:
    """Yield the assumptions on the amount of training and on memory."""
    yield f"Training {work.samples:,.10g} samples {_times(work.epochs)} is a choice."
    yield (
        "A GPU holds parameters, gradients, the optimiser's numbers and activations; the framework keeps "
        f"{FRAMEWORK_BYTES / 1e9:g} GB of it."
    )


def _times(epochs: float) -> str:
    return "once" if epochs == 1 else f"{epochs:.4g} times over"


def prediction_notes(model: ModelDescription, forecasts: Sequence[Forecast], work: Work) -> Iterator[str]:
    """Yield notes on the training and its setting, and the assumptions."""
    setting = forecasts[0].setting
    sequence = setting.sequence or model.positions
    tokens = "" if sequence is None else f" of {sequence:,} tokens"
    times = "as often as records of other batch sizes say" if work.records else _times(work.epochs)
    yield (
        f"{work.samples:,.10g} samples{tokens} are trained {times}, in batches of {setting.batch} on a GPU, "
        f"in {precisions(forecasts)}."
    )
    if work.global_batch is not None:
        yield (
            f"All GPUs together go through {work.global_batch:,} samples between exchanges of gradients, or "
            "as many more as fill the batches of all."
        )
    else:
        yield (
            f"Gradients are exchanged after {work.microbatches} batches of each replica, so that the "
            "global batch grows with the GPUs."
        )
        if not work.records:
            yield "It is taken to need no more epochs for that; --global-batch fixes it, --records predicts."
    yield "Communication does not hide behind computation; links take up to twice as long as they promise."
    if setting.fused_attention:
        yield "Attention is one kernel that keeps no scores; no such kernel was among what was measured."
    yield f"The framework keeps {FRAMEWORK_BYTES / 1e9:g} GB of each GPU: an assumption."
    yield from model.assumptions


def precisions(forecasts: Sequence[Forecast]) -> str:
    """Return the precision of all, or each with its hardware, such as ``bf16 (h100, l4), fp16 (v100)``."""
    names: dict[str, list[str]] = {}
    for one in forecasts:
        names.setdefault(one.setting.precision, []).append(one.rented.name)
    if len(names) == 1:
        return next(iter(names))
    return ", ".join(f"{precision} ({', '.join(own)})" for precision, own in names.items())


def half_precision_note(forecasts: Sequence[Forecast]) -> Iterator[str]:
    """Yield a note on the speedup of half precision, for GPUs that compute in full precision."""
    full = [(one.rented.gpu, one.setting.precision) for one in forecasts if one.setting.precision in FULL]
    half = next((name for name in HALF if all(name in gpu.peak_tflops for gpu, _ in full)), None)
    if not full or half is None:
        return
    most, name, used = max((gpu.peak(half) / gpu.peak(used), gpu.name, used) for gpu, used in full)
    if most >= LEAST_PEAK_RATIO:
        yield (
            f"In {half} the peak of {name} is {most:.3g} times that in {used}: --precision {half} says "
            "what that saves, if the training stands it."
        )


def server_note(server: Server) -> str:
    """Return a note on the GPUs, price and network of a rented machine."""
    price = server.price_usd_per_hour
    paid = "no price is known" if price is None else f"{price:.6g} USD an hour for each"
    gpus = f"{server.gpus} GPU" + ("s" if server.gpus > 1 else "")
    alone = ", rented one by one" if server.sold < server.gpus else ""
    return (
        f"{server.name}: {gpus}{alone}, {paid}, with {server.network_gbit_per_s:.4g} Gbit/s of network each."
    )


def pointer(name: str) -> str:
    """Return a name escaped as a token of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


IN_TIME = {
    "surely": "in time for {within:.4g} h even at the high end of the interval",
    "probably": "in time for {within:.4g} h as predicted, late at the high end of the interval",
    "late": "too late for {within:.4g} h",
}


def answer_of(model: str, best: Offer | None, refusals: Mapping[str, Refusal | None] = {}) -> str:
    """Return the answer of a prediction in two sentences.

    Parameters
    ----------
    refusals
        The reasons why hardware has no offer, by name.
    """
    model = one_line(model)
    if best is None:
        return _nothing(model, {name: why for name, why in refusals.items() if why is not None})
    cost = best.cost_usd
    paid = "at a price that is not known" if cost is None else f"for {_between(cost, '{} USD')}"
    within = best.work.within_h
    late = (
        "" if best.in_time is None or within is None else f", {IN_TIME[best.in_time].format(within=within)}"
    )
    where = "inside" if best.hours.inside else "outside"
    what = "The soonest is" if best.in_time == "late" else "Rent"
    return (
        f"{what} {rented_text(best)}: {model} is trained in {_between(best.hours, '{} h')} {paid}{late}. "
        f"The intervals are those of 90 % confidence, {where} what was measured."
    )


def _nothing(model: str, refusals: Mapping[str, Refusal]) -> str:
    if all(why.rank == OF_MEMORY.rank for why in refusals.values()):
        return f"{model} fits on none of this hardware in the way that was asked for; {OF_MEMORY.advice}."
    alike: dict[Refusal, list[str]] = {}
    for name, why in refusals.items():
        alike.setdefault(why, []).append(name)
    reasons = "; ".join(f"{', '.join(names)}: {why.short} ({why.advice})" for why, names in alike.items())
    return f"{model} cannot be trained in the way that was asked for. {reasons}."


def rented_text(offer: Offer) -> str:
    """Return the rented hardware as text, such as ``16 × h100 (2 × p5.48xlarge)``."""
    server, single = offer.server, offer.server.sold == 1 and offer.server.gpus > 1
    machines, gpus = f"{offer.machines:,} × {server.name}", f"{offer.gpus:,} × {offer.rented.gpu.name}"
    if server.name == offer.rented.name:
        return f"{gpus} (of {server.name})" if single else f"{machines} ({gpus})"
    gpus = f"{offer.gpus:,} × {offer.rented.name}"
    return gpus if single else f"{gpus} ({machines})"


def offer_notes(offer: Offer) -> Iterator[str]:
    """Yield notes on an offer: launch-bound steps, epochs, and GPUs that are paid for but not used."""
    yield from launch_notes(offer.one, offer.step.memory)
    if offer.work.records:
        epochs = offer.epochs
        yield (
            f"{offer.rented.name}: {epochs.seconds:.3g} epochs ({epochs.low:.3g} to {epochs.high:.3g}), "
            f"for its global batch is {offer.step.samples:,}."
        )
    used = offer.parallelism.gpus
    if used < offer.gpus:
        yield f"{offer.server.name} is rented whole: {offer.gpus} GPUs are paid, and {used} train."


def _between(one: Estimate, unit: str) -> str:
    return f"{unit.format(short(one.seconds))} ({short(one.low)} to {short(one.high)})"


def short(value: float) -> str:
    """Return a number as text with three significant digits; whole from 100 on."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


GIGA = 1e9
OF_OFFERS: Mapping[str, str] = {
    "machine": "server.name",
    "machines": "machines",
    "gpus": "gpus",
    "gpus_used": "parallelism.gpus",
    "tensor": "parallelism.tensor",
    "pipeline": "parallelism.pipeline",
    "data": "parallelism.data",
    "zero_stage": "parallelism.zero_stage",
    "recompute": "parallelism.recompute",
    "parallelism": "parallelism",
    "global_batch": "step.samples",
    "step_s": "step.step.seconds",
    "step_low_s": "step.step.low",
    "step_high_s": "step.step.high",
    "compute_s": "step.compute_s",
    "waiting_s": "step.waiting_s",
    "communication_s": "step.communication_s",
    "update_s": "step.update_s",
    "parameters_gb": "step.memory.parameters",
    "gradients_gb": "step.memory.gradients",
    "optimiser_gb": "step.memory.optimiser",
    "activations_gb": "step.memory.activations",
    "epochs": "epochs.seconds",
    "epochs_low": "epochs.low",
    "epochs_high": "epochs.high",
    "hours": "hours.seconds",
    "hours_low": "hours.low",
    "hours_high": "hours.high",
    "gpu_hours": "gpu_hours",
    "cost_usd": "cost_usd.seconds",
    "cost_low_usd": "cost_usd.low",
    "cost_high_usd": "cost_usd.high",
    "in_time": "in_time",
}
"""Fields of a row that only an offer has → attribute of the offer with its value, in bytes where it is GB."""


def _of_offer(offer: Offer | None, name: str) -> Any:
    """Return the value of one of these fields; None without an offer, or where the offer has none."""
    value: Any = offer
    for attribute in OF_OFFERS[name].split("."):
        value = None if value is None else getattr(value, attribute)
    if isinstance(value, Parallelism):
        return str(value)
    return value / GIGA if offer is not None and name.endswith("_gb") else value


def row_of(one: Forecast, offer: Offer | None, refusal: Refusal | None = None) -> dict[str, Any]:
    """Return the table row of a GPU type; without an offer its fields are None, and `why_not` says why.

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
    return head | {name: _of_offer(offer, name) for name in OF_OFFERS}


def row_left_out(one: Rented, refusal: Refusal, fields: Iterable[str]) -> dict[str, Any]:
    """Return the table row of a GPU type without a forecast, with None in all other fields."""
    return dict.fromkeys(fields) | {
        "hardware": one.name,
        "gpu": one.gpu.name,
        "fits": False,
        "why_not": refusal.short,
        "price_usd_per_hour": one.price_usd_per_hour,
        "gpu_memory_gb": one.gpu.memory_gb,
    }
