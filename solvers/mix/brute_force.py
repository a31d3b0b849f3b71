"""Enumeration of all counts of configurations, for tiny instances."""

from __future__ import annotations

import itertools
import math

import numpy as np

from ...formulations.mix.formulation import MixFormulation
from ...instances.common.errors import TooLargeError
from ..common.base import BruteForce, Enumeration
from .relaxation import Relaxation

MAX_PLANS = 1_000_000


class MixBruteForce(BruteForce[MixFormulation]):
    """Every number of copies of every configuration."""

    kinds = ("mix",)
    what = "tries all numbers of copies (tiny instances)"

    def enumerate(self, formulation: MixFormulation, search: Enumeration) -> None:
        """Judge the plan of all counts; those of requests are judged where they serve all of them."""
        most, relaxation = formulation.program.most.astype(int).tolist(), Relaxation(formulation.program)
        plans = math.prod(limit + 1 for limit in most)
        if plans > MAX_PLANS:
            what = f"there are {plans:.3g} plans, and at most {MAX_PLANS:,} are allowed; use --solver exact"
            raise TooLargeError(f"brute-force is for tiny instances: {what}")
        for counts in itertools.product(*(range(limit + 1) for limit in most)):
            if search.over():
                return
            shares = relaxation.shares(np.array(counts, dtype=float))
            if shares is not None:
                search.judge(formulation.copies(counts, shares.tolist()))
