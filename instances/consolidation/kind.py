"""Registration of consolidation instances: their data model, their tables in files, and a tiny example."""

from ..common.kind import InstanceKind, Tables
from .generate import generate_consolidation
from .instance import ConsolidationInstance
from .tables import wants_tables, with_tables, write_tables

CONSOLIDATION = InstanceKind(
    model=ConsolidationInstance,
    lists=("servers", "jobs"),
    tiny=lambda: generate_consolidation(2, 3, 4, seed=1),
    resolved=lambda data, *_: with_tables(data),
    tables=Tables(wants_tables, write_tables),
)
