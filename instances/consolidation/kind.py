"""What consolidation consists of on this floor."""

from typing import Any

from ..common.kind import InstanceKind, Tables
from ..files.references import Folder
from .generate import generate_consolidation
from .instance import ConsolidationInstance
from .tables import wants_tables, with_tables, write_tables


def _resolved(data: dict[str, Any], source: str, folder: Folder) -> dict[str, Any]:
    del source, folder
    return with_tables(data)


CONSOLIDATION = InstanceKind(
    model=ConsolidationInstance,
    lists=("servers", "jobs"),
    tiny=lambda: generate_consolidation(2, 3, 4, seed=1),
    resolved=_resolved,
    tables=Tables(wants_tables, write_tables),
)
