"""Modules that every task needs, loaded once by the supervisor before it forks workers."""

from ...solvers.common.conclude import library_versions
from ...solvers.plugins import installed
from ...solvers.registry import own_solvers
from .task import execute

__all__ = ["execute", "fill_caches"]


def fill_caches() -> None:
    """Fill the caches that every task reads, so that forked workers share them."""
    own_solvers()
    installed()
    library_versions()
