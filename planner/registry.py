"""Registry of the problem kinds' output; a new kind is a folder and one line here."""

from __future__ import annotations

from .allocation.kind import ALLOCATION
from .consolidation.kind import CONSOLIDATION
from .kind import PlannerKind
from .scheduling.kind import SCHEDULING
from .staging.kind import STAGING

KINDS: dict[str, PlannerKind] = {
    "allocation": ALLOCATION,
    "staging": STAGING,
    "consolidation": CONSOLIDATION,
    "scheduling": SCHEDULING,
}
FRONTIER_KINDS = {name: kind.frontier for name, kind in KINDS.items() if kind.frontier is not None}
"""The frontiers of the kinds that have one."""


def formats() -> list[str]:
    """Return the names of the export formats of all kinds."""
    return ["json", *dict.fromkeys(name for kind in KINDS.values() for name in kind.formats)]
