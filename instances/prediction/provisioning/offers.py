"""Offers: what to rent to train a model, and by when it is done; and why some hardware has no offer.

Of every machine that has the GPUs, every tensor and pipeline degree that is a power of two, and more and
more replicas, the cheapest is taken that is in time even at the high end of its interval; if none is, the
cheapest that is in time as predicted; if none is, the fastest. The stage of ZeRO is the fastest that fits
into memory; recomputation is taken only where nothing fits without it.

A refusal says why there is no offer on some hardware, and what to ask for in place of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import Any, Literal

from ...common.errors import OptionError
from ..calibration import Estimate
from ..epochs import Work
from ..hardware import Gpu
from .forecast import HOUR_S, Forecast, Rented, Server
from .parallel_step import Parallelism, Setup, Stage, StepForecast, stages_of

MOST_GPUS = 4096
"""Where nobody gave a limit."""
GROWTH = 1.2
"""Beyond `DENSE` replicas, the next number that is tried is so many times as large, and fills machines."""
DENSE = 16
PATIENCE = 1.5
"""Replicas are added until the training takes so many times as long as with the best number of them."""
ZERO_STAGES = (0, 1, 2, 3)
ALIKE = 1.05
"""Costs that differ by less are alike: no prediction is as sure."""
InTime = Literal["surely", "probably", "late"]


@dataclass(frozen=True)
class Wanted:
    """What was asked for of the parallelism; None: whatever is best.

    Raises
    ------
    OptionError
        If a figure is not possible.
    """

    gpus: int | None = None
    tensor: int | None = None
    pipeline: int | None = None
    zero_stage: int | None = None
    recompute: bool | None = None

    def __post_init__(self) -> None:
        asked: dict[str, Any] = {
            "tensor": self.tensor,
            "pipeline": self.pipeline,
            "zero_stage": self.zero_stage,
        }
        Parallelism(**{name: value for name, value in asked.items() if value is not None})
        if self.gpus is not None and not 1 <= self.gpus <= MOST_GPUS:
            raise OptionError(f"gpus {self.gpus}: must be from 1 to {MOST_GPUS:,}")
        group = (self.tensor or 1) * (self.pipeline or 1)
        if self.gpus is not None and self.gpus % group:
            raise OptionError(f"gpus {self.gpus}: is no multiple of {group}, tensor times pipeline")

    def zero_stages(self) -> tuple[int, ...]:
        """Return the stages of ZeRO that may be tried."""
        return ZERO_STAGES if self.zero_stage is None else (self.zero_stage,)


@dataclass(frozen=True)
class Offer:
    """A model trained on so many GPUs of one sort of machine.

    Parameters
    ----------
    one
        The forecast for a group of `parallelism.tensor` GPUs.
    epochs
        Of the training; with an interval where they were predicted.
    in_time
        Whether it is done by the deadline: at the high end too, as predicted, or not; None without one.
    """

    one: Forecast
    server: Server
    parallelism: Parallelism
    step: StepForecast
    epochs: Estimate
    work: Work

    @cached_property
    def hours(self) -> Estimate:
        """Hours until it is done (in the field `seconds`)."""
        each = self.work.samples / self.step.samples / HOUR_S
        step, epochs = self.step.step, self.epochs
        return Estimate(
            step.seconds * epochs.seconds * each,
            step.low * epochs.low * each,
            step.high * epochs.high * each,
            step.inside and epochs.inside,
            f"{step.basis}; {epochs.basis}" if self.work.records else step.basis,
        )

    @property
    def rented(self) -> Rented:
        """The hardware of which it is an offer."""
        return self.one.rented

    @property
    def gpus(self) -> int:
        """GPUs that are paid: machines are rented whole."""
        sold = self.server.sold
        return -(-self.parallelism.gpus // sold) * sold

    @property
    def machines(self) -> int:
        """Machines that are rented."""
        return -(-self.gpus // self.server.gpus)

    @property
    def cost_usd(self) -> Estimate | None:
        """USD of the whole training (in the field `seconds`); None without a price."""
        price = self.server.price_usd_per_hour
        return None if price is None else self.hours.times(price * self.gpus)

    @property
    def in_time(self) -> InTime | None:
        """Whether it is done in time."""
        within = self.work.within_h
        if within is None:
            return None
        if self.hours.high <= within:
            return "surely"
        return "probably" if self.hours.seconds <= within else "late"

    def order(self) -> tuple[float, float, float, float]:
        """Return by what the best offer is least; of what costs nothing, GPU-hours count."""
        price, hours = self.cost_usd, self.hours.seconds
        gpu_hours = self.gpus * hours
        paid = price.seconds if price is not None else gpu_hours
        rank = {"surely": 0, "probably": 1, "late": 2, None: 0}[self.in_time]
        return (rank, hours, paid, gpu_hours) if rank == 2 else (rank, paid, gpu_hours, hours)


def best_offer(
    forecasts: Sequence[Forecast], work: Work, wanted: Wanted, optimiser: str = "adam"
) -> Offer | None:
    """Return the best offer of one sort of hardware; None if nothing that was asked for fits its memory.

    Parameters
    ----------
    forecasts
        Of the same hardware for groups of 1, 2, 4 … GPUs, as far as the model's tensors can be shared.
    """
    found = list(_offers(forecasts, work, wanted, optimiser))
    return min(found, key=Offer.order, default=None)


def _offers(forecasts: Sequence[Forecast], work: Work, wanted: Wanted, optimiser: str) -> Iterator[Offer]:
    for one in forecasts:
        tensor = one.setting.tensor_parallel
        pipelines = [wanted.pipeline] if wanted.pipeline else powers(len(one.layers))
        for pipeline in pipelines:
            stages = {again: stages_of(one, pipeline, again) for again in (False, True)}
            for server in one.rented.servers:
                if tensor <= server.gpus:
                    group = Parallelism(tensor, pipeline)
                    yield from _replicated(one, server, stages, group, work, wanted, optimiser)


def powers(most: int) -> list[int]:
    """Return the powers of two up to a number."""
    return [1 << power for power in range(most.bit_length())]


def _replicated(
    one: Forecast,
    server: Server,
    stages: dict[bool, list[Stage]],
    group: Parallelism,
    work: Work,
    wanted: Wanted,
    optimiser: str,
) -> Iterator[Offer]:
    """Yield offers with more and more replicas, until more of them do not help."""
    most = MOST_GPUS if one.rented.limit is None else min(MOST_GPUS, one.rented.limit)
    fastest, enough = float("inf"), 0
    for data in _replicas(group, wanted, server.sold, most):
        if not work.divides(one.batch, data):
            return
        offer = _fitting(one, server, stages, replace(group, data=data), work, wanted, optimiser)
        if offer is None:
            continue
        if offer.gpus > most or (enough and offer.gpus > enough):
            return
        yield offer
        fastest = min(fastest, offer.hours.seconds)
        if offer.hours.seconds > PATIENCE * fastest:
            return
        if offer.in_time in (None, "surely"):
            enough = offer.gpus


def _replicas(group: Parallelism, wanted: Wanted, sold: int, most: int) -> Iterator[int]:
    """Yield the numbers of replicas to try, on machines that are rented `sold` GPUs at a time."""
    if wanted.gpus is not None:
        if wanted.gpus % group.gpus == 0:
            yield wanted.gpus // group.gpus
        return
    data, full = 1, sold // gcd(sold, group.gpus)
    while data * group.gpus <= most:
        yield data
        # GPUs of a machine that is paid anyway cost nothing more.
        data = data + 1 if data < DENSE else -(-int(data * GROWTH) // full) * full


def _fitting(
    one: Forecast,
    server: Server,
    stages: dict[bool, list[Stage]],
    parallelism: Parallelism,
    work: Work,
    wanted: Wanted,
    optimiser: str,
) -> Offer | None:
    """Return the fastest offer that fits, without recomputation if there is any; None if none fits."""
    batches = work.batches(one.batch, parallelism.data)
    for again in (False, True):
        found = []
        for stage in wanted.zero_stages() if wanted.recompute in (None, again) else ():
            chosen = replace(parallelism, zero_stage=stage, recompute=again)
            setup = Setup(one, server, stages[again], chosen, batches, optimiser)
            if setup.memory().total <= one.rented.memory_bytes:
                step = setup.forecast()
                found.append(Offer(one, server, chosen, step, work.epochs_at(step.samples), work))
        if found:
            return min(found, key=lambda offer: offer.hours.seconds)
    return None


def best_of(offers: Sequence[Offer | None]) -> Offer | None:
    """Return the best of several sorts of hardware; what has no price only where nothing has one.

    Of those in time that cost nearly the same it is the fastest.
    """
    there = [offer for offer in offers if offer is not None]
    priced = [offer for offer in there if offer.cost_usd is not None] or there
    first = min(priced, key=Offer.order, default=None)
    if first is None or first.in_time == "late":
        return first
    rank, paid = first.order()[:2]
    alike = [one for one in priced if one.order()[0] == rank and one.order()[1] <= ALIKE * paid]
    return min(alike, key=lambda one: one.hours.seconds)


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
