"""Scenarios of a what-if question: changes of an instance, as `KEY=VALUE,KEY=VALUE`."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..instances.common.base import Instance
from ..instances.common.errors import InstanceError, OptionError
from ..instances.common.printable import shown
from .reports.text import listed

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
