"""What staging consists of on this floor."""

from ...solvers.staging.frontier_result import Frontier
from ..kind import FrontierKind, PlannerKind
from .find import find
from .frontier import shown_staging, verify_staging
from .frontier_page import staging_frontier_page
from .page import staging_parts
from .plan import as_data, columns, rows

STAGING = PlannerKind(
    title="Staging: which layers run on which hardware",
    columns=columns,
    rows=rows,
    as_data=as_data,
    page=staging_parts,
    template="plan_staging.html.j2",
    rows_of_plan="layers",
    frontier=FrontierKind(
        model=Frontier,
        find=find,
        settings={},
        verify=verify_staging,
        shown=shown_staging,
        page=staging_frontier_page,
        baselines=("single-type", "greedy", "genetic"),
    ),
)
