"""All parts, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from . import certificates, commands, effort, solves, surface
from .store import Case

PARTS: dict[str, Callable[[], list[Case]]] = {
    "solves": solves.cases,
    "certificates": certificates.cases,
    "effort": effort.cases,
    "imports": partial(commands.cases, "imports", quick=1),
    "exports": partial(commands.cases, "exports", quick=1),
    "pages": partial(commands.cases, "pages", quick=5),
    "refusals": partial(commands.cases, "refusals", quick=1),
    "surface": surface.cases,
}
"""Part → its cases."""
