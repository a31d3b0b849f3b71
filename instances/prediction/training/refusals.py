"""Refusals: why there is no offer on some hardware, and what to ask for in place of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..fill.forecast import Forecast
from ..fill.work import Work
from ..hardware import Gpu
from .offers import Wanted, powers


@dataclass(frozen=True)
class Refusal:
    """Why nothing that was asked for can be rented; the greatest rank came nearest to an offer.

    Parameters
    ----------
    rank
        −1: no such precision; 0: no such server; 1: too few GPUs; 2: too few samples for all replicas;
        3: too little memory.
    short, advice
        For a cell of a table, and what helps.
    """

    rank: int
    short: str
    advice: str

    @property
    def of_memory(self) -> bool:
        """Whether memory is what is missing."""
        return self.rank == OF_MEMORY.rank


OF_MEMORY = Refusal(
    3,
    "does not fit",
    "give a smaller --batch or --sequence, more or larger GPUs, "
    "or leave --tensor, --pipeline, --zero and --gpus open",
)


def no_precision(gpu: Gpu, precision: str) -> Refusal:
    """Return why a GPU without a precision is left out."""
    return Refusal(-1, f"no {precision}", f"it has {', '.join(gpu.peak_tflops)}")


def why_not(forecasts: Sequence[Forecast], work: Work, wanted: Wanted) -> Refusal:
    """Return why `best_offer` found nothing for the same hardware."""
    return max(_refusals(forecasts, work, wanted), key=lambda one: one.rank, default=OF_MEMORY)


def _refusals(forecasts: Sequence[Forecast], work: Work, wanted: Wanted) -> Iterator[Refusal]:
    for one in forecasts:
        tensor, limit = one.setting.tensor_parallel, one.rented.limit
        for server in one.rented.servers:
            if tensor > server.gpus:
                most = max(other.gpus for other in one.rented.servers)
                yield Refusal(0, f"no server of {tensor} GPUs", f"give --tensor of at most {most}")
                continue
            for pipeline in [wanted.pipeline] if wanted.pipeline else powers(len(one.layers)):
                group = tensor * pipeline
                used = wanted.gpus or group
                paid = -(-used // server.sold) * server.sold
                if used % group:
                    continue
                if limit is not None and paid > limit:
                    advice = f"raise --limit to {paid}, or ask for fewer GPUs"
                    yield Refusal(1, f"limit of {limit:,} GPUs, {paid:,} needed", advice)
                elif not work.divides(one.batch, used // group):
                    short = f"{work.global_batch:,} samples for {used // group:,} replicas"
                    yield Refusal(2, short, "give a larger --global-batch, a smaller --batch or fewer --gpus")
                else:
                    yield OF_MEMORY
