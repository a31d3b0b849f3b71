"""The functions of the shell that scripts for Slurm and Kubernetes call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent


def functions(manager: str) -> Iterator[str]:
    """Return the lines of what both managers share, then of one of them: `slurm` or `kubernetes`."""
    for name in ("steps", manager):
        yield from (HERE / f"{name}.sh").read_text(encoding="utf-8").rstrip("\n").split("\n")
        yield ""
