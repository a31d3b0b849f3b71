"""Reading YAML from files that nobody vouches for: plain data, with the numbers and truth values of YAML 1.2.

The parser of PyYAML takes text apart into events; what becomes of them is decided here. So nesting is
known before it is deep, where PyYAML's own loader runs for minutes and then out of the stack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from ..common.printable import shown
from .json_reading import whole
from .limits import DEEPEST, MOST_VALUES

HAS_C = hasattr(yaml, "CSafeLoader")
_Loader: Any = yaml.CSafeLoader if HAS_C else yaml.SafeLoader
_TAG = "tag:yaml.org,2002:"
TOO_DEEP = "maximum nesting depth"
"""What the parser says of nesting that it does not follow."""

RESOLVERS = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
)
"""What plain scalars mean: kind, pattern, first characters (\\0 stands for the empty scalar).

1e-3 is a number, and `no`, `on` or 2024-01-01 are text, as YAML 1.2 has it.
"""


def add_resolvers(dumper: Any) -> None:
    """Make a dumper quote text that stands for something else here."""
    for kind, pattern, first in RESOLVERS:
        firsts = ["" if character == "\0" else character for character in first]
        dumper.add_implicit_resolver(f"{_TAG}{kind}", re.compile(rf"^(?:{pattern})$"), firsts)


_MEANINGS: dict[str, Callable[[str], Any]] = {
    "bool": lambda text: text.lower() == "true",
    "int": whole,
    "float": lambda text: float(text.lower().replace(".inf", "inf").replace(".nan", "nan")),
    "null": lambda _: None,
    "str": str,
}
_BY_FIRST: dict[str, list[tuple[re.Pattern[str], Callable[[str], Any]]]] = {}
for _kind, _pattern, _first in RESOLVERS:
    for _character in _first:
        _key = "" if _character == "\0" else _character
        _BY_FIRST.setdefault(_key, []).append((re.compile(_pattern), _MEANINGS[_kind]))


def parse_yaml(text: str) -> Any:
    """Return the data of a YAML text that holds one document.

    Raises
    ------
    yaml.YAMLError
        If it is malformed, repeats a key, or has a tag or key that is no plain data.
    RecursionError
        If it is nested too deeply.
    ValueError
        If it holds too much once its aliases are written out, or an alias refers to itself.
    """
    events = yaml.parse(text, Loader=_Loader)
    data: Any = None
    found = 0
    try:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                found += 1
                if found > 1:
                    raise _error("holds a second document; each file holds one", event)
                data = _Document(events).root()
    except yaml.MarkedYAMLError as error:
        # The parser looks ahead, and from libyaml 0.2.6 on it has a limit of its own, which is higher.
        if TOO_DEEP in str(error.problem):
            raise RecursionError from None
        raise
    return data


def _error(problem: str, event: yaml.Event) -> yaml.MarkedYAMLError:
    mark: Any = event.start_mark  # the C loader has marks of its own, which say the same
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


class _Document:
    """The data of one document, made while its events come in.

    Parameters
    ----------
    events
        From the first of the document's root on.
    """

    def __init__(self, events: Iterator[yaml.Event]) -> None:
        self._events = events
        # Data and how many values it has; None while it is open.
        self._anchors: dict[str, tuple[Any, int] | None] = {}
        self._values = 0

    def root(self) -> Any:
        """Return what the document holds."""
        return self._value(next(self._events), 0)

    def _value(self, event: Any, depth: int) -> Any:
        before = self._values
        self._values += 1
        if isinstance(event, yaml.ScalarEvent):
            data = _scalar(event)
        elif isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        else:
            if depth == DEEPEST:
                raise RecursionError
            if event.anchor is not None:
                # Still open: an alias in it would refer to itself.
                self._anchors[event.anchor] = None
            sequence = isinstance(event, yaml.SequenceStartEvent)
            data = (self._list if sequence else self._mapping)(event, depth + 1)
        if event.anchor is not None:
            self._anchors[event.anchor] = data, self._values - before
        if self._values > MOST_VALUES:
            raise ValueError(f"holds more than {MOST_VALUES:,} values once its aliases are written out")
        return data

    def _alias(self, event: Any) -> Any:
        if event.anchor not in self._anchors:
            raise _error(f"found undefined alias {shown(event.anchor)}", event)
        known = self._anchors[event.anchor]
        if known is None:
            raise ValueError("an alias refers to itself")
        self._values += known[1] - 1
        return known[0]

    def _list(self, event: yaml.SequenceStartEvent, depth: int) -> list[Any]:
        _check_tag(event, "seq")
        found = []
        while not isinstance(following := next(self._events), yaml.SequenceEndEvent):
            found.append(self._value(following, depth))
        return found

    def _mapping(self, event: yaml.MappingStartEvent, depth: int) -> dict[Any, Any]:
        _check_tag(event, "map")
        found: dict[Any, Any] = {}
        while not isinstance(following := next(self._events), yaml.MappingEndEvent):
            key = self._value(following, depth)
            if not isinstance(key, str | int | float | bool | None):
                raise _error("a key is not plain text", following)
            if key == "<<" and getattr(following, "implicit", (False,))[0]:
                raise _error("merge keys (<<) are not read; write the fields out", following)
            if key in found:
                raise _error(f"the key {shown(key)} stands twice; each key may stand once", following)
            found[key] = self._value(next(self._events), depth)
        return found


def _scalar(event: yaml.ScalarEvent) -> Any:
    text: str = event.value
    if event.tag is None or event.tag == "!":
        if event.implicit[0]:
            for pattern, meaning in _BY_FIRST.get(text[:1], ()):
                if pattern.fullmatch(text):
                    return meaning(text)
        return text
    kind = event.tag.removeprefix(_TAG)
    if kind == "str":
        return text
    if not any(name == kind for name, _, _ in RESOLVERS):
        raise _error(f"has the tag {shown(event.tag)}, which means nothing here", event)
    if not any(name == kind and re.fullmatch(pattern, text) for name, pattern, _ in RESOLVERS):
        raise _error("holds a value that does not fit its tag", event)
    return _MEANINGS[kind](text)


def _check_tag(event: yaml.CollectionStartEvent, kind: str) -> None:
    if event.tag not in (None, "!", f"{_TAG}{kind}"):
        raise _error(f"has the tag {shown(event.tag)}, which means nothing here", event)
