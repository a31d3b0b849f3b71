"""Mutants of all runs in a file, and a page that tells which survived and why."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from .operators import Mutant
from .running import KILLED

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
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
    kept = [run for run in runs if run["seed"] != seed]
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
    for run in runs:
        counts = Counter(row["became"] == KILLED for row in run["mutants"])
        said = sum(bool(why(row)) for row in run["mutants"] if row["became"] != KILLED)
        lines.append(f"| {run['seed']} | {counts.total()} | {counts[True]} | {counts[False]} | {said} |")
    lines += [
        "",
        "## All mutants\n",
        "| seed | where | mistake | before → after | became | why |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for run in runs:
        for row in sorted(
            run["mutants"], key=lambda row: (row["became"] == KILLED, row["file"], row["line"])
        ):
            change = " → ".join(f"`{_short(row[key])}`" for key in ("before", "after"))
            where = f"{row['file'].removeprefix('formulations/')}:{row['line']}"
            reason = why(row) if row["became"] != KILLED else ""
            lines.append(
                f"| {run['seed']} | {where} | {row['operator']} | {change} | {row['became']} | {reason} |"
            )
    return "\n".join([*lines, ""])


def _short(source: str) -> str:
    """Return source in one line that a table can hold."""
    line = " ".join(source.split()).replace("|", "\\|")
    return line if len(line) <= 70 else f"{line[:67]}…"
