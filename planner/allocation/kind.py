"""The registered views of allocation: tables, pages and its frontier."""

from ...solvers.allocation.frontier_result import AllocationFrontier
from ..kind import FrontierKind, PlannerKind
from .changes import changes
from .find import find
from .frontier import AllocationFrontierCheck, sentences
from .frontier import columns as frontier_columns
from .frontier_page import AllocationFrontierPage
from .page import allocation_parts
from .plan import as_data, columns, left_out
from .what_if import what_if

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
        find=find,
        settings={"mix": "a mix", "prices": "a price"},
        check=AllocationFrontierCheck,
        page=AllocationFrontierPage,
        columns=frontier_columns,
        sentences=sentences,
    ),
)
