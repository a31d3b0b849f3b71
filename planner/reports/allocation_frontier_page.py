"""to come"""

from ...instances.allocation import AllocationInstance
from ...solvers.allocation_frontier import AllocationFrontier


def allocation_frontier_page(instance: AllocationInstance, frontier: AllocationFrontier) -> str:
    """."""
    raise NotImplementedError
