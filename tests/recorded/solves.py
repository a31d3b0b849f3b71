"""The surface: commands with their options, public names with their signatures, JSON Schemas."""

from __future__ import annotations

from .store import Case


def cases() -> list[Case]:
    """Return the cases."""
    return []
