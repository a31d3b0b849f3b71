"""What an instance made of predictions assumes, and the intervals of its figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..hardware import Gpu
from ..models.description import ModelDescription, Setting
from .forecast import Forecast
from .rented import FRAMEWORK_BYTES, Server
from .work import Work

FULL, HALF = ("fp64", "fp32"), ("bf16", "fp16")
WORTH_SAYING = 2.0
"""Peaks that differ by less are not mentioned."""
LINK_ENDS = (1.0, 2.0)
"""Data sheets promise what links reach at best; what was measured took up to twice as long."""


def of_forecasts(forecasts: Sequence[Forecast]) -> Iterator[str]:
    """Yield where each GPU's times come from, and how sure they are."""
    for one in forecasts:
        low, high = one.factors
        where = "inside" if one.step.inside else "outside"
        yield (
            f"Times on {one.rented.name} are predicted ({one.step.basis}), {where} what was measured: a step "
            f"of {one.batch} takes {one.step.seconds:.4g} s, with 90 % confidence {one.step.low:.4g} to "
            f"{one.step.high:.4g} s ({low - 1:+.0%} to {high - 1:+.0%})."
        )
        yield from one.rented.said


def of_work(work: Work) -> Iterator[str]:
    """Yield what is to be trained."""
    yield f"Training {work.samples:,.10g} samples {_times(work.epochs)} is a choice."
    yield (
        "A GPU holds parameters, gradients, the optimiser's numbers and activations; the framework keeps "
        f"{FRAMEWORK_BYTES / 1e9:g} GB of it."
    )


def _times(epochs: float) -> str:
    return "once" if epochs == 1 else f"{epochs:.4g} times over"


def of_prediction(model: ModelDescription, setting: Setting, work: Work) -> Iterator[str]:
    """Yield what is trained and how, and what was assumed."""
    sequence = setting.sequence or model.positions
    tokens = "" if sequence is None else f" of {sequence:,} tokens"
    times = "as often as records of other batch sizes say" if work.records else _times(work.epochs)
    yield (
        f"{work.samples:,.10g} samples{tokens} are trained {times}, in batches of {setting.batch} on a GPU, "
        f"in {setting.precision}."
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


def of_precision(setting: Setting, gpus: Sequence[Gpu]) -> Iterator[str]:
    """Yield how much faster the GPUs compute in half precision, where they are asked for full precision."""
    half = next((one for one in HALF if all(one in gpu.peak_tflops for gpu in gpus)), None)
    if setting.precision not in FULL or half is None:
        return
    most, name = max((gpu.peak(half) / gpu.peak(setting.precision), gpu.name) for gpu in gpus)
    if most >= WORTH_SAYING:
        said = f"In {half} the peak of {name} is {most:.3g} times that in {setting.precision}"
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
