"""The command: ``python -m recorded [--record] [PART …]``, run in the folder `tests`, and its parts."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from . import certificates, commands, solves, surface
from .store import Case, Difference, Outcome, changes, outcomes_of, store, stored

PARTS: dict[str, Callable[[], list[Case]]] = {
    "solves": solves.cases,
    "certificates": certificates.cases,
    "effort": certificates.effort_cases,
    "imports": partial(commands.cases, "imports", quick=1),
    "exports": partial(commands.cases, "exports", quick=1),
    "pages": partial(commands.cases, "pages", quick=5),
    "refusals": partial(commands.cases, "refusals", quick=1),
    "surface": surface.cases,
}
"""Part → its cases."""
MAX_SHOWN = 40


def main() -> int:
    """Compare or record parts; the exit code of a comparison is 1 if anything differs."""
    parser = argparse.ArgumentParser(prog="recorded", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all if none is given")
    parser.add_argument("--record", action="store_true", help="store the parts anew, and say what changed")
    parser.add_argument("--only", default="", help="a part of the names of the cases")
    asked = parser.parse_args()
    unknown = [part for part in asked.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    found = []
    for part in asked.parts or PARTS:
        found += _record(part, asked.only) if asked.record else _compare(part, asked.only)
    return 1 if found and not asked.record else 0


def _compare(part: str, only: str) -> list[Difference]:
    """Print and return what differs from the recorded outcomes of a part."""
    cases, recorded = PARTS[part](), stored(part)
    chosen = [case for case in cases if case.possible and only in case.name]
    left_out = {case.name for case in cases} - {case.name for case in chosen}
    now = outcomes_of(_with_progress(part, chosen))
    found = changes(part, {name: recorded[name] for name in recorded.keys() - left_out}, now)
    _print_differences(part, len(now), found)
    return found


def _record(part: str, only: str) -> list[Difference]:
    """Store the outcomes of a part, and print in what they differ from those before."""
    before, cases = stored(part), PARTS[part]()
    fresh = [case for case in cases if case.possible and (only in case.name or case.name not in before)]
    made = {case.name for case in fresh}
    kept = {case.name: before[case.name] for case in cases if case.name in before and case.name not in made}
    now = kept | outcomes_of(_with_progress(part, fresh))
    store(part, now)
    found = changes(part, before, now)
    _print_differences(part, len(now), found)
    _count(before, now)
    return found


def _with_progress(part: str, cases: list[Case]) -> Iterator[Case]:
    """Yield the cases, with progress on a terminal."""
    for number, case in enumerate(cases, start=1):
        if sys.stderr.isatty():
            print(f"\r{part}: {number} of {len(cases)} {case.name}\x1b[K", end="", file=sys.stderr)
        yield case


def _print_differences(part: str, cases: int, found: list[Difference]) -> None:
    print(f"{part}: {cases} cases, {len(found)} differences")
    for difference in found[:MAX_SHOWN]:
        print(f"  {difference}")
    if len(found) > MAX_SHOWN:
        print(f"  … and {len(found) - MAX_SHOWN} more")


def _count(before: Mapping[str, Outcome], now: Mapping[str, Outcome]) -> None:
    """Print how many cases are new, gone and changed."""
    counts = Counter(
        "new" if name not in before else "gone" if name not in now else "changed"
        for name in before.keys() | now.keys()
        if before.get(name) != now.get(name)
    )
    print("  cases: " + (", ".join(f"{count} {what}" for what, count in counts.items()) or "none changed"))


if __name__ == "__main__":
    sys.exit(main())
