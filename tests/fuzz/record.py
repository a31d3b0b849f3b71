"""The counts of all campaigns, added up in a file, and a page that tells them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from .campaign import Tally
from .kinds import EVERYWHERE, KINDS

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
INTRODUCTION = """# What an adversary tried

`make fuzz MINUTES=30`, or `make fuzz INSTANCES=5000`, makes tiny random instances with odd combinations of
fields and of scales, looks through all plans of each with code of its own in exact fractions, written from
the documentation, and compares: statuses, values, bounds, certified bounds, prices. It tampers with results
and certificates, and whatever `verify` accepts has to be true. It damages files of every sort that is read,
and each must be read, or refused in words, within five seconds. What fails is made smaller and kept in
`tests/regressions`, and the tests try it again ever after.

A plan that lies within 1e-12 of the slack of 1e-9 that comparisons have is taken neither for allowed nor for
forbidden. Bounds may be off by a rounding of 1e-9, relatively; those of libraries that work with tolerances
of their own by 2e-6.

These are sums over all recorded runs; a run is repeated by its seed (`SEED=…`).
"""

REFUTED = """\
Libraries that work with tolerances sometimes answer what does not hold where scales lie far apart: a plan
that exceeds a limit, or a bound that their own plan contradicts. The package checks what they say; such a
solve ends in the status `error`, and is counted here as a refuted answer.
"""
PRICES = """\
What a result says that one more server or unit wins at most is compared with the best plan once it is there.
The prices of staging only order its types, and must not be negative.
"""

OF_INSTANCES = ("", " over 12 orders of magnitude", " without a plan")
OF_PRICES = ("compared", "compared of what wins something", "not compared")


def add(tally: Tally, run: dict[str, Any], folder: Path = RESULTS) -> None:
    """Add a run to the stored ones, in place of an earlier one with its seed, and write the page again.

    Parameters
    ----------
    run
        What else to store of it: its seed, minutes and workers.
    """
    path = folder / "fuzz.json"
    runs = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    kept = [old for old in runs if old["seed"] != run["seed"]]
    counts, failures = dict(sorted(tally.counts.items())), dict(tally.failures.most_common())
    kept.append({**run, "counts": counts, "failures": failures})
    path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    (folder / "fuzz.md").write_text(page(kept), encoding="utf-8")


def page(runs: list[dict[str, Any]]) -> str:
    """Return the page of these runs."""
    counts: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    for run in runs:
        counts.update(run["counts"])
        failures.update(run["failures"])
    lines = [INTRODUCTION, *_kinds(counts), *_solvers(counts), *_files(counts)]
    lines += ["## What was found\n"]
    lines += [f"* {count:,} × {sort}" for sort, count in failures.most_common()] or ["Nothing."]
    minutes = sum(run["minutes"] * run["workers"] for run in runs)
    seeds = ", ".join(str(run["seed"]) for run in runs)
    lines += [
        "",
        f"Runs: {len(runs)}, of {minutes:,.0f} minutes of one process together; seeds: {seeds}.",
        "",
    ]
    return "\n".join(lines)


def _table(titles: list[str], rows: list[list[str]]) -> list[str]:
    right = ["---", *["--:"] * (len(titles) - 1)]
    return ["| " + " | ".join(row) + " |" for row in [titles, right, *rows]] + [""]


def _kinds(counts: Counter[str]) -> list[str]:
    rows = [[kind, *(f"{counts[f'{kind} instances{what}']:,}" for what in OF_INSTANCES)] for kind in KINDS]
    forged = f"{counts['results forged']:,} results and {counts['certificates forged']:,} certificates"
    return [
        "## Instances\n",
        *_table(["kind", "instances", "numbers 12 orders of magnitude apart", "without a plan"], rows),
        f"{' and '.join(f'`{name}`' for name in EVERYWHERE)} solve every instance; "
        f"{counts['plans compared']:,} plans were compared. {forged} were tampered with.\n",
        *_features(counts),
        *_prices(counts),
    ]


def _features(counts: Counter[str]) -> list[str]:
    """Return what instances had, of the runs that counted it."""
    rows = []
    for kind in KINDS:
        start = f"{kind} instances with "
        had = {name.removeprefix(start): n for name, n in counts.items() if name.startswith(start) and n}
        shown = "; ".join(f"{name} {n:,}" for name, n in sorted(had.items(), key=lambda item: -item[1]))
        rows += [[kind, shown]] if had else []
    text = "What instances have (of the runs since this is counted):\n"
    return [text, *_table(["kind", "instances with"], rows)] if rows else []


def _prices(counts: Counter[str]) -> list[str]:
    """Return how many prices were compared with the optimum after one more was added."""
    rows = [
        [kind, *(f"{counts[f'{kind} prices {what}']:,}" for what in OF_PRICES)]
        for kind in KINDS
        if counts[f"{kind} prices compared"]
    ]
    titles = ["kind", "prices compared", "of what wins something", "too many plans to compare"]
    return [PRICES, *_table(titles, rows)] if rows else []


def _solvers(counts: Counter[str]) -> list[str]:
    names = list(dict.fromkeys(name for kind in KINDS.values() for name in (*EVERYWHERE, *kind.sample)))
    rows = [
        [
            f"`{name}`",
            *(_shown(counts[f"{kind} solved by {name}"]) for kind in KINDS),
            _shown(sum(counts[f"{kind} answers of {name} refuted"] for kind in KINDS)),
        ]
        for name in names
        if any(counts[f"{kind} solved by {name}"] for kind in KINDS)
    ]
    return ["## Solves\n", REFUTED, *_table(["solver", *KINDS, "refuted answers"], rows)]


def _shown(count: int) -> str:
    return f"{count:,}" if count else "–"


def _files(counts: Counter[str]) -> list[str]:
    sorts = {
        name.removeprefix("files damaged: "): n
        for name, n in counts.items()
        if ": " in name and "files" in name
    }
    rows = [[sort, f"{count:,}"] for sort, count in sorted(sorts.items())]
    return [
        "## Files\n",
        *_table(["sort", "damaged files"], [*rows, ["all", f"{counts['files damaged']:,}"]]),
    ]
