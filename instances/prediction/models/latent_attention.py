"""Projections of multi-head latent attention (DeepSeek-AI 2024, section 2.1), as training runs them."""

from __future__ import annotations

from ..operators import Operator, linear
from .experts_config import LatentAttention


def latent_projections(latent: LatentAttention, rows: int, hidden: int, heads: int) -> list[Operator]:
    """Return what makes queries, keys and values of `heads` heads from the residual stream.

    The narrow vectors are computed whole on every device, heads are shared.
    """
    queries = heads * (latent.plain + latent.rotary)
    operators = _through(rows, hidden, latent.query_rank, queries)
    narrow = linear(rows, hidden, latent.rank + latent.rotary, bias=False)
    both = linear(rows, latent.rank, heads * (latent.plain + latent.value), bias=False)
    return [*operators, narrow, _norm(rows, latent.rank), both]


def _through(rows: int, inputs: int, rank: int | None, outputs: int) -> list[Operator]:
    if rank is None:
        return [linear(rows, inputs, outputs, bias=False)]
    down, up = linear(rows, inputs, rank, bias=False), linear(rows, rank, outputs, bias=False)
    return [down, _norm(rows, rank), up]


def _norm(rows: int, width: int) -> Operator:
    return Operator("rms_norm", (rows, width), parameters=width)
