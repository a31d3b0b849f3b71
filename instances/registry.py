"""Registry of the kinds of instance; a new kind is a folder on each floor and its name here."""

from __future__ import annotations

from .common.kind import InstanceKind, KindRegistry

KINDS: KindRegistry[InstanceKind] = KindRegistry(
    __package__, ("allocation", "staging", "consolidation", "scheduling", "mix")
)
