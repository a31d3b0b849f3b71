"""Cutting planes of a mix: rows of whole numbers, multiplied, added up and rounded.

With multipliers u ≥ 0 every plan keeps Σ_k ⌊(u A)_k⌋ y_k ≤ ⌊u b⌋, since y is whole and not negative (Chvátal,
"Edmonds polytopes and a hierarchy of combinatorial problems", Discrete Mathematics 4, 1973). What makes
relaxations of groups of jobs weak are odd numbers of jobs, for which a few such rows are enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field

from ...instances.common.arrays import Ints
from ...instances.common.fields import Count, Model, PositiveCount
from ..common.clock import check_time
from .program import Entries, MixProgram, Row

MAX_DENOMINATOR = 1_000_000
MAX_ROWS = 100_000
LARGEST = 2**40
"""Largest entry of a row, beyond which sums of products might not fit into 64 bits."""
CUT = "cut"
"""Name of the rows that are cuts."""


class Cut(Model):
    """Multipliers of rows, as numerators of one denominator.

    Attributes
    ----------
    rows
        Indices among the rows of the programme and the cuts before this one.
    """

    rows: Annotated[tuple[Count, ...], Field(max_length=100_000)]
    numerators: Annotated[
        tuple[Annotated[int, Field(ge=0, le=MAX_DENOMINATOR)], ...], Field(max_length=100_000)
    ]
    denominator: Annotated[PositiveCount, Field(le=MAX_DENOMINATOR)]


class WholeRows:
    """The rows of a programme in whole numbers, and the cuts that are made of them.

    Attributes
    ----------
    weights, limits
        Of each row, the former of shape (n,); 0 where a row is not of whole numbers, or of too large ones,
        which then says nothing.
    """

    def __init__(self, program: MixProgram) -> None:
        self.program, count, unit = program, len(program.rows), program.unit
        entries, limits = program.weights, program.limits
        other = (entries.value % unit != 0) | (abs(entries.value) > LARGEST * unit)
        broken = set(entries.column[other.astype(bool)].tolist())
        broken |= set(np.flatnonzero(limits % unit != 0).tolist())
        kept = ~np.isin(entries.column, list(broken))
        table = np.zeros((count, len(program.cost)), dtype=np.int64)
        table[entries.column[kept], entries.configuration[kept]] = (entries.value[kept] // unit).astype(
            np.int64
        )
        self.weights: list[Ints] = list(table)
        self.limits = [0 if r in broken else int(limits[r] // unit) for r in range(count)]

    def row(self, cut: Cut) -> tuple[Ints, int]:
        """Return weights and limit of a cut; one that is made of too large numbers says nothing."""
        chosen = [(self.weights[r], self.limits[r], u) for r, u in zip(cut.rows, cut.numerators, strict=True)]
        largest = max((max(int(abs(w).max(initial=0)), abs(b)) for w, b, _ in chosen), default=0)
        if largest * len(chosen) > LARGEST:
            chosen = []
        total = sum((u * w for w, _, u in chosen), np.zeros(len(self.program.cost), dtype=np.int64))
        return total // cut.denominator, sum(u * b for _, b, u in chosen) // cut.denominator

    def add(self, cut: Cut) -> None:
        """Add the row of a cut."""
        weights, limit = self.row(cut)
        self.weights.append(weights)
        self.limits.append(limit)

    def program_with(self, cuts: Sequence[int]) -> MixProgram:
        """Return the programme with some of the cuts, given by the indices of their rows."""
        program, first = self.program, len(self.program.rows)
        columns, of_cuts = [program.weights.column], [program.weights.configuration]
        values, unit = [program.weights.value], program.unit
        for r, row in enumerate(cuts):
            inside = np.flatnonzero(self.weights[row])
            columns.append(np.full(len(inside), first + r))
            of_cuts.append(inside)
            values.append(self.weights[row][inside].astype(program.cost.dtype) * unit)
        order = np.argsort(np.concatenate(of_cuts), kind="stable")
        parts = (np.concatenate(each)[order] for each in (of_cuts, columns, values))
        limits = np.array([self.limits[row] for row in cuts], dtype=program.cost.dtype) * unit
        rows = (*program.rows, *(Row(CUT, 1, self.limits[row]) for row in cuts))
        return replace(
            program, weights=Entries(*parts), rows=rows, limits=np.concatenate([program.limits, limits])
        )


def with_cuts(program: MixProgram, cuts: Sequence[Cut], priced: Sequence[int]) -> MixProgram:
    """Return a programme with the rows of those cuts that have prices."""
    rows = WholeRows(program)
    for cut in cuts:
        check_time()
        rows.add(cut)
    return rows.program_with(priced)
