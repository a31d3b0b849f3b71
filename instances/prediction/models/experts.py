"""Operators of a mixture of experts (Shazeer et al. 2017): a router, the experts' layers, and the sum.

Tokens are taken to be spread evenly, as the losses of all these models ask for. Each expert gathers its
tokens, and adds what it made of them to the stream.
"""

from __future__ import annotations

from collections.abc import Callable

from ..operators import Operator, linear
from .experts_config import Experts

Inner = Callable[[int, int, int], list[Operator]]
"""Rows, inner width, count → the operators of an inner layer."""


def expert_operators(
    experts: Experts, batch: int, sequence: int, hidden: int, inner: Inner, shares: int
) -> list[Operator]:
    """Return the operators of a block's experts on one device.

    Parameters
    ----------
    batch, sequence
        Samples, and tokens of each.
    hidden
        Width of the residual stream.
    inner
        What makes the layers of one expert.
    shares
        Devices that divide the width of each expert; the router is whole on every device.
    """
    rows = batch * sequence
    number = experts.number
    router = linear(rows, hidden, number, bias=experts.router_bias)
    operators = [router, Operator("softmax", (rows, number)), Operator("copy", (rows, number))]  # the largest
    reached, tokens = _load(experts, batch, sequence)
    layers = inner(tokens, experts.width // shares, reached)
    held = sum(op.parameters * op.count for op in layers) // reached
    gather = Operator("copy", (tokens, hidden), reached, saved=tokens * hidden)
    if reached < number:
        # Experts that no token reaches are held too.
        operators.append(Operator("copy", (1, number), parameters=held * (number - reached), saved=0))
    operators += [gather, *layers, Operator("scale", (tokens, hidden), reached)]
    operators.append(Operator("add", (tokens, hidden), reached, saved=0))
    if not experts.shared_width:
        return operators
    shared = inner(rows, experts.shared_width // shares, 1)
    gate = [
        linear(rows, hidden, 1, bias=False),
        Operator("tanh", (rows, 1)),
        Operator("scale", (rows, hidden)),
    ]
    return [*operators, *shared, *(gate if experts.gated else []), Operator("add", (rows, hidden), saved=0)]


def _load(experts: Experts, batch: int, sequence: int) -> tuple[int, int]:
    """Return how many experts receive tokens, and how many each of them."""
    calls = batch * sequence * experts.per_token
    reached = min(experts.number, calls)
    tokens = -(-calls // reached)
    if experts.capacity is not None:
        tokens = min(tokens, batch * experts.capacity)
    return reached, tokens


def spread(experts: Experts) -> tuple[str, ...]:
    """Return what is assumed of experts, a sentence each."""
    taken = "" if experts.capacity is None else f", which take at most {experts.capacity} of a sample"
    return (
        f"Tokens spread evenly over the {experts.number} experts, {experts.per_token} for each{taken}.",
        "Every device holds a share of all experts; they are not put on devices of their own.",
    )
