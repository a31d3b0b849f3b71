"""What the README says is so; what it shows runs in `test_docs.py`."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


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
