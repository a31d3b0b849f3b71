"""The command of a campaign: ``python -m fuzz``, run in the folder `tests`."""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

from .campaign import LANES, Tally, run, turn
from .lanes import FOLDER, sort_of
from .record import add


def main() -> int:
    """Run a campaign, or one turn again; the exit code is 1 if anything was found."""
    given = _arguments()
    if given.again:
        done = turn(given.again)
        for finding, case in done.failures:
            print(f"{sort_of(finding, case)}\n    {finding.text}")
        return 1 if done.failures else 0
    ends = f"{given.minutes:g} minutes or {given.instances:g} instances of each kind"
    print(f"seed {given.seed}, {ends}, {given.workers} workers", flush=True)
    start = time.monotonic()
    tally = run(
        given.seed,
        given.lanes.split(","),
        given.minutes,
        given.workers,
        given.keep,
        instances=given.instances,
    )
    _tell(tally)
    if given.record:
        minutes = round((time.monotonic() - start) / 60, 1)
        add(tally, {"seed": given.seed, "minutes": minutes, "workers": given.workers})
    return 1 if tally.failures else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=None, help="30, or without end")
    parser.add_argument("--instances", type=float, default=math.inf, help="end with so many of each kind")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", default=None, help="by default the time")
    parser.add_argument("--lanes", default=",".join(LANES), help="what to try, separated by commas")
    parser.add_argument("--keep", type=Path, default=FOLDER, help="folder for what failed")
    parser.add_argument("--record", action="store_true", help="add the counts to benchmarks/results")
    parser.add_argument("--again", metavar="SEED:LANE:NUMBER", help="run this one turn here and print it")
    given = parser.parse_args()
    if given.minutes is None:
        given.minutes = 30 if math.isinf(given.instances) else math.inf
    given.seed = given.seed or str(int(time.time()))
    unknown = sorted(set(given.lanes.split(",")) - set(LANES))
    if unknown:
        parser.error(f"--lanes {', '.join(unknown)}: there are {', '.join(LANES)}")
    return given


def _tell(tally: Tally) -> None:
    """Print what was tried and what was found."""
    for name, count in sorted(tally.counts.items()):
        if count:
            print(f"{count:9,}  {name}")
    for sort, count in tally.failures.most_common():
        print(
            f"FOUND {count:,} times: {sort}\n      --again {tally.labels[sort]}  {tally.files.get(sort, '')}"
        )


if __name__ == "__main__":
    sys.exit(main())
