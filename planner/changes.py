"""Changes of instances and plans: scenarios of a what-if question, and the differences between two plans.

A scenario is written `KEY=VALUE,KEY=VALUE`; each kind says which keys it has and applies them to its
documents. Differences are those between two plans, or between the current state and a plan.
"""

from __future__ import annotations

import fnmatch
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..formulations.common.objective import agree
from ..instances.common.base import Instance
from ..instances.common.errors import InstanceError, OptionError, shown
from ..instances.common.fields import Fields
from .reports.text import TextColumn, counted, listed, number_column, plain_column, short

_TIMES = re.compile(r"(?:(\d{1,7})[x×])?(.+)", re.S)
_AMOUNT = re.compile(r"([+-]?)(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)(%?)")


@dataclass(frozen=True)
class ScenarioChange:
    """A type of change that scenarios may contain, such as draining a server.

    Attributes
    ----------
    usage
        Syntax of the change, such as `drain=SERVER`.
    fields
        Returns the changed fields of the document, given an instance and the text after the sign.
    """

    usage: str
    fields: Callable[[Any, str], Mapping[str, Any]]


def changed_instance(instance: Instance, scenario: str, known: Mapping[str, ScenarioChange]) -> Instance:
    """Return a copy of the instance, with the comma-separated changes of a scenario applied in order.

    Raises
    ------
    OptionError
        If a change is unknown, names something that does not exist, or makes the instance invalid.
    """
    if not known:
        raise OptionError(f"scenario {scenario!r}: there are no scenarios for {instance.kind}")
    made = instance
    for change in scenario.split(","):
        key, sign, value = change.strip().partition("=")
        if not sign or key not in known or not value:
            usages = ", ".join(each.usage for each in known.values())
            raise OptionError(f"scenario {scenario!r}: {shown(change)} is no change; there are: {usages}")
        try:
            made = made.replace(**known[key].fields(made, value))
        except OptionError as error:
            raise OptionError(f"scenario {scenario!r}: {error}") from None
        except InstanceError as error:
            raise OptionError(f"scenario {scenario!r} makes no valid instance: {error}") from None
    return made


def rows_of(instance: Instance, field: str) -> dict[str, Fields]:
    """Return the entries of a list field of the instance document, such as `jobs`, by name."""
    rows = instance.model_dump(mode="json", exclude_none=True, include={field})[field]
    return {row["name"]: dict(row) for row in rows}


def matching(pattern: str, names: Iterable[str], what: str) -> set[str]:
    """Return the name equal to a pattern, else all names that match it as a glob, such as `gpu-0*`.

    Raises
    ------
    OptionError
        If there is none.
    """
    known = dict.fromkeys(names)
    matches = {pattern} if pattern in known else set(fnmatch.filter(known, pattern))
    if not matches:
        raise OptionError(f"there is no {what} {shown(pattern)}; there are: {listed(list(known))}")
    return matches


def without_jobs(instance: Instance, pattern: str) -> Fields:
    """Return the changed list of jobs, without those that match a pattern."""
    rows = rows_of(instance, "jobs")
    gone = matching(pattern, rows, "job")
    return {"jobs": [row for name, row in rows.items() if name not in gone]}


REMOVE_JOB = ScenarioChange("remove=JOB", without_jobs)


def count_and_name(text: str) -> tuple[int, str]:
    """Return the count and the name in a text such as `2xh100`; the count defaults to 1.

    Raises
    ------
    OptionError
        If the number is 0.
    """
    match = _TIMES.fullmatch(text)
    assert match is not None
    count = int(match[1] or 1)
    if not count:
        raise OptionError(f"{shown(text)} adds nothing; write a number above 0, such as 2x{match[2]}")
    return count, match[2]


def fresh_names(count: int, like: str, taken: Iterable[str]) -> list[str]:
    """Return unused names derived from an existing one, such as `gpu-added-1`."""
    known = set(taken)
    names = (f"{like}-added-{number}" for number in itertools.count(1))
    return list(itertools.islice(itertools.filterfalse(known.__contains__, names), count))


def amount(text: str, now: float | None) -> float | None:
    """Parse an amount: absolute (`32`), relative to the current one (`+8`, `-20%`), or `none` (None).

    Raises
    ------
    OptionError
        If it is none of these, negative, or a difference to no limit.
    """
    if text == "none":
        return None
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise OptionError(f"{shown(text)} is no amount; write 32, +8, -4, -20% or none")
    sign, number, of_now = match[1], float(match[2]), bool(match[3])
    if not sign and not of_now:
        return number
    if now is None:
        raise OptionError(f"{shown(text)} is a difference, and there is no limit now; write an amount")
    difference = number * now / 100 if of_now else number
    changed = difference if not sign else now + difference if sign == "+" else now - difference
    if changed < 0:
        raise OptionError(f"{shown(text)} of {now:g} would be {changed:g}; 0 is the least")
    return changed


def of_field(usage: str, field: str) -> ScenarioChange:
    """Return the change of an amount that a field of the document holds, such as a budget."""
    return ScenarioChange(usage, lambda instance, text: {field: amount(text, getattr(instance, field))})


def of_resource(name: str, usage: str) -> ScenarioChange:
    """Return the change of the amount of a resource; `none` is no amount."""

    def fields(instance: Any, text: str) -> Fields:
        new = amount(text, instance.resources[name])
        if new is None:
            raise OptionError(f"{name}={text}: a cluster has so many of them; write 32, +8, -4 or -20%")
        return {"resources": {**instance.resources, name: new}}

    return ScenarioChange(usage, fields)


def of_rows(usage: str, rows: str, noun: str, field: str, current: str | None = None) -> ScenarioChange:
    """Return the change `NAME:AMOUNT` of an amount of the rows that a name or a pattern means.

    Parameters
    ----------
    rows, field
        List field of the document, and field of its rows.
    noun
        Noun of a row in messages.
    current
        Attribute with the amount now; by default that of the field.

    Raises
    ------
    OptionError
        If the text has no colon.
    """

    def fields(instance: Any, text: str) -> Fields:
        pattern, colon, value = text.rpartition(":")
        if not colon:
            raise OptionError(f"{shown(text)} has no amount; write NAME:AMOUNT")
        made = rows_of(instance, rows)
        chosen = matching(pattern, made, noun)
        for one in getattr(instance, rows):
            if one.name in chosen:
                made[one.name][field] = amount(value, getattr(one, current or field))
        return {rows: [*made.values()]}

    return ScenarioChange(usage, fields)


@dataclass(frozen=True)
class Change:
    """A job or stage that differs between two plans.

    Attributes
    ----------
    action
        Action to take, such as `start`, `move` or `stop`.
    before, after
        Where or on what it runs; empty if it does not run.
    """

    name: str
    action: str
    before: str
    after: str


@dataclass(frozen=True)
class Amount:
    """An amount in use before and after a change, such as GPUs or USD per hour.

    Attributes
    ----------
    total
        The capacity.
    note
        What is to become of the server, in a few words.
    """

    name: str
    before: float
    after: float
    total: float | None = None
    note: str = ""

    @property
    def differs(self) -> bool:
        """Whether the amounts differ by more than the rounding tolerance."""
        return not agree(self.before, self.after)


@dataclass(frozen=True)
class Changes:
    """All differences between two plans.

    Attributes
    ----------
    unit
        Noun for the entries compared, such as `job`.
    changes
        The jobs or stages that differ.
    stay, wait
        Numbers of entries that stay unchanged, and that run neither before nor after.
    amounts
        Totals, changed or not, the most important first.
    places
        Servers whose use of the leading resource changes.
    place
        Title of these amounts, such as `gpu on server`.
    notes
        Remarks on the changes, such as what is assumed about these jobs.
    """

    unit: str
    changes: Sequence[Change]
    stay: int
    wait: int
    amounts: Sequence[Amount]
    places: Sequence[Amount] = ()
    place: str = ""
    notes: Sequence[str] = ()

    def headline(self) -> str:
        """Return a sentence with the number of jobs or stages by action, such as start or move."""
        counts = Counter(change.action for change in self.changes) + Counter(stay=self.stay, wait=self.wait)
        (action, count), *others = sorted(counts.items(), key=lambda item: ORDER.index(item[0]))
        first = f"{counted(count, self.unit)} {action}{'s' if count == 1 else ''}"
        return ", ".join([first, *(counted(count, f"{action}s", action) for action, count in others)])

    def sentences(self) -> Iterator[str]:
        """Yield a line of text for each total amount, before and after."""
        for amount in self.amounts:
            of = "" if amount.total is None else f" of {short(amount.total)}"
            before = f"{short(amount.before)} → " if amount.differs else ""
            yield f"{amount.name}: {before}{short(amount.after)}{of}"

    def answer(self) -> str:
        """Return a one-sentence summary of the changes: the headline and the first total amount."""
        return f"{'; '.join([self.headline(), *itertools.islice(self.sentences(), 1)])}."


def amounts_in_use(
    lead: str, before: Mapping[str, float], after: Mapping[str, float], totals: Mapping[str, float]
) -> list[Amount]:
    """Return how much of each resource is in use before and after, the leading resource first."""
    order = sorted(totals, key=lambda name: name != lead)
    return [Amount(f"{name} in use", before[name], after[name], totals[name]) for name in order]


def leading_resource(resources: Iterable[str]) -> str:
    """Return the name of the resource shown first: GPUs under any of their names, else the first one."""

    def rank(name: str) -> tuple[bool, bool]:
        return "gpu" not in name.lower(), "mig" not in name.lower()

    return min(resources, key=rank)


ORDER = ("start", "move", "change", "stop", "stay", "wait")
"""Order of the actions in a headline."""


def change_columns(unit: str) -> list[TextColumn[Change]]:
    """Return the columns of the text table of what differs between two plans, such as jobs."""
    return [
        plain_column(unit, "name"),
        plain_column("action", "action"),
        plain_column("from", "before"),
        plain_column("to", "after"),
    ]


def place_columns(what: str) -> list[TextColumn[Amount]]:
    """Return the columns of the text table of amounts in use on each server, before and after."""
    return [
        (what, False, lambda amount: ", ".join(filter(None, (amount.name, amount.note)))),
        number_column("before", "before"),
        number_column("after", "after"),
        number_column("of", "total"),
    ]


def changes_of(
    unit: str,
    move: str,
    before: Mapping[str, str],
    after: Mapping[str, str],
    amounts: Sequence[Amount],
    known: int | None = None,
    **more: Any,
) -> Changes:
    """Return the differences between two plans, given as mappings of job to place.

    Parameters
    ----------
    move
        Action of an entry that runs before and after, but elsewhere.
    before, after
        Place of each running entry by name.
    known
        Number of all entries, of which some may run neither before nor after; by default all run.
    more
        Further fields.
    """
    changes, all_entries = [], dict.fromkeys((*before, *after))
    for name in all_entries:
        old, new = before.get(name, ""), after.get(name, "")
        if old != new:
            changes.append(Change(name, move if old and new else "start" if new else "stop", old, new))
    wait = 0 if known is None else known - len(all_entries)
    return Changes(unit, changes, len(all_entries) - len(changes), wait, amounts, **more)
