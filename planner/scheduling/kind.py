"""What scheduling consists of on this floor."""

from ..kind import PlannerKind
from .changes import answer, changes
from .page import scheduling_parts
from .plan import as_data, columns

MOST_SEGMENTS = 10_000
"""Of a job on average; a file with more is refused before it is read."""

SCHEDULING = PlannerKind(
    title="Scheduling: which job runs when",
    columns=columns,
    as_data=as_data,
    page=scheduling_parts,
    template="plan_scheduling.html.j2",
    rows_of_plan="jobs",
    entries_of_row=MOST_SEGMENTS,
    answer=answer,
    changes=changes,
)
