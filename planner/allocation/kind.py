"""Registration of allocation: tables, pages, scenarios and the frontier."""

from ..kind import PlanFormat, PlannerKind
from ..migration import kubernetes, slurm
from .changes import changes, what_if
from .frontier import FRONTIER
from .migration import migration_of
from .placement import remarks
from .plan import allocation_parts, as_data, columns, left_out

ALLOCATION = PlannerKind(
    title="Allocation: parameter servers and workers of each job",
    columns=columns,
    as_data=as_data,
    page=allocation_parts,
    template="plan_allocation.html.j2",
    rows_of_plan="jobs",
    remarks=remarks,
    left_out=left_out,
    formats={
        "slurm": PlanFormat(lambda *plan: slurm.script_lines(migration_of(*plan)), comment="# ", whole=True),
        "kubernetes": PlanFormat(
            lambda *plan: kubernetes.script_lines(migration_of(*plan)), comment="# ", whole=True
        ),
    },
    changes=changes,
    what_if=what_if,
    frontier=FRONTIER,
)
