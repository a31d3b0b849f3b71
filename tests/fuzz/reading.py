"""Damaged files: bytes, lines, cells, and what a document says.

Whatever they hold, reading ends soon, with an instance or with words for the user.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import io
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

from clusterplan.instances.common.errors import ClusterplanError
from clusterplan.planner.api import solve
from clusterplan.planner.cli import main as cli
from clusterplan.planner.verification import verify
from clusterplan.solvers.common.result import SolveOptions

from .checks import Finding, place
from .forging import EXTREMES, STRANGE, mutated_document
from .specimens import READERS, Specimen, specimen

WORDS = rb"""
NaN Infinity .inf 1e309 -1e309 1e-400 0x10 1_000 null ~ true yes 2024-01-01 12:30:45
{ } [ ] " ' \ \u0000 \ud800 ? # | > @ ` , ; ,,, "" &a *a !!binary !!python/object:os.system ... %YAML
=cmd|'/C-calc'!A0 ../x /etc/passwd example:optimus-testbed catalogue:x jobs.csv
"""
TOKENS = (
    *WORDS.split(),
    *(b"\x00", b"\x07", b"\x1b[2J", b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3\x28", b"\xed\xa0\x80"),
    "\N{RIGHT-TO-LEFT OVERRIDE}".encode(),
    *(b"\r\n", b"\r", b"\t", b" ", b"\n\n", b"- ", b": ", b"--- ", b"<<: *a\n"),
    *(b"9" * 400, b"9" * 5000, b"a" * 70000, b"[" * 2000, b"{" * 200, b'{"a":' * 400),
)
"""What is put into files."""


def damaged_bytes(rng: random.Random, content: bytes) -> bytes:
    """Return the bytes with one to three changes that heed no format."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        at, end = sorted(rng.randint(0, len(content)) for _ in range(2))
        end = min(end, at + rng.choice([1, 3, 20, 1000]))
        change = rng.randrange(7)
        if change == 0 and content:
            at = min(at, len(content) - 1)
            content = content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]
        elif change == 1:
            content = content[:at] + content[end:]
        elif change == 2:
            content = content[:at] + rng.choice(TOKENS) + content[end:]
        elif change == 3:
            content = content[:at] + rng.choice(TOKENS) + content[at:]
        elif change == 4:
            content = content[:end] + content[at:end] * rng.choice([1, 2, 50]) + content[end:]
        elif change == 5:
            content = content[:at]
        else:
            lines = content.split(b"\n")
            a, b = (rng.randrange(len(lines)) for _ in range(2))
            lines[a], lines[b] = lines[b], lines[a]
            content = b"\n".join(lines)
    return content


def _dumped(rng: random.Random, data: Any, name: str) -> bytes:
    if name.endswith((".yaml", ".yml")) and rng.random() < 0.5:
        try:
            return yaml.safe_dump(data, sort_keys=False).encode("utf-8", "surrogatepass")
        except (yaml.YAMLError, RecursionError, ValueError):
            pass
    return json.dumps(data, default=str).encode()


def _damaged_data(rng: random.Random, name: str, content: bytes) -> bytes:
    """Return a document with changes in what it says, written well."""
    text = content.decode()
    if name.endswith(".jsonl"):
        lines = text.splitlines()
        at = rng.randrange(len(lines))
        lines[at] = json.dumps(mutated_document(rng, json.loads(lines[at])))
        return "\n".join(lines).encode() + b"\n"
    data = json.loads(text) if name.endswith(".json") else yaml.safe_load(text)
    return _dumped(rng, mutated_document(rng, data), name)


def _damaged_table(rng: random.Random, content: bytes) -> bytes:
    """Return a CSV file with other cells, rows or columns."""
    rows = list(csv.reader(io.StringIO(content.decode())))
    for _ in range(rng.choice([1, 1, 2])):
        row = rng.choice(rows) if rng.random() < 0.8 else rows[0]
        change = rng.randrange(6)
        if change <= 2 and row:
            row[rng.randrange(len(row))] = _cell(rng)
        elif change == 3 and row:
            del row[rng.randrange(len(row))]
        elif change == 4:
            row.append(rng.choice(row) if row else "x")
        else:
            rows.insert(rng.randint(0, len(rows)), list(row) * rng.choice([1, 1, 3]))
    out = io.StringIO()
    csv.writer(out, lineterminator=rng.choice(["\n", "\r\n"])).writerows(rows)
    return out.getvalue().encode("utf-8", "surrogatepass")


def _cell(rng: random.Random) -> str:
    value = rng.choice([*EXTREMES, *STRANGE])
    try:
        return str(value)
    except ValueError:
        return "9" * 5000


def inflated(rng: random.Random, name: str, content: bytes) -> bytes:
    """Return a file with very much of something: keys, repeated keys, rows, columns, or brackets."""
    many = rng.choice([3_000, 20_000, 60_000])
    if name.endswith(".csv"):
        head, _, rest = content.partition(b"\n")
        if rng.random() < 0.5:
            return content + (rest.partition(b"\n")[0] + b"\n") * many
        return head + b"".join(b",c%d" % k for k in range(many)) + b"\n" + rest
    at = content.find(b"{") + 1
    if not at:
        return content + b"".join(b"k%d: %d\n" % (k, k) for k in range(many))
    key = b"k%d" if rng.random() < 0.6 else b"k"
    keys = b"".join(b'"%s": 1, ' % (key % k if b"%" in key else key) for k in range(many))
    return content[:at] + rng.choice([keys, b'"k": [' + b"{}," * many + b"1], "]) + content[at:]


def damaged(rng: random.Random, name: str, content: bytes) -> bytes:
    """Return the content of a file with some damage."""
    if rng.random() < 0.003:
        return inflated(rng, name, content)
    if rng.random() < 0.45 or name.endswith((".parquet", ".txt", ".trace")):
        return damaged_bytes(rng, content)
    if name.endswith(".csv"):
        return _damaged_table(rng, content)
    return _damaged_data(rng, name, content)


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
