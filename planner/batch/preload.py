"""What all tasks need, loaded by the process that the others are forked from."""

from ...solvers.common.conclude import library_versions
from ...solvers.plugins import installed
from ...solvers.registry import own_solvers
from .task import execute

__all__ = ["execute", "fill_caches"]


def fill_caches() -> None:
    """Find out once what each task would find out again."""
    own_solvers()
    installed()
    library_versions()
