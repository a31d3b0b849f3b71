"""The command: ``python -m mutants``, run in the folder `tests`."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from .choosing import checks, noted
from .operators import mutants_of
from .record import add, why
from .running import KILLED, copied, run

ROOT = Path(__file__).resolve().parents[2]


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
