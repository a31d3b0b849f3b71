"""Dominance between replicas: which can take the place of others in every plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...formulations.mix.formulation import MixFormulation
from ...formulations.mix.program import MixProgram, devices_of
from ...instances.common.arrays import run_of_each

MAX_COMPARED = 5_000
"""Largest number of replicas of which each is compared with every other."""


def without_replaced(formulation: MixFormulation) -> MixProgram:
    """Return the programme without copies of replicas that serve no type faster than another on its devices.

    The other one takes no more devices of the same model. Of equal ones the first stays.
    """
    program, instance = formulation.program, formulation.instance
    count = len(program.cost)
    if not instance.serves or count > MAX_COMPARED:
        return program
    rates = np.zeros((count, len(program.demand)))
    rates[run_of_each(program.rates.start), program.rates.index] = program.rates.value
    models = {each.name: index for index, each in enumerate(instance.hardware)}
    model, devices = np.array([models[one.hardware] for one in instance.configurations]), devices_of(instance)
    # Whoever is better has at least this rank, so that each is compared with those before it alone.
    order = np.lexsort((np.arange(count), -rates.sum(axis=1), devices, model))
    most = program.most.copy()
    for place, k in enumerate(order.tolist()):
        others = order[:place]
        better = (model[others] == model[k]) & (rates[others] >= rates[k]).all(axis=1)
        if better.any():
            most[k] = 0.0
    return replace(program, most=most)
