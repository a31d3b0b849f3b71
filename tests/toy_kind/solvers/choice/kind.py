"""What choice consists of on this floor."""

from ..common.kind import SolverKind
from .methods import Cheapest, First, certify, diagnose

CHOICE = SolverKind(
    exact=Cheapest("exact"),
    solvers=(First(), Cheapest("brute-force")),
    certify=certify,
    diagnose=diagnose,
    quick=(("first", {}),),
)
