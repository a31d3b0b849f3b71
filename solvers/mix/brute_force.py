"""Enumeration of all counts of configurations, for tiny instances."""

from __future__ import annotations

import itertools

import numpy as np

from ...formulations.mix.formulation import MixFormulation
from ..common.base import BruteForce, Enumeration, refuse_many
from .relaxation import Relaxation


class MixBruteForce(BruteForce[MixFormulation]):
    """Every number of copies of every configuration."""

    kinds = ("mix",)
    what = "tries all numbers of copies (tiny instances)"

    def enumerate(self, formulation: MixFormulation, search: Enumeration) -> None:
        """Judge the plan of all counts; those of requests are judged where they serve all of them."""
        most, relaxation = formulation.program.most.astype(int).tolist(), Relaxation(formulation.program)
        refuse_many(sum(most), "copies")
        for counts in itertools.product(*(range(limit + 1) for limit in most)):
            if search.over():
                return
            shares = relaxation.shares(np.array(counts, dtype=float))
            if shares is not None:
                search.judge(formulation.copies(counts, shares.tolist()))
