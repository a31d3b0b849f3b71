"""The command `doctor`."""

from __future__ import annotations

import typer

from ..doctor import examine
from ..exit_codes import FAILED, SOLVED
from ..output.text import console, table


def doctor() -> None:
    """Check that the libraries load together and that every solver answers right."""
    findings = examine()
    rows = [[finding.what, "fine" if finding.ok else "WRONG", finding.detail] for finding in findings]
    console().print(table([("what", False), ("", False), ("detail", False)], rows))
    raise typer.Exit(SOLVED if all(finding.ok or not finding.needed for finding in findings) else FAILED)
