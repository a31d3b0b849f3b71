"""Damaging files: bytes, lines, cells, and what a document says."""

from __future__ import annotations

import csv
import io
import json
import random
from typing import Any

import yaml

from .forging import EXTREMES, STRANGE, mutated_document

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
