"""Changes of instances and plans: scenarios of a what-if question, and the differences between two plans.

A scenario is written `KEY=VALUE,KEY=VALUE`; each kind says which keys it has and applies them to its
documents. Differences are those between a plan and another plan, or between a plan and what runs now.
"""

from __future__ import annotations

import fnmatch
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..formulations.common.tolerance import agree
from ..instances.common.base import Instance
from ..instances.common.errors import InstanceError, OptionError, shown
from .reports.text import TextColumn, counted, figure, listed, short

_TIMES = re.compile(r"(?:(\d{1,7})[x×])?(.+)", re.S)
_AMOUNT = re.compile(r"([+-]?)(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)(%?)")


@dataclass(frozen=True)
class ScenarioChange:
    """A change that a scenario may make.

    Attributes
    ----------
    usage
        How it is written, such as `drain=SERVER`.
    fields
        Of an instance and the text after the sign: the fields of the document that become different.
    """

    usage: str
    fields: Callable[[Any, str], Mapping[str, Any]]


def changed_instance(instance: Instance, scenario: str, known: Mapping[str, ScenarioChange]) -> Instance:
    """Return the instance of a scenario; its changes are made one after the other.

    Raises
    ------
    OptionError
        If a change is not known, what it names is missing, or what results is no instance.
    """
    if not known:
        raise OptionError(f"--what-if {scenario!r}: there are no scenarios for {instance.kind}")
    made = instance
    for change in scenario.split(","):
        key, sign, value = change.strip().partition("=")
        if not sign or key not in known or not value:
            usages = ", ".join(each.usage for each in known.values()) or "none"
            raise OptionError(f"--what-if {scenario!r}: {shown(change)} is no change; there are: {usages}")
        try:
            made = made.replace(**known[key].fields(made, value))
        except OptionError as error:
            raise OptionError(f"--what-if {scenario!r}: {error}") from None
        except InstanceError as error:
            raise OptionError(f"--what-if {scenario!r} makes no valid instance: {error}") from None
    return made


def rows_of(instance: Instance, field: str) -> list[dict[str, Any]]:
    """Return the rows of a list of the document as plain data."""
    rows = instance.model_dump(mode="json", exclude_none=True, include={field})[field]
    return [dict(row) for row in rows]


def matching(pattern: str, names: Iterable[str], what: str) -> set[str]:
    """Return the names that a pattern such as `gpu-0*` matches; one that is written in full is itself.

    Raises
    ------
    OptionError
        If there is none.
    """
    there = dict.fromkeys(names)
    found = {pattern} if pattern in there else set(fnmatch.filter(there, pattern))
    if not found:
        raise OptionError(f"there is no {what} {shown(pattern)}; there are: {listed(list(there))}")
    return found


def times(text: str) -> tuple[int, str]:
    """Return number and name of `2xh100`; without a number it is 1.

    Raises
    ------
    OptionError
        If the number is 0.
    """
    found = _TIMES.fullmatch(text)
    assert found is not None
    count = int(found[1] or 1)
    if not count:
        raise OptionError(f"{shown(text)} adds nothing; write a number above 0, such as 2x{found[2]}")
    return count, found[2]


def fresh_names(count: int, like: str, taken: Iterable[str]) -> list[str]:
    """Return names after an existing one that nobody has."""
    known, made, number = set(taken), list[str](), 0
    while len(made) < count:
        number += 1
        if (name := f"{like}-added-{number}") not in known:
            made.append(name)
    return made


def amount(text: str, now: float | None) -> float | None:
    """Return a new amount: `32`, or `+8`, `-4` and `-20%` from what is now; `none` is no limit.

    Raises
    ------
    OptionError
        If it is none of these, negative, or a difference to no limit.
    """
    if text == "none":
        return None
    found = _AMOUNT.fullmatch(text)
    if found is None:
        raise OptionError(f"{shown(text)} is no amount; write 32, +8, -4, -20% or none")
    sign, number, of_now = found[1], float(found[2]), bool(found[3])
    if not sign and not of_now:
        return number
    if now is None:
        raise OptionError(f"{shown(text)} is a difference, and there is no limit now; write an amount")
    difference = number * now / 100 if of_now else number
    changed = difference if not sign else now + difference if sign == "+" else now - difference
    if changed < 0:
        raise OptionError(f"{shown(text)} of {now:g} would be {changed:g}; 0 is the least")
    return changed


def named_amount(text: str) -> tuple[str, str]:
    """Return name and amount of `NAME:AMOUNT`.

    Raises
    ------
    OptionError
        If it has no colon.
    """
    name, colon, value = text.rpartition(":")
    if not colon:
        raise OptionError(f"{shown(text)} has no amount; write NAME:AMOUNT")
    return name, value


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
