"""Options that the importers of clusters share."""

from __future__ import annotations

from typing import Annotated, Literal

from .importer import Option

Running = Annotated[
    Literal["move", "stay"],
    Option("move: jobs that run are planned too and stay placed; stay: they keep what they have."),
]
Spread = Annotated[
    Literal["required", "preferred", "free"],
    Option("How jobs of several tasks or pods may spread over servers."),
]
