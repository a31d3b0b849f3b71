"""What becomes different when one plan takes the place of another, or of what runs now."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..formulations.common.tolerance import agree
from .output.text import TextColumn, figure
from .reports.text import counted, short


@dataclass(frozen=True)
class Change:
    """One job, or stage, that becomes different.

    Attributes
    ----------
    action
        What is to be done, such as `start`, `move` or `stop`.
    before, after
        Where or on what it runs; empty if it does not.
    """

    name: str
    action: str
    before: str
    after: str


@dataclass(frozen=True)
class Amount:
    """An amount that is in use before and after, such as GPUs or USD per hour; `total` is what there is."""

    name: str
    before: float
    after: float
    total: float | None = None

    @property
    def differs(self) -> bool:
        """Whether it becomes different by more than rounding."""
        return not agree(self.before, self.after)


@dataclass(frozen=True)
class Changes:
    """All that becomes different.

    Attributes
    ----------
    unit
        What the changes are of, such as `job`.
    changes
        The jobs or stages that become different.
    stay, wait
        How many stay as they are, and how many run neither before nor after.
    amounts
        Totals, whether they become different or not; the one that matters most first.
    places
        Servers whose use of the leading resource becomes different.
    place
        What these amounts are of, such as `gpu on server`.
    """

    unit: str
    changes: Sequence[Change]
    stay: int
    wait: int
    amounts: Sequence[Amount]
    places: Sequence[Amount] = ()
    place: str = ""

    def headline(self) -> str:
        """Return the answer in a sentence."""
        counts = Counter(change.action for change in self.changes) + Counter(stay=self.stay, wait=self.wait)
        first, *others = sorted(counts.items(), key=lambda item: ORDER.index(item[0]))
        parts = [f"{counted(first[1], self.unit)} {_of(*first)}"]
        return ", ".join([*parts, *(f"{count:,} {_of(action, count)}" for action, count in others)])

    def sentences(self) -> Iterator[str]:
        """Yield a line for each total."""
        for amount in self.amounts:
            of = "" if amount.total is None else f" of {short(amount.total)}"
            before = f"{short(amount.before)} → " if amount.differs else ""
            yield f"{amount.name}: {before}{short(amount.after)}{of}"

    def answer(self) -> str:
        """Return the headline and the first total as a sentence."""
        return f"{'; '.join([self.headline(), *itertools.islice(self.sentences(), 1)])}."

    def as_data(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return asdict(self)


def is_choice(resource: str) -> bool:
    """Return whether a resource stands for a choice of servers: importers name those in words."""
    return " " in resource


def leading(resources: Iterable[str]) -> str:
    """Return the resource that matters most: GPUs by any of their names, else the first one."""

    def rank(name: str) -> tuple[bool, bool, bool]:
        return is_choice(name), "gpu" not in name.lower(), "mig" not in name.lower()

    return min(resources, key=rank)


ORDER = ("start", "move", "change", "stop", "stay", "wait")
"""In which a headline counts what jobs do."""
CHANGE_COLUMNS: tuple[TextColumn[Change], ...] = (
    ("name", False, lambda change: change.name),
    ("action", False, lambda change: change.action),
    ("from", False, lambda change: change.before or "–"),
    ("to", False, lambda change: change.after or "–"),
)


def place_columns(what: str) -> list[TextColumn[Amount]]:
    """Return the columns of the table of places."""
    return [
        (what, False, lambda amount: amount.name),
        ("before", True, lambda amount: figure(amount.before)),
        ("after", True, lambda amount: figure(amount.after)),
        ("of", True, lambda amount: figure(amount.total)),
    ]


def _of(action: str, count: int) -> str:
    """Return what so many do, as a verb."""
    return f"{action}s" if count == 1 else action


def changed(before: Mapping[str, str], after: Mapping[str, str], move: str) -> tuple[list[Change], int]:
    """Return the changes of entries that are told by where they run, and how many stay.

    Parameters
    ----------
    before, after
        Name → where it runs, of those that do.
    move
        The action of one that runs before and after, but elsewhere.
    """
    found = []
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name, ""), after.get(name, "")
        if old != new:
            found.append(Change(name, move if old and new else "start" if new else "stop", old, new))
    return found, len(before.keys() & after.keys()) - sum(bool(c.before and c.after) for c in found)
