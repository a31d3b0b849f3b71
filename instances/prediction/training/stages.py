"""Stages: a model's layers divided among the stages of a pipeline, as evenly as can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...common.errors import OptionError
from ..fill.forecast import Forecast, LayerForecast

HALVINGS = 60
"""Of the interval in which the time of the slowest stage lies: to the last digit."""


@dataclass(frozen=True)
class Stage:
    """Layers in a row, as one GPU of a tensor-parallel group has them, for one batch.

    Parameters
    ----------
    compute_s
        Forward and backward pass, with what is computed again.
    reductions
        Bytes that the tensor-parallel group adds up, and how often.
    output_bytes
        Of the activations that the next stage receives.
    parameters
        Trained numbers.
    waiting_bytes
        Activations that wait for the backward pass of each batch on its way.
    working_bytes
        Activations that are held once, whatever number of batches is on its way.
    """

    compute_s: float
    reductions: tuple[tuple[float, int], ...]
    output_bytes: float
    parameters: int
    waiting_bytes: float
    working_bytes: float


def evenly(times: Sequence[float], parts: int) -> list[slice]:
    """Return contiguous, non-empty parts whose longest sum is least.

    Raises
    ------
    OptionError
        If there are fewer entries than parts.
    """
    if not 1 <= parts <= len(times):
        raise OptionError(f"pipeline {parts}: the model has {len(times)} layers, and each stage needs one")
    low, high = max(times), sum(times)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if len(_filled(times, middle)) <= parts:
            high = middle
        else:
            low = middle
    ends = _filled(times, high)
    # Further cuts make no sum longer.
    spare = [cut for cut in range(1, len(times)) if cut not in ends]
    ends = sorted([*ends, *spare[: parts - len(ends)]])
    return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]


def _filled(times: Sequence[float], most: float) -> list[int]:
    """Return the ends of parts that are filled one after the other up to a sum."""
    ends, total = [], 0.0
    for index, time in enumerate(times):
        if index and total + time > most * (1 + 1e-12):
            ends.append(index)
            total = 0.0
        total += time
    return [*ends, len(times)]


def stages_of(one: Forecast, pipeline: int, recompute: bool) -> list[Stage]:
    """Return the stages of a pipeline.

    Raises
    ------
    OptionError
        If the model has fewer layers.
    """
    times = [_compute_s(row, recompute) for row in one.layers]
    return [_stage(one.layers[part], recompute) for part in evenly(times, pipeline)]


def _compute_s(row: LayerForecast, recompute: bool) -> float:
    return row.estimate.seconds + (row.forward_s if recompute else 0.0)


def _stage(rows: Sequence[LayerForecast], recompute: bool) -> Stage:
    passes = 3 if recompute else 2
    reductions: dict[float, int] = {}
    for row in rows:
        if row.layer.all_reduces:
            again = reductions.get(row.output_bytes, 0)
            reductions[row.output_bytes] = again + passes * row.layer.all_reduces
    waiting = [row.output_bytes if recompute else row.activation_bytes for row in rows]
    return Stage(
        compute_s=sum(_compute_s(row, recompute) for row in rows),
        reductions=tuple(reductions.items()),
        output_bytes=rows[-1].output_bytes,
        parameters=sum(row.layer.parameters for row in rows),
        waiting_bytes=sum(waiting),
        working_bytes=max(row.activation_bytes for row in rows) if recompute else 0.0,
    )
