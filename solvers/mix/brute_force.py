"""Enumeration of all counts of configurations, for tiny instances."""

from __future__ import annotations

import itertools

import numpy as np

from ...formulations.mix.formulation import MixFormulation
from ...formulations.mix.service import plan_of
from ..common.base import BruteForce, Enumeration, refuse_many


class MixBruteForce(BruteForce[MixFormulation]):
    """Every number of copies of every configuration."""

    kinds = ("mix",)
    what = "tries all numbers of copies (tiny instances)"

    def enumerate(self, formulation: MixFormulation, search: Enumeration) -> None:
        """Judge the plan of all counts; those of requests are judged where they serve all of them."""
        names, most = list(formulation.configurations), formulation.program.most.astype(int).tolist()
        refuse_many(int(np.sum(most)), "copies")
        for counts in itertools.product(*(range(limit + 1) for limit in most)):
            if search.over():
                return
            plan = plan_of(formulation.instance, dict(zip(names, counts, strict=True)))
            if plan is not None:
                search.judge(plan)
