"""The functions of the shell that scripts for Slurm and Kubernetes call."""

from __future__ import annotations

import subprocess

import pytest

from clusterplan.planner.consolidation.shell import functions


@pytest.mark.parametrize(("manager", "only"), [("slurm", "place()"), ("kubernetes", "selector()")])
def test_what_is_shared_comes_first_and_the_shell_reads_it(manager: str, only: str) -> None:
    lines = list(functions(manager))
    assert lines[0] == "set -euo pipefail"
    text = "\n".join(lines)
    assert text.count("fail() {") == 1
    assert text.index("fail() {") < text.index(only)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
