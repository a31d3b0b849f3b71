"""Registry of the kinds of instance; a new kind is a folder and one line here."""

from __future__ import annotations

from .allocation.kind import ALLOCATION
from .common.kind import InstanceKind
from .consolidation.kind import CONSOLIDATION
from .scheduling.kind import SCHEDULING
from .staging.kind import STAGING

KINDS: dict[str, InstanceKind] = {
    "allocation": ALLOCATION,
    "staging": STAGING,
    "consolidation": CONSOLIDATION,
    "scheduling": SCHEDULING,
}
