"""The command: ``python -m mutants``, run in the folder `tests`; its record, and a page of survivors."""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from .choosing import checks, noted
from .operators import Mutant, mutants_of
from .running import KILLED, copied, run

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
REASONS = Path(__file__).with_name("reasons.json")
"""Why mutants survive that change nothing that can be seen: file, line, what becomes of it, why."""
KEYS = ("file", "line", "text", "operator", "before", "after")
NAMED = ("file", "text", "before", "after")
"""What tells a mutant from others while lines before it come and go."""
INTRODUCTION = """# What tests notice of wrong checks

`make mutate SEED=1 COUNT=60` plants small mistakes in the checks, `formulations/*/check`, one at a time
and in a copy: another comparison, `+` for `-`, `max` for `min`, a constant one off, a statement left out.
Numbers above 64 are left alone, for they limit effort. The quick tests of formulations and of `verify` that
run the line are tried, the quickest first, for 30 s of processor time. A mutant that no test notices
survives; so does one for which the time is not enough. The same seed chooses the same mutants of the same
files.
"""


def add(mutants: list[Mutant], became: list[str], seed: str, folder: Path = RESULTS) -> None:
    """Add a run to the stored ones, in place of an earlier one with its seed, and write the page again."""
    path = folder / "mutants.json"
    runs = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    kept = [old for old in runs if old["seed"] != seed]
    rows = [
        {key: getattr(mutant, key) for key in KEYS} | {"became": end}
        for mutant, end in zip(mutants, became, strict=True)
    ]
    kept.append({"seed": seed, "mutants": rows})
    path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    (folder / "mutants.md").write_text(page(kept), encoding="utf-8")


def why(row: dict[str, Any]) -> str:
    """Return why a mutant survives, as far as somebody said it."""
    reasons = json.loads(REASONS.read_text(encoding="utf-8"))
    return next((r["why"] for r in reasons if all(r[key] == row[key] for key in NAMED)), "")


def page(runs: list[dict[str, Any]]) -> str:
    """Return the page of these runs."""
    lines = [
        INTRODUCTION,
        "| seed | mutants | killed | survived | of these explained |",
        "| --- | --: | --: | --: | --: |",
    ]
    for old in runs:
        counts = Counter(row["became"] == KILLED for row in old["mutants"])
        said = sum(bool(why(row)) for row in old["mutants"] if row["became"] != KILLED)
        lines.append(f"| {old['seed']} | {counts.total()} | {counts[True]} | {counts[False]} | {said} |")
    lines += [
        "",
        "## All mutants\n",
        "| seed | where | mistake | before → after | became | why |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for old in runs:
        for row in sorted(
            old["mutants"], key=lambda row: (row["became"] == KILLED, row["file"], row["line"])
        ):
            change = " → ".join(f"`{_short(row[key])}`" for key in ("before", "after"))
            where = f"{row['file'].removeprefix('formulations/')}:{row['line']}"
            reason = why(row) if row["became"] != KILLED else ""
            lines.append(
                f"| {old['seed']} | {where} | {row['operator']} | {change} | {row['became']} | {reason} |"
            )
    return "\n".join([*lines, ""])


def _short(source: str) -> str:
    """Return source in one line that a table can hold."""
    line = " ".join(source.split()).replace("|", "\\|")
    return line if len(line) <= 70 else f"{line[:67]}…"


def main() -> int:
    """Try some mutants; the exit code is 1 if any survived without a reason."""
    given = _arguments()
    files = checks(ROOT)
    names = [path.relative_to(ROOT).as_posix() for path in files]
    every = [
        mutant
        for path, name in zip(files, names, strict=True)
        if given.only in name
        for mutant in mutants_of(name, path.read_text(encoding="utf-8"))
    ]
    chosen = random.Random(given.seed).sample(every, min(given.count, len(every)))
    print(f"seed {given.seed}: {len(chosen)} of {len(every):,} mutants", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        copies = [copied(ROOT, Path(folder) / str(number)) for number in range(given.workers)]
        became = run(copies, chosen, noted(copies[0], ROOT / ".mutants_cache"))
    rows = [vars(mutant) for mutant, end in zip(chosen, became, strict=True) if end != KILLED]
    unexplained = [row for row in rows if not why(row)]
    print(
        f"{len(chosen) - len(rows)} killed, {len(rows)} survived, {len(unexplained)} of them without a reason"
    )
    if given.record:
        add(chosen, became, given.seed)
    return 1 if unexplained else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--only", default="", help="a part of the names of the files, such as allocation/check"
    )
    parser.add_argument("--record", action="store_true", help="add the mutants to benchmarks/results")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
