"""Problems of another kind inside a method, which must not import that kind.

Whoever runs solvers says here how a document is solved; a method asks for it by the document.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .options import SolveOptions
from .result import Result

SolveDocument = Callable[[Mapping[str, Any], str, SolveOptions], Result]
_ways: list[SolveDocument] = []


def offer(way: SolveDocument) -> None:
    """Say how documents are solved from now on."""
    _ways[:] = [way]


def solve_document(document: Mapping[str, Any], solver: str, options: SolveOptions) -> Result:
    """Return the verified result of a document of any kind.

    Raises
    ------
    LookupError
        If nobody has said how, which `solvers.run` does when it is imported.
    """
    if not _ways:
        raise LookupError("nobody has said how documents are solved; import clusterplan.solvers.run")
    return _ways[0](document, solver, options)
