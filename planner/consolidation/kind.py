"""Registration of consolidation: tables, pages, scenarios and export formats."""

from ..kind import PlanFormat, PlannerKind
from .changes import changes, remarks, what_if
from .frontier import FRONTIER
from .kubernetes import kubernetes_lines, kubernetes_plan, scheduler_notes
from .page import consolidation_parts
from .plan import actions, as_data, columns, left_out, notes, to_carry_out
from .slurm import script_lines, slurm_lines, slurm_notes

CONSOLIDATION = PlannerKind(
    title="Consolidation: which servers each job runs on",
    columns=columns,
    as_data=as_data,
    page=consolidation_parts,
    template="plan_consolidation.html.j2",
    rows_of_plan="jobs",
    notes=notes,
    remarks=remarks,
    left_out=left_out,
    formats={
        "slurm": PlanFormat(script_lines, comment="# ", whole=True),
        "slurm-options": PlanFormat(slurm_lines, slurm_notes),
        "kubernetes": PlanFormat(kubernetes_plan, scheduler_notes, comment="# ", whole=True),
        "kubernetes-affinity": PlanFormat(kubernetes_lines, comment="# "),
    },
    to_carry_out=to_carry_out,
    actions=actions,
    changes=changes,
    what_if=what_if,
    frontier=FRONTIER,
)
