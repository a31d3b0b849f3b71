"""The registered views of allocation: tables, pages and its frontier."""

from ...solvers.allocation.frontier_result import AllocationFrontier
from ..kind import FrontierKind, PlannerKind
from .find import find
from .frontier import shown_allocation, verify_allocation
from .frontier_page import allocation_frontier_page
from .page import allocation_parts
from .plan import as_data, columns, left_out, rows

ALLOCATION = PlannerKind(
    title="Allocation: parameter servers and workers of each job",
    columns=columns,
    rows=rows,
    as_data=as_data,
    page=allocation_parts,
    template="plan_allocation.html.j2",
    rows_of_plan="jobs",
    left_out=left_out,
    frontier=FrontierKind(
        model=AllocationFrontier,
        find=find,
        settings={"mix": "a mix", "prices": "a price"},
        verify=verify_allocation,
        shown=shown_allocation,
        page=allocation_frontier_page,
    ),
)
