"""Running turns in worker processes until the time is up, and outliving workers that hang or die."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from .checks import Finding
from .kinds import KINDS
from .lanes import Case, Turn, keep, read_one, smallest, solve_one, sort_of

LANES: dict[str, Any] = {**{kind: partial(solve_one, kind) for kind in KINDS}, "files": read_one}
TARGETS = {
    "allocation": 10_000,
    "staging": 10_000,
    "consolidation": 10_000,
    "scheduling": 10_000,
    "files": 100_000,
}
"""Turns are shared out so that all lanes reach their target together."""
HANGS_S = 180.0
"""A turn that takes longer is ended, and is a failure."""
SHRINK_S = 20.0
TELL_S = 60.0
MAIN = {
    **{kind: f"{kind} instances" for kind in KINDS},
    "forged results": "results forged",
    "forged certificates": "certificates forged",
    "damaged files": "files damaged",
}
"""What is told every minute: words, and the count that they stand for."""


@dataclass
class Tally:
    """What a campaign did.

    Attributes
    ----------
    counts
        How many of what were tried.
    failures
        How often each sort of failure was found.
    labels
        The first turn that found each sort.
    files
        Where the smallest case of each sort is kept.
    """

    counts: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    labels: dict[str, str] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)


def turn(label: str) -> Turn:
    """Return what the turn with this label, SEED:LANE:NUMBER, does; always the same."""
    return LANES[label.split(":")[1]](random.Random(label))


def labels(seed: str, lanes: list[str], first: int, step: int) -> Any:
    """Yield labels without end, the lane that is furthest from its target next; every `step`-th number."""
    done = dict.fromkeys(lanes, 0)
    while True:
        lane = min(lanes, key=lambda name: done[name] / TARGETS[name])
        yield f"{seed}:{lane}:{first + step * done[lane]}"
        done[lane] += 1


def work(pipe: Connection, seed: str, lanes: list[str], first: int, step: int, skip: int) -> None:
    """Run turns and send what they did, until nobody listens; solvers' own printing is dropped."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    seen: set[str] = set()
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        for number, label in enumerate(labels(seed, lanes, first, step)):
            if number < skip:
                continue
            pipe.send(("begins", label, None))
            done = turn(label)
            found = []
            for finding, case in done.failures:
                sort = sort_of(finding, case)
                small = None
                if sort not in seen:
                    seen.add(sort)
                    small = smallest(case, sort, SHRINK_S)
                found.append((sort, finding, small))
            pipe.send(("ended", label, (done.counts, found)))


@dataclass
class Worker:
    """A process that runs turns, and what it is at."""

    seed: str
    lanes: list[str]
    first: int
    step: int
    turns: int = 0
    label: str = ""
    since: float = 0.0

    def start(self) -> None:
        """Start the process, behind the turns that were begun before."""
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe(duplex=False)
        args = (theirs, self.seed, self.lanes, self.first, self.step, self.turns)
        self.process = context.Process(target=work, args=args, daemon=True)
        self.process.start()
        theirs.close()
        self.since = time.monotonic()

    def stop(self) -> None:
        """End the process."""
        self.pipe.close()
        self.process.kill()
        self.process.join()


def run(
    seed: str,
    lanes: list[str],
    minutes: float,
    workers: int,
    folder: Path,
    turns: float = math.inf,
    instances: float = math.inf,
) -> Tally:
    """Run turns until one of the ends is met, or somebody interrupts; return what was done.

    Parameters
    ----------
    instances
        Enough of each kind that is tried.
    """
    kinds = [lane for lane in lanes if lane in KINDS]
    tally, start = Tally(), time.monotonic()
    end, told = start + 60 * minutes, start
    crew = [Worker(seed, lanes, index, workers) for index in range(workers)]
    for worker in crew:
        worker.start()
    try:
        while time.monotonic() < end and sum(worker.turns for worker in crew) <= turns:
            if kinds and all(tally.counts[f"{kind} instances"] >= instances for kind in kinds):
                break
            if time.monotonic() - told > TELL_S:
                told = time.monotonic()
                print(f"{(told - start) / 60:.0f} min: {_short(tally)}", file=sys.stderr, flush=True)
            ready = wait([worker.pipe for worker in crew], timeout=1.0)
            for worker in crew:
                lost = _listen(worker, tally, folder) if worker.pipe in ready else None
                if lost is None and time.monotonic() - worker.since > HANGS_S:
                    lost = f"took more than {HANGS_S:.0f} s"
                if lost is not None:
                    finding = Finding("lost", "worker", lost)
                    _count(
                        tally, folder, f"{worker.label.split(':')[1]} · {lost}", finding, None, worker.label
                    )
                    worker.stop()
                    worker.start()
    except KeyboardInterrupt:
        print("interrupted; what was done before counts", file=sys.stderr)
    finally:
        for worker in crew:
            worker.stop()
    return tally


def _short(tally: Tally) -> str:
    """Return the main counts in a line."""
    shown = [f"{name} {tally.counts[count]:,}" for name, count in MAIN.items()]
    return ", ".join([*shown, f"{len(tally.failures)} sorts of failure"])


def _listen(worker: Worker, tally: Tally, folder: Path) -> str | None:
    """Take what a worker sent; return what happened to it if it is gone."""
    try:
        what, label, done = worker.pipe.recv()
    except EOFError:
        worker.process.join(5)
        return f"ended with exit code {worker.process.exitcode}"
    worker.since = time.monotonic()
    if what == "begins":
        worker.label, worker.turns = label, worker.turns + 1
        return None
    counts, found = done
    tally.counts.update(counts)
    for sort, finding, case in found:
        _count(tally, folder, sort, finding, case, label)
    return None


def _count(tally: Tally, folder: Path, sort: str, finding: Finding, case: Case | None, label: str) -> None:
    tally.failures[sort] += 1
    tally.labels.setdefault(sort, label)
    if case is not None and sort not in tally.files:
        tally.files[sort] = keep(folder, sort, finding, case, label)
