"""Registration of allocation: tables, pages, scenarios and the frontier."""

from ...solvers.allocation.frontier import AllocationFrontier, find_frontier
from ..kind import FrontierKind, PlannerKind
from .frontier import AllocationFrontierCheck, AllocationFrontierPage, frontier_notes
from .frontier import columns as frontier_columns
from .plan import allocation_parts, as_data, changes, columns, left_out, what_if

ALLOCATION = PlannerKind(
    title="Allocation: parameter servers and workers of each job",
    columns=columns,
    as_data=as_data,
    page=allocation_parts,
    template="plan_allocation.html.j2",
    rows_of_plan="jobs",
    left_out=left_out,
    changes=changes,
    what_if=what_if,
    frontier=FrontierKind(
        model=AllocationFrontier,
        find=find_frontier,
        settings={"mix": "a mix", "prices": "a price"},
        check=AllocationFrontierCheck,
        page=AllocationFrontierPage,
        columns=frontier_columns,
        sentences=frontier_notes,
    ),
)
