"""Reading of untrusted files (text, gzip, JSON, YAML) within limits on size, depth and memory.

The limits were measured: hostile files of 50 MB are answered within 5 s and 500 MB. The reference of
documents lists them. A gzip file is unpacked up to a limit, because a small one may hold more than fits
into memory. The memory that JSON takes is estimated before it is parsed.

YAML is plain data, with the numbers and truth values of YAML 1.2. PyYAML's parser yields events, from which
the data are built here, so that nesting too deep is refused early; PyYAML's own loader runs for minutes and
then out of the stack.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import yaml

from ..common.errors import Fault, InstanceError, shown

MAX_BYTES = 2**30
"""Size limit of any file."""
MAX_UNPACKED_BYTES = 2**26
"""Size limit of an unpacked file."""
MAX_YAML_BYTES = 2**21
MAX_YAML_BYTES_SLOW = 2**17
"""Size limit of YAML if PyYAML has no C library."""
DEEPEST = 100
"""Depth limit of nested lists and mappings."""
MAX_VALUES = 1_000_000
"""Limit of the values of a document, aliases expanded; larger ones keep their lists in tables."""
MAX_MEMORY, PER_BYTE = 350_000_000, 7
"""Memory limit of parsed JSON in bytes: the larger of a constant and a multiple of the text's size."""
MAX_ENTRIES = 100_000
"""Limit of the entries of a list inside a document, rather than in a table."""

MAX_COLUMNS = 5_000
DEEPEST_COLUMN = 20
"""Limit of the dots in the name of a column."""
LONGEST_ROW = 2**22
"""Limit of the characters of one row of a CSV file."""
MAX_ROWS, MAX_CELLS = 2_000_000, 100_000_000
"""Limits of a table."""
MAX_SMALL_ROWS, MAX_SMALL_CELLS = 500_000, 1_000_000
"""Limits of a table that is read row by row; empty cells do not count."""
MAX_OBJECT_CELLS = 20_000_000
"""Limit of the filled cells of a table whose rows become one object each."""
LONGEST_TEXT = 40_000
"""Limit of the bytes of a cell of text; no field allows a longer one."""
MAX_TABLE_BYTES = 2**29
"""Memory limit of a Parquet table in bytes."""


IS_NO_INSTANCE = "is a {} of clusterplan, not an instance; {} take it after its instance"
RESULT = IS_NO_INSTANCE.format("result", "verify, diff, report and export-plan")
"""What is said of a file of results where an instance is wanted."""
HASH = "instance_sha256"
"""Field of results and frontiers that instances do not have."""


class PackingError(ValueError):
    """Compressed bytes that cannot be unpacked; the message says why."""


def unpacked(raw: bytes) -> bytes:
    """Return the content of bytes in gzip format.

    Raises
    ------
    PackingError
        If they are damaged, or their content is too large.
    """
    reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        content = reader.decompress(raw, MAX_UNPACKED_BYTES)
    except zlib.error:
        raise PackingError("is not in gzip's format, or damaged") from None
    if reader.unconsumed_tail:
        raise PackingError(f"holds more than {MAX_UNPACKED_BYTES:,} bytes; unpack it")
    if not reader.eof or reader.unused_data:
        raise PackingError("is cut short, or holds more than one file; unpack it")
    return content


FIRST_KEYS = 10_000
"""Characters whose keys are counted first."""
MANY_KEYS = 200_000
"""Number of distinct keys from which on the memory of their texts is counted."""
PER_VALUE, PER_OBJECT, PER_LIST, PER_NEW_KEY = 65, 65, 25, 170
"""Estimated bytes in Python for each value, and in addition for an object, a list and a distinct key."""
# An unclosed quoted text ends with the file, so that the search never starts again inside it.
_TEXT = re.compile(r'"((?:[^"\\]++|\\.)*+)(?:"(\s*+:)?|\\?\Z)', re.DOTALL)


class TooMuchError(ValueError):
    """A text whose data would take too much memory."""


class _TwiceError(ValueError):
    """A key that occurs twice in an object."""


def parse_json(text: str, most_values: int | None = None) -> Any:
    """Return the data of a JSON text.

    Parameters
    ----------
    most_values
        Limit of its values; by default as many as the memory limit for a text of its length allows.

    Raises
    ------
    ValueError
        If it is malformed (a `JSONDecodeError`), repeats a key, or is too large.
    RecursionError
        If it is nested too deeply.
    """
    check_size(text, most_values)
    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except (_TwiceError, json.JSONDecodeError):
        raise
    except ValueError:  # a number with more digits than Python reads at once
        return json.loads(text, object_pairs_hook=unique_keys, parse_int=whole)


def whole(text: str) -> int | float:
    """Return a whole number; infinity for one with absurdly many digits, which every field refuses."""
    return int(text) if len(text) < 400 else float("-inf" if text.startswith("-") else "inf")


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these key-value pairs; refuse duplicate keys.

    Raises
    ------
    ValueError
        If a key occurs twice.
    """
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _TwiceError(f"the key {shown(key)} stands twice; each key may stand once")
            seen.add(key)
    return mapping


def check_size(text: str, most_values: int | None = None) -> None:
    """Check, before parsing, that the data of a JSON text fit into memory.

    Raises
    ------
    TooMuchError
        If they do not.
    """
    # Every value but the first follows a comma or bracket; those inside texts are counted too.
    objects, lists = text.count("{"), text.count("[")
    values = text.count(",") + objects + lists
    if most_values is not None and values > most_values:
        raise TooMuchError(
            f"holds about {values:,} values; at most {most_values:,} are read from a document: put its "
            "lists into CSV or Parquet tables"
        )
    # The memory that is left beside the text itself.
    room = max(MAX_MEMORY, PER_BYTE * len(text)) - (sys.getsizeof(text) - len(text))
    room -= PER_VALUE * values + PER_OBJECT * objects + PER_LIST * lists
    if room < 0 or (room < PER_NEW_KEY * text.count(":") and _has_many_keys(text)):
        raise TooMuchError(f"holds about {values:,} values, more than are read from a file of this size")


def _has_many_keys(text: str) -> bool:
    first = {match[1] for match in _TEXT.finditer(text[:FIRST_KEYS]) if match[2] is not None}
    others = text.count(":") - sum(text.count(f'"{key}":') for key in first)
    if len(first) + others <= MANY_KEYS:  # the rows of a long list have the same keys
        return False
    keys: set[str] = set()
    for match in _TEXT.finditer(text):
        if match[2] is not None:
            keys.add(match[1])
            if len(keys) > MANY_KEYS:
                return True
    return False


HAS_C = hasattr(yaml, "CSafeLoader")
_Loader: Any = yaml.CSafeLoader if HAS_C else yaml.SafeLoader
_TAG = "tag:yaml.org,2002:"
TOO_DEEP = "maximum nesting depth"
"""The parser's message on nesting beyond its limit."""

RESOLVERS = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
)
"""Types of plain scalars: name, pattern, first characters (\\0 stands for the empty scalar).

1e-3 is a number, and `no`, `on` or 2024-01-01 are text, as YAML 1.2 has it.
"""


def add_resolvers(dumper: Any) -> None:
    """Make a dumper quote text that would be read as a value of another type."""
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
        If it is malformed, repeats a key, or has a tag or key that is not plain data.
    RecursionError
        If it is nested too deeply.
    ValueError
        If it has too many values with aliases expanded, or an alias refers to itself.
    """
    events = yaml.parse(text, Loader=_Loader)
    data: Any = None
    documents = 0
    try:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _error("holds a second document; each file holds one", event)
                data = _Document(events).root()
    except yaml.MarkedYAMLError as error:
        # The parser reads ahead, and from libyaml 0.2.6 on it has its own, higher limit.
        if TOO_DEEP in str(error.problem):
            raise RecursionError from None
        raise
    return data


def _error(problem: str, event: yaml.Event) -> yaml.MarkedYAMLError:
    mark: Any = event.start_mark  # the C loader has marks of its own, which say the same
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


class _Document:
    """Builds the data of one YAML document from its events.

    Parameters
    ----------
    events
        The events from the document's root on.
    """

    def __init__(self, events: Iterator[yaml.Event]) -> None:
        self._events = events
        # Data and how many values it has; None while it is open.
        self._anchors: dict[str, tuple[Any, int] | None] = {}
        self._values = 0

    def root(self) -> Any:
        """Return the data of the document."""
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
        if self._values > MAX_VALUES:
            raise ValueError(f"holds more than {MAX_VALUES:,} values once its aliases are written out")
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
        entries = []
        while not isinstance(following := next(self._events), yaml.SequenceEndEvent):
            entries.append(self._value(following, depth))
        return entries

    def _mapping(self, event: yaml.MappingStartEvent, depth: int) -> dict[Any, Any]:
        _check_tag(event, "map")
        mapping: dict[Any, Any] = {}
        while not isinstance(following := next(self._events), yaml.MappingEndEvent):
            key = self._value(following, depth)
            if not isinstance(key, str | int | float | bool | None):
                raise _error("a key is not plain text", following)
            if key == "<<" and getattr(following, "implicit", (False,))[0]:
                raise _error("merge keys (<<) are not read; write the fields out", following)
            if key in mapping:
                raise _error(f"the key {shown(key)} stands twice; each key may stand once", following)
            mapping[key] = self._value(next(self._events), depth)
        return mapping


def _scalar(event: yaml.ScalarEvent) -> Any:
    text: str = event.value
    if event.tag is None or event.tag == "!":
        if event.implicit[0]:
            for pattern, meaning in _BY_FIRST.get(text[:1], ()):
                if pattern.fullmatch(text):
                    return meaning(text)
        return text
    kind = event.tag.removeprefix(_TAG)
    if kind not in _MEANINGS:
        raise _error(f"has the tag {shown(event.tag)}, which means nothing here", event)
    patterns = [pattern for name, pattern, _ in RESOLVERS if name == kind]
    if patterns and not any(re.fullmatch(pattern, text) for pattern in patterns):
        raise _error("holds a value that does not fit its tag", event)
    return _MEANINGS[kind](text)


def _check_tag(event: yaml.CollectionStartEvent, kind: str) -> None:
    if event.tag not in (None, "!", f"{_TAG}{kind}"):
        raise _error(f"has the tag {shown(event.tag)}, which means nothing here", event)


MAX_YAML = MAX_YAML_BYTES if HAS_C else MAX_YAML_BYTES_SLOW
DOCUMENT_SUFFIXES = (".yaml", ".yml", ".json")
TABLE_SUFFIXES = (".csv", ".parquet")


def fail(source: str, what: str, path: str = "") -> InstanceError:
    """Return an error with a single fault."""
    return InstanceError([Fault(source, path, what)])


def is_standard_input(path: Path) -> bool:
    """Return whether a path denotes standard input: ``-`` or ``/dev/stdin``."""
    return str(path) in ("-", "/dev/stdin")


def is_stream(path: Path) -> bool:
    """Return whether a path is standard input or a pipe, which can be read only once."""
    try:
        return is_standard_input(path) or path.is_fifo()
    except OSError:  # a name that is too long, or a folder that may not be entered
        return False


def checked_file(path: Path, source: str) -> None:
    """Check that a path is a regular file of at most 1 GiB, a pipe or standard input.

    Raises
    ------
    InstanceError
        If it is not.
    """
    try:
        if is_stream(path):
            return
        if path.is_dir():
            raise fail(source or "''", "is a folder; give a file")
        if path.exists() and not path.is_file():
            raise fail(source, "is a device; give a file, a pipe, or - for standard input")
        if path.stat().st_size > MAX_BYTES:
            raise fail(source, "is larger than 1 GiB; split it")
    except FileNotFoundError:
        raise fail(source, "there is no such file") from None
    except (OSError, ValueError) as error:
        raise fail(source, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None


def read_bytes(path: Path, source: str) -> bytes:
    """Return the bytes of a file, pipe or standard input.

    Raises
    ------
    InstanceError
        If the file is missing, unreadable or larger than 1 GiB.
    """
    checked_file(path, source)
    try:
        return _stream_bytes(path, source) if is_stream(path) else path.read_bytes()
    except OSError as error:
        raise fail(source, f"cannot be read: {error.strerror or error}") from None


def _stream_bytes(path: Path, source: str) -> bytes:
    """Return the bytes of a pipe or standard input, up to the size limit."""
    if not is_standard_input(path):
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    elif sys.stdin is None:
        raise fail(source, "standard input is closed; give a file")
    else:
        raw = sys.stdin.buffer.read(MAX_BYTES + 1)
        if not raw:
            raise fail(source, "standard input is empty, or was read already; - may stand once")
    if len(raw) > MAX_BYTES:
        raise fail(source, "is larger than 1 GiB; split it")
    return raw


def text_of(raw: bytes, source: str, errors: Literal["strict", "replace"] = "strict") -> str:
    """Return bytes decoded as UTF-8 text.

    Parameters
    ----------
    errors
        Whether bytes that are not UTF-8 are refused, or replaced by U+FFFD.

    Raises
    ------
    InstanceError
        If they are empty or not UTF-8 text.
    """
    if raw[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise fail(source, "is text in UTF-16; save it as UTF-8")
    try:
        text = raw.decode("utf-8-sig", errors)
    except UnicodeDecodeError as error:
        what = "is not text (UTF-8); a YAML, JSON or CSV file is needed"
        # A line number is of no use for a file that is no text at all, such as a picture.
        line = 1 + raw.count(b"\n", 0, error.start)
        raise fail(source, what, "" if b"\0" in raw else f"line {line}") from None
    if "\0" in text:
        raise fail(source, "is a binary file; a YAML, JSON or CSV file is needed")
    if not text.strip():
        raise fail(source, "is empty")
    return text


def read_text(path: Path, source: str | None = None, errors: Literal["strict", "replace"] = "strict") -> str:
    """Return the text of a file, unpacked if its name ends in ``.gz``; `errors` as in `text_of`.

    Raises
    ------
    InstanceError
        If the file is missing, unreadable, empty, too large or not UTF-8 text.
    """
    source = source or str(path)
    raw = read_bytes(path, source)
    try:
        return text_of(unpacked(raw) if path.suffix == ".gz" else raw, source, errors)
    except PackingError as error:
        raise fail(source, str(error)) from None


def parse_document(
    text: str, source: str, suffix: str, most_values: int | None = None, quoting: bool = True
) -> Any:
    """Return the data of a YAML or JSON text.

    Parameters
    ----------
    most_values
        Limit of the values of a JSON text; by default as many as the memory limit for its length allows.
    quoting
        Whether error messages may quote the text.

    Raises
    ------
    InstanceError
        If the text is malformed, repeats a key, nests too deeply or is too large.
    """
    if suffix != ".json" and len(text) > MAX_YAML:
        raise fail(
            source,
            f"is YAML of {len(text):,} characters; at most {MAX_YAML:,} are read: write it as JSON, or "
            "move its lists to CSV or Parquet tables",
        )
    try:
        return parse_json(text, most_values) if suffix == ".json" else parse_yaml(text)
    except RecursionError:
        raise fail(source, "is nested too deeply") from None
    except json.JSONDecodeError as error:
        if error.msg == "Extra data" and f'"{HASH}"' in text[: error.pos]:  # a result a line
            raise fail(source, RESULT) from None
        where = f"line {error.lineno}, column {error.colno}"
        raise fail(source, f"is not valid JSON: {error.msg}", where) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = f": {getattr(error, 'problem', error)}" if quoting else ""
        raise fail(source, f"is not valid YAML{problem}", where) from None
    except TooMuchError as error:
        raise fail(source, str(error)) from None
    except ValueError as error:
        raise fail(source, str(error) if quoting else "repeats a key, or an alias refers to itself") from None


def read_mapping(path: Path, otherwise: str = "is not a mapping") -> dict[str, Any]:
    """Return the mapping in a JSON file.

    Parameters
    ----------
    otherwise
        The error message for a file that holds something else.

    Raises
    ------
    InstanceError
        If the file cannot be read, or holds no mapping.
    """
    data = parse_document(read_text(path), str(path), ".json")
    if not isinstance(data, dict):
        raise fail(str(path), otherwise)
    return data
