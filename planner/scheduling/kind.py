"""Registration of scheduling: tables, pages, scenarios, comparison and the frontier."""

from ..kind import PlannerKind
from .comparison import advice, measures
from .frontier import FRONTIER
from .plan import answer, as_data, changes, columns, scheduling_parts, summary_sentences, what_if

MAX_SEGMENTS = 10_000
"""Most segments per job on average; a plan with more is refused before it is parsed."""

SCHEDULING = PlannerKind(
    title="Scheduling: which job runs when",
    columns=columns,
    as_data=as_data,
    page=scheduling_parts,
    template="plan_scheduling.html.j2",
    rows_of_plan="jobs",
    entries_of_row=MAX_SEGMENTS,
    answer=answer,
    lead=summary_sentences,
    changes=changes,
    what_if=what_if,
    measures=measures,
    advice=advice,
    frontier=FRONTIER,
)
