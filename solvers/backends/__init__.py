"""Mixed-integer solvers behind PuLP, with proven bounds and the reason why each run stopped.

PuLP calls a plan "Optimal" at a time limit and keeps no bound, so both are read from the solver's own
object (HiGHS, SCIP) or log (CBC).
"""

from .base import Answer, Backend, BackendError
from .mip_solvers import Cbc, Highs, Scip

__all__ = ["BACKENDS", "Answer", "Backend", "BackendError"]

BACKENDS: dict[str, Backend] = {"highs": Highs(), "cbc": Cbc(), "scip": Scip()}
