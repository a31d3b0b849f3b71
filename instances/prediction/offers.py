"""Offers: the best hardware and parallelism for training a model by a deadline; and reasons for having none.

Among all machines with the GPUs, tensor and pipeline degrees that are powers of two, and increasing numbers
of replicas, the cheapest is chosen that is in time even at the high end of its interval; if there is none,
the cheapest that is in time as predicted; else the fastest. The stage of ZeRO is the fastest that fits into
memory; recomputation is used only if nothing fits without it.

A refusal gives the reason why some hardware has no offer, and advice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import Any, Literal

from ..common.errors import OptionError
from .calibration import Estimate
from .epochs import HOUR_S, Work
from .forecast import Forecast, Parallelism, Setup, Stage, StepForecast, stages_of
from .hardware import Gpu, Rented, Server
from .models.description import STAGES

MAX_GPUS = 4096
"""Default limit of GPUs."""
GROWTH = 1.2
"""Beyond `DENSE` replicas, the factor to the next number that is tried, rounded to full machines."""
DENSE = 16
PATIENCE = 1.5
"""Replicas are added until the training takes this many times as long as with the best number."""
EQUAL_COST_RATIO = 1.05
"""Ratio of costs below which they count as equal, given the uncertainty of predictions."""
InTime = Literal["surely", "probably", "late"]


@dataclass(frozen=True)
class RequestedParallelism:
    """The requested number of GPUs and parallelism; None: to be chosen.

    Raises
    ------
    OptionError
        If a figure is impossible.
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
        if self.gpus is not None and not 1 <= self.gpus <= MAX_GPUS:
            raise OptionError(f"gpus {self.gpus}: must be from 1 to {MAX_GPUS:,}")
        group = (self.tensor or 1) * (self.pipeline or 1)
        if self.gpus is not None and self.gpus % group:
            raise OptionError(f"gpus {self.gpus}: is no multiple of {group}, tensor times pipeline")


@dataclass(frozen=True)
class Offer:
    """A way to train the model: GPUs of one machine type and parallelism, with duration and cost.

    Parameters
    ----------
    one
        The forecast for a group of `parallelism.tensor` GPUs.
    epochs
        Epochs of the training; with an interval if they were predicted.
    in_time
        Whether it ends by the deadline: even at the high end, as predicted, or not; None without deadline.
    """

    one: Forecast
    server: Server
    parallelism: Parallelism
    step: StepForecast
    epochs: Estimate
    work: Work

    @cached_property
    def hours(self) -> Estimate:
        """Duration of the training in hours (in the field `seconds`)."""
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
        """The rented type of GPU."""
        return self.one.rented

    @property
    def gpus(self) -> int:
        """Number of GPUs that are paid for; machines are rented as a whole."""
        sold = self.server.sold
        return -(-self.parallelism.gpus // sold) * sold

    @property
    def gpu_hours(self) -> float:
        """Hours of all GPUs that are paid for together."""
        return self.hours.seconds * self.gpus

    @property
    def machines(self) -> int:
        """Number of rented machines."""
        return -(-self.gpus // self.server.gpus)

    @property
    def cost_usd(self) -> Estimate | None:
        """Cost of the whole training in USD (in the field `seconds`); None without a price."""
        price = self.server.price_usd_per_hour
        return None if price is None else self.hours.times(price * self.gpus)

    @property
    def in_time(self) -> InTime | None:
        """Whether the training surely or probably ends by the deadline, or late; None without deadline."""
        within = self.work.within_h
        if within is None:
            return None
        if self.hours.high <= within:
            return "surely"
        return "probably" if self.hours.seconds <= within else "late"

    def order(self) -> tuple[float, float, float, float]:
        """Return the sort key of offers, the minimum for the best one.

        Without a price GPU-hours count.
        """
        price, hours = self.cost_usd, self.hours.seconds
        paid = price.seconds if price is not None else self.gpu_hours
        rank = {"surely": 0, "probably": 1, "late": 2, None: 0}[self.in_time]
        return (rank, hours, paid, self.gpu_hours) if rank == 2 else (rank, paid, self.gpu_hours, hours)


def best_offer(forecasts: Sequence[Forecast], work: Work, wanted: RequestedParallelism) -> Offer | None:
    """Return the best offer on one type of GPU; None if nothing that was requested fits its memory.

    Parameters
    ----------
    forecasts
        Forecasts of the same hardware for groups of 1, 2, 4 … GPUs, as far as tensor parallelism is possible.
    """
    return min(_offers(forecasts, work, wanted), key=Offer.order, default=None)


def _offers(forecasts: Sequence[Forecast], work: Work, wanted: RequestedParallelism) -> Iterator[Offer]:
    for one in forecasts:
        tensor = one.setting.tensor_parallel
        pipelines = [wanted.pipeline] if wanted.pipeline else powers(len(one.layers))
        for pipeline in pipelines:
            stages = {again: stages_of(one, pipeline, again) for again in (False, True)}
            for server in one.rented.servers:
                if tensor <= server.gpus:
                    yield from _replicated(one, server, stages, Parallelism(tensor, pipeline), work, wanted)


def powers(most: int) -> list[int]:
    """Return the powers of two up to `most`, in ascending order."""
    return [1 << power for power in range(most.bit_length())]


def _replicated(
    one: Forecast,
    server: Server,
    stages: dict[bool, list[Stage]],
    group: Parallelism,
    work: Work,
    wanted: RequestedParallelism,
) -> Iterator[Offer]:
    """Yield offers with increasing numbers of data-parallel replicas, until more do not help."""
    most = MAX_GPUS if one.rented.limit is None else min(MAX_GPUS, one.rented.limit)
    fastest, enough = float("inf"), 0
    for data in _replicas(group, wanted, server.sold, most):
        if not work.divides(one.batch, data):
            return
        offer = _fitting(one, server, stages, replace(group, data=data), work, wanted)
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


def _replicas(group: Parallelism, wanted: RequestedParallelism, sold: int, most: int) -> Iterator[int]:
    """Yield the numbers of replicas to try, on machines that are rented `sold` GPUs at a time."""
    if wanted.gpus is not None:
        if wanted.gpus % group.gpus == 0:
            yield wanted.gpus // group.gpus
        return
    data, full = 1, sold // gcd(sold, group.gpus)
    while data * group.gpus <= most:
        yield data
        # Further GPUs of a paid machine are free.
        data = data + 1 if data < DENSE else -(-int(data * GROWTH) // full) * full


def _fitting(
    one: Forecast,
    server: Server,
    stages: dict[bool, list[Stage]],
    parallelism: Parallelism,
    work: Work,
    wanted: RequestedParallelism,
) -> Offer | None:
    """Return the fastest offer that fits into memory, recomputing activations only if needed; else None."""
    batches = work.batches(one.batch, parallelism.data)
    zero_stages = STAGES if wanted.zero_stage is None else (wanted.zero_stage,)
    for again in (False, True):
        offers = []
        for stage in zero_stages if wanted.recompute in (None, again) else ():
            chosen = replace(parallelism, zero_stage=stage, recompute=again)
            setup = Setup(one, server, stages[again], chosen, batches)
            if setup.memory.total <= one.rented.memory_bytes:
                step = setup.forecast()
                offers.append(Offer(one, server, chosen, step, work.epochs_at(step.samples), work))
        if offers:
            return min(offers, key=lambda offer: offer.hours.seconds)
    return None


def best_of(offers: Sequence[Offer | None]) -> Offer | None:
    """Return the best offer of several GPU types; offers without a price only if none has one.

    Among those in time with nearly equal cost it is the fastest.
    """
    available = [offer for offer in offers if offer is not None]
    priced = [offer for offer in available if offer.cost_usd is not None] or available
    first = min(priced, key=Offer.order, default=None)
    if first is None or first.in_time == "late":
        return first
    rank, paid = first.order()[:2]
    alike = [one for one in priced if one.order()[0] == rank and one.order()[1] <= EQUAL_COST_RATIO * paid]
    return min(alike, key=lambda one: one.hours.seconds)


@dataclass(frozen=True)
class Refusal:
    """The reason why a GPU type has no offer; the highest rank came nearest to an offer.

    Parameters
    ----------
    rank
        −1: no such precision; 0: no such server; 1: too few GPUs; 2: too few samples for all replicas;
        3: too little memory.
    short, advice
        The reason for a cell of a table, and advice.
    """

    rank: int
    short: str
    advice: str


OF_MEMORY = Refusal(
    3,
    "does not fit",
    "give a smaller --batch or --sequence, more or larger GPUs, "
    "or leave --tensor, --pipeline, --zero and --gpus open",
)


def no_precision(gpu: Gpu, precision: str) -> Refusal:
    """Return the refusal of a GPU that lacks a precision."""
    return Refusal(-1, f"no {precision}", f"it has {', '.join(gpu.peak_tflops)}")


def why_not(forecasts: Sequence[Forecast], work: Work, wanted: RequestedParallelism) -> Refusal:
    """Return the refusal that explains why `best_offer` finds nothing for the same forecasts."""
    return max(_refusals(forecasts, work, wanted), key=lambda one: one.rank, default=OF_MEMORY)


def _refusals(forecasts: Sequence[Forecast], work: Work, wanted: RequestedParallelism) -> Iterator[Refusal]:
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
