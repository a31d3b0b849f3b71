"""Registration of the solvers of allocation, of its certificates and of its diagnosis of infeasibility."""

from ..backends.cp_sat import CpSat
from ..common.kind import SolverKind
from .exact import AllocationBruteForce, AllocationExact, certify, diagnose
from .geometric_program import AllocationGeometric
from .heuristics import MarginalGain
from .minlp import AllocationMinlp

ALLOCATION = SolverKind(
    exact=AllocationExact(),
    solvers=(
        AllocationExact(cores=False),
        CpSat("allocation", "multiple-choice model on OR-Tools CP-SAT"),
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
