"""The answer of a prediction in words: which GPUs to rent, how long it takes, what it costs, how sure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...common.printable import one_line
from ..estimate import Estimate
from ..training.offers import Offer
from ..training.refusals import OF_MEMORY, Refusal
from .sentences import of_launches

IN_TIME = {
    "surely": "in time for {within:.4g} h even at the high end of the interval",
    "probably": "in time for {within:.4g} h as predicted, late at the high end of the interval",
    "late": "too late for {within:.4g} h",
}
DAY_H = 24.0


def answer_of(model: str, best: Offer | None, refusals: Mapping[str, Refusal | None] = {}) -> str:
    """Return the answer in two sentences.

    Parameters
    ----------
    refusals
        Why there is no offer, by the hardware's name.
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
        f"{what} {rented(best)}: {model} is trained in {_between(best.hours, '{} h')} {paid}{late}. "
        f"The intervals are those of 90 % confidence, {where} what was measured."
    )


def _nothing(model: str, refusals: Mapping[str, Refusal]) -> str:
    if all(why.of_memory for why in refusals.values()):
        return f"{model} fits on none of this hardware in the way that was asked for; {OF_MEMORY.advice}."
    alike: dict[Refusal, list[str]] = {}
    for name, why in refusals.items():
        alike.setdefault(why, []).append(name)
    reasons = "; ".join(f"{', '.join(names)}: {why.short} ({why.advice})" for why, names in alike.items())
    return f"{model} cannot be trained in the way that was asked for. {reasons}."


def rented(offer: Offer) -> str:
    """Return what is rented, such as ``16 × h100 (2 × p5.48xlarge)``, or ``2 × p5.48xlarge (16 × h100)``."""
    server, single = offer.server, offer.server.sold == 1 and offer.server.gpus > 1
    machines, gpus = f"{offer.machines:,} × {server.name}", f"{offer.gpus:,} × {offer.rented.gpu.name}"
    if server.name == offer.rented.name:
        return f"{gpus} (of {server.name})" if single else f"{machines} ({gpus})"
    gpus = f"{offer.gpus:,} × {offer.rented.name}"
    return gpus if single else f"{gpus} ({machines})"


def of_offer(offer: Offer) -> Iterator[str]:
    """Yield how often an offer goes over the samples, where it waits, and what is paid and not used."""
    yield from of_launches(offer.one, offer.step.memory)
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
    """Return a figure with as many digits as a prediction has at best."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
