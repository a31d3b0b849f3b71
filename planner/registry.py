"""Registry of the problem kinds' output."""

from __future__ import annotations

from functools import cache

from ..instances.common.kind import KindRegistry
from ..instances.registry import KINDS as INSTANCES
from .kind import FrontierKind, PlannerKind

KINDS: KindRegistry[PlannerKind] = KindRegistry(__package__, INSTANCES.names)


@cache
def frontier_kinds() -> dict[str, FrontierKind]:
    """Return the frontiers of the kinds that have one."""
    return {name: kind.frontier for name, kind in KINDS.items() if kind.frontier is not None}


def formats() -> list[str]:
    """Return the names of the export formats of all kinds."""
    return ["json", *dict.fromkeys(name for kind in KINDS.values() for name in kind.formats)]
