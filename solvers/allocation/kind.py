"""The registered methods of allocation, its certificates and its diagnosis."""

from ..common.kind import SolverKind
from .brute_force import AllocationBruteForce
from .certify import certify
from .cp_sat import AllocationCpSat
from .diagnose import diagnose
from .exact import AllocationExact
from .marginal_gain import MarginalGain
from .nonlinear.geometric import AllocationGeometric
from .nonlinear.minlp import AllocationMinlp

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
