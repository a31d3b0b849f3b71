"""Registration of staging: tables, pages, scenarios and the frontier."""

from ..kind import PlannerKind
from .frontier import FRONTIER
from .plan import answer, as_data, changes, columns, staging_parts, what_if

STAGING = PlannerKind(
    title="Staging: which layers run on which hardware",
    columns=columns,
    as_data=as_data,
    page=staging_parts,
    template="plan_staging.html.j2",
    rows_of_plan="layers",
    answer=answer,
    changes=changes,
    what_if=what_if,
    frontier=FRONTIER,
)
