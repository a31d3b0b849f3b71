"""What the README shows is what works."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ clusterplan ([^#\n]*)", README, re.M)


@pytest.mark.slow
def test_every_command_shown_ends_well(tmp_path: Path) -> None:
    """The commands run one after the other in one folder, as a reader would type them."""
    assert len(COMMANDS) >= 5
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


def test_it_is_short() -> None:
    """Whoever wants more finds it in the documentation."""
    assert len(README.splitlines()) <= 120


def test_what_it_links_to_is_there_and_pictures_are_small() -> None:
    """Links lead to files of the repository; the pictures load at once."""
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    for link in links:
        file = ROOT / link
        assert file.is_file(), link
        assert file.suffix != ".png" or file.stat().st_size < 100_000, link


def test_the_three_commands_for_a_cluster_are_those_that_the_documentation_runs() -> None:
    """They need the files of a cluster, which the page has."""
    page = (ROOT / "docs" / "start" / "slurm.md").read_text(encoding="utf-8")
    shown = re.findall(r"^clusterplan .*$", README, re.M)
    assert len(shown) == 3
    for command in shown:
        assert f"$ {command}\n" in page


def test_every_make_target_shown_exists() -> None:
    """The README names no target that the Makefile lacks."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^\$ make (\S+)", README, re.M):
        assert re.search(rf"^{target}:", makefile, re.M)
