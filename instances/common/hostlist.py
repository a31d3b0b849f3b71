"""Slurm's lists of node names, such as ``n[001-004,7],login``: expansion and compression."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

MAX_HOSTS = 65_536
"""Slurm's own limit."""
LONGEST = 1_000_000

_PART = re.compile(r"[^\[\],\s]+|\[[^\[\]\s]*\]")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,9})")


def expand_hostlist(text: str) -> list[str]:
    """Return the node names that a host list of Slurm or Flux denotes, in its order.

    Raises
    ------
    ValueError
        If it is no list of names, or denotes more than 65,536.
    """
    if len(text) > LONGEST:
        raise ValueError("is a list of nodes with more than a million characters; split it")
    names: list[str] = []
    for item in _items(text):
        names += _expanded(item, MAX_HOSTS - len(names))
    return names


def _items(text: str) -> Iterator[str]:
    """Yield the entries of a host list, which commas outside brackets separate."""
    start = depth = 0
    for position, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            yield text[start:position].strip()
            start = position + 1
    if text.strip():
        yield text[start:].strip()


def _expanded(item: str, most: int) -> list[str]:
    parts = _PART.findall(item)
    if not parts or "".join(parts) != item:
        raise ValueError(f"is not a list of nodes at {item[:40]!r}; write names such as n[001-004,7]")
    names = [""]
    for part in parts:
        values = _numbers(part, most) if part.startswith("[") else [part]
        if len(names) * len(values) > most:
            raise ValueError(f"stands for more than {MAX_HOSTS:,} nodes; split it")
        names = [name + value for name in names for value in values]
    return names


def _numbers(part: str, most: int) -> list[str]:
    """Return the numbers of a bracket such as ``[001-004,7]`` as text, padded like each range's lower end."""
    numbers: list[str] = []
    for item in part[1:-1].split(","):
        match = _RANGE.fullmatch(item.strip())
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if match is None or high < low:
            raise ValueError(f"has {part[:40]!r}, which is no list of numbers and ranges such as [001-004,7]")
        # Checked before the numbers are written out: a short text may denote billions.
        if len(numbers) + high - low >= most:
            raise ValueError(f"stands for more than {MAX_HOSTS:,} nodes; split it")
        numbers += [f"{number:0{len(match[1])}d}" for number in range(low, high + 1)]
    return numbers


def compress_hostlist(names: Iterable[str]) -> str:
    """Return the host list of some names, with ranges of last numbers; without duplicates."""
    plain: list[str] = []
    numbered: dict[tuple[str, int], set[int]] = defaultdict(set)
    for name in dict.fromkeys(names):
        match = _NUMBERED.fullmatch(name)
        if match is None:
            plain.append(name)
        else:
            # Only numbers of one width make a range: n1 and n01 are different nodes.
            numbered[match[1], len(match[2])].add(int(match[2]))
    ranges = [_ranges(prefix, width, sorted(own)) for (prefix, width), own in sorted(numbered.items())]
    return ",".join([*sorted(plain), *ranges])


def consecutive_runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and the last number of each run of consecutive ones among rising numbers."""
    gaps = [(before, after) for before, after in pairwise(numbers) if after != before + 1]
    starts, ends = [numbers[0], *(after for _, after in gaps)], [*(before for before, _ in gaps), numbers[-1]]
    return list(zip(starts, ends, strict=True))


def _ranges(prefix: str, width: int, numbers: list[int]) -> str:
    parts = [
        f"{low:0{width}d}" if low == high else f"{low:0{width}d}-{high:0{width}d}"
        for low, high in consecutive_runs(numbers)
    ]
    return prefix + parts[0] if len(numbers) == 1 else f"{prefix}[{','.join(parts)}]"
