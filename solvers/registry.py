"""Every solver by name. A new method is one file and one line here, or a plug-in of another package."""

from __future__ import annotations

import difflib
from functools import cache

from ..instances.common.errors import OptionError, UnavailableError
from .common.base import Solver


@cache
def all_solvers() -> tuple[Solver, ...]:
    """Return every solver that is known, installed or not, with those of plug-ins."""
    from .plugins import plugin_solvers

    own = own_solvers()
    return (*own, *plugin_solvers({solver.name for solver in own}))


@cache
def own_solvers() -> tuple[Solver, ...]:
    """Return the solvers of this package; importing a backend is left to its use."""
    from .allocation.brute_force import AllocationBruteForce
    from .allocation.cp_sat import AllocationCpSat
    from .allocation.exact import AllocationExact
    from .allocation.geometric import AllocationGeometric
    from .allocation.marginal_gain import MarginalGain
    from .allocation.minlp import AllocationMinlp
    from .auto import Auto
    from .backends import BACKENDS
    from .consolidation.brute_force import ConsolidationBruteForce
    from .consolidation.cp_sat import ConsolidationCpSat
    from .consolidation.exact import ConsolidationExact
    from .consolidation.heuristics.best_fit import BestFit
    from .consolidation.heuristics.consolidate_or_wait import ConsolidateOrWait
    from .consolidation.heuristics.first_fit import FirstFit
    from .milp import Milp
    from .staging.brute_force import StagingBruteForce
    from .staging.cp_sat import StagingCpSat
    from .staging.exact import StagingExact
    from .staging.heterps.bayesian import Bayesian
    from .staging.heterps.genetic import Genetic
    from .staging.heterps.greedy import Greedy
    from .staging.heterps.reinforce import Reinforce
    from .staging.heterps.single_type import SingleType

    return (
        Auto(),
        AllocationExact(),
        AllocationExact(cores=False),
        StagingExact(),
        ConsolidationExact(),
        *(Milp(backend) for backend in BACKENDS.values()),
        AllocationCpSat(),
        AllocationMinlp(),
        AllocationGeometric(),
        StagingCpSat(),
        ConsolidationCpSat(),
        MarginalGain(),
        MarginalGain(joint=True),
        Greedy(),
        SingleType(),
        Genetic(),
        Bayesian(),
        Reinforce("lstm"),
        Reinforce("rnn"),
        BestFit(),
        FirstFit(),
        ConsolidateOrWait(),
        AllocationBruteForce(),
        StagingBruteForce(),
        ConsolidationBruteForce(),
    )


def solvers_for(kind: str, *, available: bool = False) -> list[Solver]:
    """Return the solvers of a kind of instance; only those that can be used here if `available`."""
    return [s for s in all_solvers() if kind in s.kinds and not (available and s.unavailable())]


def find_solver(name: str, kind: str) -> Solver:
    """Return the solver of this name for a kind of instance.

    Raises
    ------
    OptionError
        If there is none of this name for the kind.
    UnavailableError
        If it cannot be used here.
    """
    wanted = "milp:highs" if name == "milp" else name
    candidates = solvers_for(kind)
    for solver in candidates:
        if solver.name == wanted:
            reason = solver.unavailable()
            if reason:
                raise UnavailableError(f"solver {name!r} cannot be used here: {reason}")
            return solver
    names = [solver.name for solver in candidates]
    near = difflib.get_close_matches(name, names, n=1)
    guess = f"did you mean {near[0]!r}? " if near else ""
    raise OptionError(f"no solver {name!r} for {kind}; {guess}there are: {', '.join(names)}")
