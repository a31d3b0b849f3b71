"""Recorded outcomes: cases, where their outcomes are stored, and in what two outcomes differ."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
GIVEN, OUTCOMES = HERE / "given", HERE / "outcomes"
ROUNDING = 1e-9
"""Numbers that differ by less, relatively, are equal."""

Outcome = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One call whose outcome is recorded.

    Attributes
    ----------
    name
        Unique within its part, such as ``consolidation/generated-17/exact``.
    outcome
        Computes field → value, as plain data; a text of several lines is a list of lines.
    quick
        Whether `make test` compares it too, and not only `make slow`.
    possible
        Whether what it needs is installed; if not, it is neither compared nor recorded anew.
    """

    name: str
    outcome: Callable[[], Outcome]
    quick: bool = False
    possible: bool = True


class Absent:
    """Stands for a field that only the other outcome has."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT = Absent()


@dataclass(frozen=True)
class Difference:
    """A field whose value is not the recorded one.

    Attributes
    ----------
    place
        File, case and field, such as ``solves.json: staging/heterps-ctr/exact: objectives[0].value``.
    recorded, now
        The two values; `ABSENT` where there is none.
    """

    place: str
    recorded: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.place}: recorded {_short(self.recorded)}, now {_short(self.now)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:200]} … {text[-60:]}"


def differences(recorded: Any, now: Any, place: str) -> Iterator[Difference]:
    """Yield the innermost fields in which two values differ; of two lists, only the first entry."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        for key in sorted(recorded.keys() | now.keys()):
            inner = f"{place}.{key}" if not place.endswith(": ") else f"{place}{key}"
            yield from differences(recorded.get(key, ABSENT), now.get(key, ABSENT), inner)
    elif isinstance(recorded, list) and isinstance(now, list):
        for index in range(max(len(recorded), len(now))):
            pair = (values[index] if index < len(values) else ABSENT for values in (recorded, now))
            found = list(differences(*pair, f"{place}[{index}]"))
            if found:
                # The rest of a text is shifted where a line is new: one place says enough.
                yield from found
                break
    elif not _equal(recorded, now):
        yield Difference(place.removesuffix(": "), recorded, now)


def _equal(one: Any, other: Any) -> bool:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (one, other))
    if numbers:
        return math.isclose(one, other, rel_tol=ROUNDING, abs_tol=1e-12)
    return type(one) is type(other) and bool(one == other)


def stored(part: str) -> dict[str, Outcome]:
    """Return the recorded outcomes of a part by case; none if it was never recorded."""
    path = OUTCOMES / f"{part}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def store(part: str, outcomes: Mapping[str, Outcome]) -> None:
    """Write the outcomes of a part, a line for each value, so that version control shows what changed."""
    OUTCOMES.mkdir(exist_ok=True)
    text = json.dumps(outcomes, indent=1, sort_keys=True, ensure_ascii=False)
    (OUTCOMES / f"{part}.json").write_text(text + "\n", encoding="utf-8")


def given(name: str) -> dict[str, Any]:
    """Return what goes into the cases of a part: the contents of a file in `given`, packed or not."""
    packed = GIVEN / f"{name}.json.gz"
    if packed.is_file():
        return json.loads(gzip.decompress(packed.read_bytes()))
    return json.loads((GIVEN / f"{name}.json").read_text(encoding="utf-8"))


def outcomes_of(cases: Iterable[Case]) -> dict[str, Outcome]:
    """Return the outcomes of cases, as they would be read from where they are stored."""
    return {case.name: json.loads(json.dumps(case.outcome())) for case in cases}


def changes(part: str, recorded: Mapping[str, Outcome], now: Mapping[str, Outcome]) -> list[Difference]:
    """Return in what the outcomes of cases differ from those recorded, by file, case and field."""
    return [
        difference
        for name in sorted(recorded.keys() | now.keys())
        for difference in differences(
            recorded.get(name, ABSENT), now.get(name, ABSENT), f"{part}.json: {name}: "
        )
    ]
