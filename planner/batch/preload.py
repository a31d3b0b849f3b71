"""What all tasks need, loaded by the process that the others are forked from."""

from ...solvers.common.conclude import library_versions
from ...solvers.plugins import installed
from ...solvers.registry import own_solvers
from .task import execute

__all__ = ["execute", "installed", "library_versions", "own_solvers"]
