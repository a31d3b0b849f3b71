"""Registration of scheduling instances: their data model, their tables in files, and a tiny example."""

from ..common.kind import InstanceKind, Tables
from .generate import generate_scheduling
from .instance import SchedulingInstance
from .tables import resolved, wants_table, write_jobs

SCHEDULING = InstanceKind(
    model=SchedulingInstance,
    lists=("jobs",),
    # Without preemption brute force proves the optimum.
    tiny=lambda: generate_scheduling(4, 2, load=2.0, seed=1).replace(preemption="none"),
    resolved=resolved,
    tables=Tables(wants_table, write_jobs),
)
