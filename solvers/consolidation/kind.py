"""What consolidation consists of on this floor."""

from collections.abc import Iterator
from functools import partial

from ...formulations.consolidation.formulation import ConsolidationFormulation
from ..common.base import Clock
from ..common.kind import Search, SolverKind
from .brute_force import ConsolidationBruteForce
from .certify import certify
from .cp_sat import ConsolidationCpSat
from .diagnose import diagnose
from .exact import ConsolidationExact
from .heuristics.best_fit import BestFit, ConsolidateOrWait
from .heuristics.first_fit import FirstFit
from .keep_in_place import stay_put


def _stay(formulation: ConsolidationFormulation, clock: Clock) -> Iterator[tuple[str, Search]]:
    yield "leaving jobs where they run", partial(stay_put, formulation, clock)


CONSOLIDATION = SolverKind(
    exact=ConsolidationExact(),
    solvers=(ConsolidationCpSat(), BestFit(), FirstFit(), ConsolidateOrWait(), ConsolidationBruteForce()),
    certify=certify,
    diagnose=diagnose,
    quick=(("first-fit-decreasing", {}), ("best-fit", {})),
    more_quick=_stay,
)
