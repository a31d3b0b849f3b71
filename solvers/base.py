"""The contract of a solver, where solvers of other packages have always found it."""

from .common.base import Clock, Feature, MethodOption, Outcome, Solver

__all__ = ["Clock", "Feature", "MethodOption", "Outcome", "Solver"]
