"""Import path of the solver interface for solvers of other packages."""

from .common.base import Clock, Feature, MethodOption, Outcome, Solver

__all__ = ["Clock", "Feature", "MethodOption", "Outcome", "Solver"]
