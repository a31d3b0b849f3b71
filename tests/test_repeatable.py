"""The same instance, options, version and threads give the same plan, in whichever process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import clusterplan
from clusterplan.solvers.common.result import SolveOptions

EXAMPLES = sorted(
    path.stem for path in (Path(clusterplan.__file__).parent / "instances/examples").glob("*.yaml")
)
RUNS = 10
TIME_LIMIT_S = 600.0
"""So much that it cuts in nowhere."""


def _main(threads: int) -> None:
    """Print the name, the status and the hash of the plan of each example."""
    options = SolveOptions(threads=threads, time_limit_s=TIME_LIMIT_S)
    for name in EXAMPLES:
        result = clusterplan.solve(f"example:{name}", options=options)
        print(name, result.status, result.limit, result.plan_sha256)


def _answers(threads: int, seed: int) -> str:
    """Return what another process prints, whose hashes of texts are its own."""
    environment = os.environ | {"PYTHONHASHSEED": str(seed)}
    run = subprocess.run(
        [sys.executable, __file__, str(threads)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=1800,
    )
    return run.stdout


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_ten_processes_find_the_same_plan_of_every_example(threads: int) -> None:
    first = _answers(threads, 0)
    assert len(first.splitlines()) == len(EXAMPLES)
    assert " time " not in first
    for seed in range(1, RUNS):
        assert _answers(threads, seed) == first


if __name__ == "__main__":
    _main(int(sys.argv[1]))
