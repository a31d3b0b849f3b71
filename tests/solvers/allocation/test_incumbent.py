"""The incumbent of a search: only a feasible and better choice replaces it."""

from __future__ import annotations

import numpy as np

from clusterplan.formulations.allocation.formulation import AllocationFormulation
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.common.arrays import Ints
from clusterplan.solvers.allocation.incumbent import IncumbentSearch
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.options import SolveOptions


class Total(IncumbentSearch):
    """A search whose value is the sum of the costs."""

    def value_of(self, chosen: Ints) -> float:
        """Return the sum."""
        return self.problem.value(chosen)


def search(**options: object) -> Total:
    """Return a search on three small jobs."""
    formulation = AllocationFormulation(generate_allocation(3, 1, seed=1))
    return Total(formulation, SolveOptions.model_validate(options), Clock(), formulation.configurations.cost)


def smallest(state: Total) -> Ints:
    """Return the configurations that take the least."""
    configs = state.formulation.configurations
    taken = configs.demand.sum(axis=1)
    return np.array([min(configs.of(j), key=lambda k: float(taken[k])) for j in range(configs.jobs)])


def test_only_better_choices_that_fit_are_kept() -> None:
    state = search()
    few = smallest(state)
    state.update_incumbent(None)
    state.update_incumbent(few[:2])
    assert state.incumbent is None
    state.update_incumbent(few)
    assert state.value == state.value_of(few) > 0
    state.update_incumbent(few.copy())
    assert state.incumbent is few
    assert [value for _, value, _ in state.trace] == [state.value]


def test_the_warm_start_is_an_incumbent() -> None:
    plan = (first := search()).formulation.plan_of(smallest(first))
    state = search(warm_start=[entry.model_dump() for entry in plan], gap=0.25)
    state.take_warm_start()
    assert state.value == first.value_of(smallest(first))
    state.bound = 0.74 * state.value
    assert not state.proven
    state.bound = 0.76 * state.value
    assert state.proven
