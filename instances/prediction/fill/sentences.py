"""What an instance made of predictions assumes, and the intervals of its figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..models.description import ModelDescription
from ..models.memory import DeviceMemory
from ..training.refusals import Refusal
from .forecast import Forecast
from .rented import FRAMEWORK_BYTES, Rented, Server
from .work import Work

FULL, HALF = ("fp64", "fp32"), ("bf16", "fp16")
WORTH_SAYING = 2.0
"""Peaks that differ by less are not mentioned."""


def of_forecasts(forecasts: Sequence[Forecast]) -> Iterator[str]:
    """Yield where each GPU's times come from, and how sure they are."""
    for one in forecasts:
        low, high = one.factors
        where = "inside" if one.step.inside else "outside"
        yield (
            f"Times on {one.rented.name} are predicted in {one.setting.precision} ({one.step.basis}), "
            f"{where} what was measured: a step of {one.batch} takes {one.step.seconds:.4g} s, with 90 % "
            f"confidence {one.step.low:.4g} to {one.step.high:.4g} s ({low - 1:+.0%} to {high - 1:+.0%})."
        )
        yield from one.rented.said
        yield from of_launches(one)


def of_launches(one: Forecast, memory: DeviceMemory | None = None) -> Iterator[str]:
    """Yield from which batch a GPU is busy, where it waits for the launch of kernels.

    Parameters
    ----------
    memory
        What the GPU holds; None where nobody knows how many share the model.
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


def of_choice(precision: str | None, left_out: Sequence[tuple[Rented, Refusal]]) -> Iterator[str]:
    """Yield what the precision is where none was asked for, and which GPUs do not have the one that was."""
    if precision is None:
        yield (
            "No precision was asked for: it is what people train in, bf16 where a GPU has it, else fp16 on "
            "tensor cores, else fp32; --precision asks for another."
        )
    for one, why in left_out:
        yield f"{one.name} is left out: {why.short} ({why.advice})."


def of_work(work: Work) -> Iterator[str]:
    """Yield what is to be trained."""
    yield f"Training {work.samples:,.10g} samples {_times(work.epochs)} is a choice."
    yield (
        "A GPU holds parameters, gradients, the optimiser's numbers and activations; the framework keeps "
        f"{FRAMEWORK_BYTES / 1e9:g} GB of it."
    )


def _times(epochs: float) -> str:
    return "once" if epochs == 1 else f"{epochs:.4g} times over"


def of_prediction(model: ModelDescription, forecasts: Sequence[Forecast], work: Work) -> Iterator[str]:
    """Yield what is trained and how, and what was assumed."""
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
        batches = f"{work.microbatches} batches of each replica"
        yield f"Gradients are exchanged after {batches}, so that the global batch grows with the GPUs."
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


def of_precision(forecasts: Sequence[Forecast]) -> Iterator[str]:
    """Yield how much faster GPUs that compute in full precision do so in half precision."""
    full = [(one.rented.gpu, one.setting.precision) for one in forecasts if one.setting.precision in FULL]
    half = next((name for name in HALF if all(name in gpu.peak_tflops for gpu, _ in full)), None)
    if not full or half is None:
        return
    most, name, used = max((gpu.peak(half) / gpu.peak(used), gpu.name, used) for gpu, used in full)
    if most >= WORTH_SAYING:
        said = f"In {half} the peak of {name} is {most:.3g} times that in {used}"
        yield f"{said}: --precision {half} says what that saves, if the training stands it."


def of_server(server: Server) -> str:
    """Return what a machine costs and has."""
    price = server.price_usd_per_hour
    paid = "no price is known" if price is None else f"{price:.6g} USD an hour for each"
    gpus = f"{server.gpus} GPU" + ("s" if server.gpus > 1 else "")
    alone = ", rented one by one" if server.sold < server.gpus else ""
    return (
        f"{server.name}: {gpus}{alone}, {paid}, with {server.network_gbit_per_s:.4g} Gbit/s of network each."
    )


def pointer(name: str) -> str:
    """Return a name as a part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")
