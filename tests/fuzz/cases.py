"""Cases that failed: told apart, made small, kept in a file each, and tried again."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .checks import Finding
from .lanes import RETRY, Case
from .shrinking import shrunk

FOLDER = Path(__file__).resolve().parents[1] / "regressions"
SHRINK = ("instance", "result")
"""The parts of a case that are made smaller, in this order."""
TOLD_APART = ("exception", "refused", "warning", "error", "false acceptance", "verify")
"""Checks whose texts tell sorts of failure apart."""


def sort_of(finding: Finding, case: Case) -> str:
    """Return a text that is the same for failures that seem to have one cause."""
    kind = case.get("instance", {}).get("kind", "") if isinstance(case.get("instance"), dict) else ""
    words = finding.text if finding.check in TOLD_APART else ""
    words = re.sub(r"'[^']*'|\"[^\"]*\"|[-+]?\d[-+\d.e]*|\b(inf|nan)\b", "#", words)[:80]
    return " · ".join(part for part in (kind, finding.solver, finding.check, words) if part)


def retried(case: Case) -> list[Finding]:
    """Return what is found when a case is tried again."""
    return RETRY[case["lane"]](case)


def _fails(case: Case, sort: str) -> bool:
    try:
        return any(sort_of(finding, case) == sort for finding in retried(case))
    except Exception:  # noqa: BLE001  a document that is no longer one does not fail in the same way
        return False


def smallest(case: Case, sort: str, seconds: float) -> Case:
    """Return a small case that still fails in the same way."""
    for part in SHRINK:
        if part in case:
            rest = {key: value for key, value in case.items() if key != part}
            small = shrunk(case[part], lambda data, p=part, r=rest: _fails({**r, p: data}, sort), seconds)
            case = {**rest, part: small}
    return case


def keep(folder: Path, sort: str, finding: Finding, case: Case, label: str) -> Path:
    """Write a case to a file of its own, unless one of its sort is there; return the file."""
    name = re.sub(r"[^a-z0-9]+", "-", sort.lower()).strip("-")[:60].strip("-")
    path = folder / f"{name}-{hashlib.sha256(sort.encode()).hexdigest()[:6]}.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        told: dict[str, Any] = {"found": label, "what": f"{finding.solver}: {finding.check}: {finding.text}"}
        path.write_text(json.dumps({**told, **case}, indent=1) + "\n", encoding="utf-8")
    return path


def kept(folder: Path = FOLDER) -> Iterator[tuple[str, Case]]:
    """Yield the name and content of every case in a folder."""
    for path in sorted(folder.glob("*.json")):
        yield path.stem, json.loads(path.read_text(encoding="utf-8"))
