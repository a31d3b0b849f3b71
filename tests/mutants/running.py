"""Running the tests of a mutant, in a copy of the tree of which nothing comes back."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from .choosing import PYTEST, Notes, covering
from .operators import Mutant

SECONDS = 30
"""Of processor time for each mutant, which another load on the machine does not change."""
AT_MOST = 5
"""Times as long a mutant may take by the clock."""
LEFT_OUT = (".git", ".venv*", "docs", "build", "dist", ".hypothesis", "*_cache")
BROKEN = (2, 3, 4)
"""Exit codes of pytest where not even the collection of tests ends, as with a module that fails to import."""
KILLED, SURVIVED, OUT_OF_TIME, UNTESTED = "killed", "survived", "out of time", "no test runs it"
ENDS = {0: SURVIVED, 1: KILLED}


def copied(root: Path, folder: Path) -> Path:
    """Return a copy of the tree under the name of the package, with what was compiled for it."""
    copy = folder / "clusterplan"
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
    return copy


def tried(copy: Path, mutant: Mutant, number: int, tests: list[str]) -> str:
    """Return what becomes of a mutant.

    Parameters
    ----------
    number
        Different for all that are tried in this copy: the file has another time of change each time, for
        Python and numba take what they compiled before if time and size are the same.
    """
    if not tests:
        return UNTESTED
    path = copy / mutant.file
    source, stat = path.read_text(encoding="utf-8"), path.stat()
    path.write_text(mutant.applied(source), encoding="utf-8")
    os.utime(path, (stat.st_atime, int(stat.st_mtime) + 10 * (number + 1)))
    listed = copy.parent / "tests.txt"
    listed.write_text("\n".join(tests), encoding="utf-8")
    try:
        code = _exit_code(copy, "-x", f"@{listed}")
    finally:
        path.write_text(source, encoding="utf-8")
        os.utime(path, (stat.st_atime, stat.st_mtime))
        shutil.rmtree(copy / ".hypothesis", ignore_errors=True)
    if code in BROKEN and _exit_code(copy, "--collect-only", f"@{listed}") != 0:
        raise RuntimeError(
            f"{copy}: the tests of {mutant.file}:{mutant.line} cannot be run without any mistake"
        )
    return KILLED if code in BROKEN else ENDS.get(code, OUT_OF_TIME)


def _exit_code(copy: Path, *arguments: str) -> int | None:
    """Return how pytest ends; None where the clock's time is up."""
    environment = {**os.environ, "PYTHONPATH": f"{copy.parent}:{copy / 'tests'}"}
    command = [sys.executable, "-m", "pytest", "-q", *PYTEST, *arguments]
    try:
        return subprocess.run(
            command,
            cwd=copy,
            env=environment,
            check=False,
            capture_output=True,
            timeout=SECONDS * AT_MOST,
            preexec_fn=_limit,
        ).returncode
    except subprocess.TimeoutExpired:
        return None


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


def run(copies: list[Path], mutants: list[Mutant], notes: Notes) -> list[str]:
    """Return what becomes of each mutant, several at the same time, each in a copy of its own."""
    free: SimpleQueue[Path] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def one(number: int) -> str:
        mutant, copy = mutants[number], free.get()
        try:
            became = tried(copy, mutant, number, covering(copy, notes, mutant.file, mutant.line))
        finally:
            free.put(copy)
        print(f"{became:15}  {mutant.file}:{mutant.line}  {mutant.before!r} -> {mutant.after!r}", flush=True)
        return became

    with ThreadPoolExecutor(len(copies)) as pool:
        return list(pool.map(one, range(len(mutants))))
