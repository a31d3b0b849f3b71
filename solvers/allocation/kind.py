"""Registration of the solvers of allocation, of its certificates and of its diagnosis of infeasibility."""

from ..common.kind import SolverKind
from .exact import AllocationBruteForce, AllocationCpSat, AllocationExact, certify, diagnose
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
