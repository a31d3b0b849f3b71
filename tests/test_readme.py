"""What the README shows is what works."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import clusterplan

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ clusterplan ([^#\n]*)", README, re.M)


@pytest.mark.slow
def test_every_command_shown_ends_well(tmp_path: Path) -> None:
    """The commands run one after the other in one folder, as a reader would type them."""
    assert len(COMMANDS) >= 8
    for command in COMMANDS:
        words = shlex.split(command)
        target = words.index(">") if ">" in words else len(words)
        run = subprocess.run(
            [sys.executable, "-m", "clusterplan", *words[:target]],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        # A slow machine may stop at the time limit with a plan.
        assert run.returncode in (0, 5), (command, run.stderr)
        if target < len(words):
            (tmp_path / words[target + 1]).write_text(run.stdout)


def test_the_python_shown_runs() -> None:
    """The library example runs as it stands."""
    (code,) = re.findall(r"```python\n(.*?)```", README, re.S)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("optimal")


def test_the_whole_document_shown_is_solved() -> None:
    """The YAML document that stands complete in the text has an optimal plan."""
    documents = re.findall(r"```yaml\n(schema_version.*?)```", README, re.S)
    assert documents
    for text in documents:
        instance = clusterplan.parse_instance(yaml.safe_load(text))
        assert clusterplan.solve(instance).status == "optimal"


def test_every_make_target_shown_exists() -> None:
    """The README names no target that the Makefile lacks."""
    makefile = (Path(__file__).parent.parent / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^\$ make (\S+)", README, re.M):
        assert re.search(rf"^{target}:", makefile, re.M)
