"""What an instance made of predictions assumes, and the intervals of its figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .forecast import Forecast
from .work import Work

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
    yield f"Training {work.samples:.10g} samples {work.epochs:g} times over is a choice."
    yield "A GPU holds parameters, gradients, the numbers of Adam, and the activations of one batch."


def pointer(name: str) -> str:
    """Return a name as a part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")
