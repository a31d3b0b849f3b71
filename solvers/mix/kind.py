"""Registration of the solvers of mix, of its certificates and of its diagnosis of infeasibility."""

from ..common.kind import SolverKind
from .baselines import BestFirst, CheapestForEachType, MatchingRounds, NobodyShares, OneConfiguration
from .brute_force import MixBruteForce
from .exact import MixExact, certify, diagnose

MIX = SolverKind(
    exact=MixExact(),
    solvers=(
        BestFirst(),
        MatchingRounds(),
        NobodyShares(),
        OneConfiguration(),
        CheapestForEachType(),
        MixBruteForce(),
    ),
    certify=certify,
    diagnose=diagnose,
    quick=tuple((name, {}) for name in ("best-pair-first", "cheapest-for-each-type", "one-configuration")),
)
