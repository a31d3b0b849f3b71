"""The registered methods of allocation, its certificates and its diagnosis."""

from ..common.kind import SolverKind
from .brute_force import AllocationBruteForce
from .cp_sat import AllocationCpSat
from .diagnose import diagnose
from .exact import AllocationExact, certify
from .geometric_program import AllocationGeometric
from .heuristics import MarginalGain
from .minlp import AllocationMinlp

ALLOCATION = SolverKind(
    exact=AllocationExact(),
    solvers=(
        AllocationExact(cores=False),
        AllocationCpSat(),
        AllocationMinlp(),
        AllocationGeometric(),
        MarginalGain(),
        MarginalGain(joint=True),
        AllocationBruteForce(),
    ),
    certify=certify,
    diagnose=diagnose,
    quick=(("marginal-gain", {}), ("lagrangian", {})),
)
