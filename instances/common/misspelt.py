"""Resources of servers whose names seem to be misspelt: one that no job asks for, next to one that jobs do.

Nothing else would say so: what is called otherwise on one server is a resource of its own, which nobody uses.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Collection, Iterator

CLOSE = 0.8
"""How much of two words has to be the same, as difflib counts."""
MOST_PAIRS = 10_000
"""Pairs of names that are compared, which takes a tenth of a second."""


def seem_the_same(one: str, other: str) -> bool:
    """Return whether one of two names may be the other, misspelt.

    Case, and what stands between words, do not matter. Then a letter or so of one word may differ, but not
    its first one (`cpu` is no `gpu`), and not where there are digits (a `gpu_a100` is no `gpu_h100`).
    """
    words, others = (re.findall(r"[^\W_]+", name.casefold()) for name in (one, other))
    if "".join(words) == "".join(others):
        return True
    wrong = [pair for pair in zip(words, others, strict=False) if pair[0] != pair[1]]
    if len(words) != len(others) or len(wrong) != 1 or re.search(r"\d", one + other):
        return False
    ((word, meant),) = wrong
    return word[0] == meant[0] and difflib.SequenceMatcher(None, word, meant).ratio() >= CLOSE


def misspelt(names: Collection[str], asked: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each name that nobody asks for with the one that may be meant; none where there are too many."""
    idle = [name for name in names if name not in asked]
    if len(idle) * len(asked) <= MOST_PAIRS:
        yield from (
            (name, meant) for name, meant in itertools.product(idle, asked) if seem_the_same(name, meant)
        )


def misspelt_complaint(name: str, meant: str) -> str:
    """Say what is wrong with a server that has one resource, but not the other."""
    what = f"no job asks for {name!r}; jobs ask for {meant!r}, of which this server has none"
    return f"{what}; did you mean {meant!r}? If not, leave {name!r} out"
