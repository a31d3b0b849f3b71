"""Registration of the solvers of allocation, of its certificates and of its diagnosis of infeasibility."""

from ..backends.cp_sat import CpSat
from ..common.kind import SolverKind
from .exact import AllocationBruteForce, AllocationExact, certify, diagnose
from .geometric_program import AllocationGeometric
from .heuristics import MarginalGain
from .minlp import AllocationMinlp
from .pool_then_pack import OnPools, PoolThenPack

ALLOCATION = SolverKind(
    exact=AllocationExact(),
    solvers=(
        AllocationExact(cores=False, rounds=40),
        *map(
            OnPools,
            (
                CpSat("allocation", "multiple-choice model on OR-Tools CP-SAT"),
                AllocationMinlp(),
                AllocationGeometric(),
                MarginalGain(),
                MarginalGain(joint=True),
                AllocationBruteForce(),
            ),
        ),
        PoolThenPack(optimus=True),
        PoolThenPack(optimus=False),
    ),
    certify=certify,
    diagnose=diagnose,
    quick=(("marginal-gain", {}), ("lagrangian", {})),
)
