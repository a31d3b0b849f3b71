"""Registration of mix: tables, pages, scenarios, comparison, exports and the frontier."""

from ..kind import PlanFormat, PlannerKind
from .exports import consolidation_lines, kubernetes_lines
from .frontier import FRONTIER
from .page import mix_parts
from .plan import answer, as_data, changes, columns, left_out, measures, remarks, what_if

MIX = PlannerKind(
    title="Mix: what runs together on which devices",
    columns=columns,
    as_data=as_data,
    page=mix_parts,
    template="plan_mix.html.j2",
    rows_of_plan="configurations",
    demand="types",
    remarks=remarks,
    formats={
        "kubernetes": PlanFormat(kubernetes_lines, comment="# "),
        "consolidation": PlanFormat(consolidation_lines, comment="# "),
    },
    left_out=left_out,
    answer=answer,
    changes=changes,
    what_if=what_if,
    measures=measures,
    frontier=FRONTIER,
)
