"""Registration of staging: tables, pages, scenarios and the frontier."""

from ...solvers.staging.frontier import Frontier, find_frontier
from ..kind import FrontierKind, PlannerKind
from .frontier import StagingFrontierCheck, StagingFrontierPage, frontier_notes
from .frontier import columns as frontier_columns
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
    frontier=FrontierKind(
        model=Frontier,
        find=find_frontier,
        check=StagingFrontierCheck,
        page=StagingFrontierPage,
        columns=frontier_columns,
        sentences=frontier_notes,
        baselines=("single-type", "greedy", "genetic"),
    ),
)
