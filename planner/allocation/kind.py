"""Registration of allocation: tables, pages, scenarios and the frontier."""

from ..kind import PlannerKind
from .frontier import FRONTIER
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
    frontier=FRONTIER,
)
