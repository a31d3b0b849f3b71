"""Pairs of names and numbers."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.planner.cli.instances.pairs import pairs


def test_pairs() -> None:
    """Names are different, and each has a number."""
    assert pairs("a=1, b=2", "--limit", int) == {"a": 1, "b": 2}
    for text, words in (("a", "write NAME=NUMBER"), ("a=x", "write NAME"), ("a=1,a=2", "a stands twice")):
        with pytest.raises(OptionError, match=f"--limit .*{words}"):
            pairs(text, "--limit", int)
