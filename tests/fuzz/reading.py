"""Damaged files: whatever they hold, reading ends soon, with an instance or with words for the user."""

from __future__ import annotations

import base64
import contextlib
import io
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from clusterplan.instances.common.errors import ClusterplanError
from clusterplan.planner.api import solve
from clusterplan.planner.cli import main as cli
from clusterplan.planner.verification import verify
from clusterplan.solvers.common.result import SolveOptions

from .checks import Finding, place
from .damage import damaged
from .specimens import READERS, Specimen, specimen

LONGEST_S = 5.0
"""Of the processor's time, so that other work on the machine plays no part."""
SOLVE_S = 0.3
"""Time limit of a solve of what a damaged file still says."""
COMMANDS = {
    "document": (
        "validate {instance.*}",
        "solve {instance.*} --time-limit 0.3 --quiet",
        "solve {instance.*} --time-limit 0.3 --format json",
        "export-model {instance.*}",
    ),
    "results": (
        "verify {instance.json} {results.jsonl}",
        "report {instance.json} {results.jsonl} --output page.html",
        "export-plan {instance.json} {results.jsonl}",
        "export-plan {instance.json} {results.jsonl} --format slurm",
        "export-plan {instance.json} {results.jsonl} --format slurm-options",
        "export-plan {instance.json} {results.jsonl} --format kubernetes",
    ),
    "speeds": ("fit speed {speeds.csv}", "fit speed {speeds.csv} --allow-rank-deficient --batch 64"),
    "losses": ("fit loss {losses.csv} --steps-per-epoch 100",),
}
"""Commands that read files of a sort; braces hold patterns of names."""


def damaged_specimen(rng: random.Random) -> Specimen:
    """Return files of which one, sometimes more, is damaged."""
    good = specimen(rng)
    chosen = {rng.choice(sorted(good.files)) for _ in range(rng.choice([1, 1, 1, 2]))}
    files = {
        name: damaged(rng, name, content) if name in chosen else content
        for name, content in good.files.items()
    }
    return Specimen(good.sort, files)


def read(files: Specimen, how: str) -> Iterator[Finding]:
    """Yield what goes wrong when files are read.

    Parameters
    ----------
    how
        ``load``; ``solve``, which tries what was read too; or one of the commands.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, content in files.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        start = time.process_time()
        try:
            yield from (_library if how in ("load", "solve") else _command)(files.sort, folder, how)
        except ClusterplanError as error:
            if not str(error).strip():
                yield Finding("no words", files.sort, type(error).__name__)
            yield from _unprintable(str(error), files.sort)
        except Exception as error:  # noqa: BLE001  whatever escapes is what is looked for
            yield Finding("exception", files.sort, place(error))
        seconds = time.process_time() - start
        if seconds > LONGEST_S:
            yield Finding("slow", files.sort, f"took {seconds:.1f} s")


def _library(sort: str, folder: Path, how: str) -> Iterator[Finding]:
    instance = READERS[sort](folder)
    if instance is None or how != "solve":
        return
    result = solve(instance, "exact", SolveOptions(threads=1, time_limit_s=SOLVE_S))
    if result.status == "error":
        yield Finding("error", sort, str(result.message))
    if not verify(instance, result).ok:
        yield Finding("verify", sort, "; ".join(verify(instance, result).faults))


class _Terminal(io.StringIO):
    """A stream that commands take for a terminal, from which they need not strip control characters."""

    def isatty(self) -> bool:
        """Say yes."""
        return True


def _command(sort: str, folder: Path, how: str) -> Iterator[Finding]:
    """Run a command in this process, and look at its exit code and at what it prints."""
    words = ["clusterplan"]
    for word in how.split():
        words.append(str(next(folder.glob(word[1:-1]))) if word.startswith("{") else word)
    out, err, code = _Terminal(), _Terminal(), 0
    with (
        mock.patch.object(sys, "argv", words),
        mock.patch.dict(os.environ, {"TERM": "dumb"}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        contextlib.chdir(folder),
    ):
        try:
            cli.main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
    printed = out.getvalue() + err.getvalue()
    refused = how.startswith("export-model") and printed.count("\n") == 1  # a model that would be too large
    if (code == 1 and not refused) or "internal error" in printed or "Traceback" in printed:
        yield Finding("exception", f"{sort} command", f"exit code {code}: {printed[-300:]}")
    yield from _unprintable(printed, f"{sort} command")


def _unprintable(text: str, where: str) -> Iterator[Finding]:
    """Find characters that could command a terminal."""
    strange = {c for c in text if not c.isprintable() and c != "\n"}
    if strange:
        yield Finding("control characters", where, repr(sorted(strange)))


def how_to_read(rng: random.Random, sort: str) -> str:
    """Return which way files are read: mostly loaded, sometimes solved or read by a command."""
    if sort in COMMANDS and rng.random() < 0.08:
        return rng.choice(COMMANDS[sort])
    return "solve" if rng.random() < 0.04 else "load"


def packed(files: Specimen) -> dict[str, Any]:
    """Return files as plain data: text where they are text."""
    found: dict[str, Any] = {}
    for name, content in files.files.items():
        try:
            found[name] = content.decode()
        except UnicodeDecodeError:
            found[name] = {"base64": base64.b64encode(content).decode()}
    return found


def unpacked(sort: str, files: Mapping[str, Any]) -> Specimen:
    """Return files from plain data."""
    return Specimen(
        sort,
        {
            name: content.encode() if isinstance(content, str) else base64.b64decode(content["base64"])
            for name, content in files.items()
        },
    )
