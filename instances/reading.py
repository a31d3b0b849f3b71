"""Reading untrusted files into plain data: YAML and JSON documents, CSV tables (`tables` reads Parquet)."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import yaml

from .errors import Fault, InstanceError
from .fields import Cell

MOST_BYTES = 2**30
MOST_NODES = 20_000_000
DEEPEST = 20
"""Most levels that a column name may lead down."""
DOCUMENT_SUFFIXES = (".yaml", ".yml", ".json")
TABLE_SUFFIXES = (".csv", ".parquet")

_BaseLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _StrictLoader(_BaseLoader):  # type: ignore[misc]
    """Safe YAML loader with the numbers and truth values of YAML 1.2, that refuses repeated keys."""

    # 1e-3 is a number, and `no`, `on` or 2024-01-01 are text, as YAML 1.2 has it.
    yaml_implicit_resolvers: dict[str | None, list[tuple[str, re.Pattern[str]]]] = {}

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str | int | float | bool | None):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key is not plain text", key_node.start_mark
                )
            if key == "<<" and key_node.style is None:
                problem = "merge keys (<<) are not read; write the fields out"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            if key in seen:
                problem = f"the key {key!r} stands twice; each key may stand once"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            seen.add(key)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


RESOLVERS = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
)
"""What plain scalars mean: kind, pattern, first characters (\\0 stands for the empty scalar)."""


def add_resolvers(target: Any) -> None:
    """Give a loader or dumper our reading of plain scalars, beside what it knows already."""
    for kind, pattern, first in RESOLVERS:
        firsts = ["" if character == "\0" else character for character in first]
        target.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(rf"^(?:{pattern})$"), firsts)


def _whole(text: str) -> int | float:
    """Return a whole number; one with absurdly many digits is infinite, which the field then refuses."""
    return int(text) if len(text) < 400 else float("-inf" if text.startswith("-") else "inf")


add_resolvers(_StrictLoader)
_KNOWN_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("bool", "float", "null", "str", "seq", "map")}
_StrictLoader.yaml_constructors = {
    tag: constructor
    for tag, constructor in _BaseLoader.yaml_constructors.items()
    if tag is None or tag in _KNOWN_TAGS
}
_StrictLoader.add_constructor(
    "tag:yaml.org,2002:int", lambda loader, node: _whole(loader.construct_scalar(node))
)


def fail(source: str, what: str, path: str = "") -> InstanceError:
    """Return an error that holds a single fault."""
    return InstanceError([Fault(source, path, what)])


def checked_file(path: Path, source: str) -> None:
    """Make sure that a path is a regular file of at most 1 GiB.

    Raises
    ------
    InstanceError
        If it is not.
    """
    try:
        if path.is_dir():
            raise fail(source, "is a folder; give a file")
        if path.exists() and not path.is_file():
            raise fail(source, "is a device or pipe; give a regular file")
        if path.stat().st_size > MOST_BYTES:
            raise fail(source, "is larger than 1 GiB; split it")
    except FileNotFoundError:
        raise fail(source, "there is no such file") from None
    except (OSError, ValueError) as error:
        raise fail(source, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None


def read_bytes(path: Path, source: str) -> bytes:
    """Return the bytes of a file.

    Raises
    ------
    InstanceError
        If the file is missing, unreadable or larger than 1 GiB.
    """
    checked_file(path, source)
    try:
        return path.read_bytes()
    except OSError as error:
        raise fail(source, f"cannot be read: {error.strerror or error}") from None


def text_of(raw: bytes, source: str) -> str:
    """Return bytes as text.

    Raises
    ------
    InstanceError
        If they are empty or not UTF-8 text.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise fail(source, "is not text (UTF-8); a YAML, JSON or CSV file is needed") from None
    if "\0" in text:
        raise fail(source, "is a binary file; a YAML, JSON or CSV file is needed")
    if not text.strip():
        raise fail(source, "is empty")
    return text


def read_text(path: Path, source: str | None = None) -> str:
    """Return the text of a file.

    Raises
    ------
    InstanceError
        If the file is missing, unreadable, empty, larger than 1 GiB or not UTF-8 text.
    """
    source = source or str(path)
    return text_of(read_bytes(path, source), source)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} stands twice; each key may stand once")
    return mapping


def _parse_json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_unique_keys, parse_int=_whole)


def _parse_yaml(text: str) -> Any:
    return yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - a subclass of the safe loader


def _size(data: Any) -> int:
    """Count the values of a document with aliases written out; raise where one holds itself."""
    sizes: dict[int, int] = {}

    def measure(value: Any) -> int:
        if not isinstance(value, dict | list):
            return 1
        known = sizes.get(id(value))
        if known is not None:
            if known < 0:
                raise ValueError("an alias refers to itself")
            return known
        sizes[id(value)] = -1
        children = value.values() if isinstance(value, dict) else value
        sizes[id(value)] = 1 + sum(map(measure, children))
        return sizes[id(value)]

    return measure(data)


def parse_document(text: str, source: str, suffix: str) -> Any:
    """Return the data of a YAML or JSON text.

    Raises
    ------
    InstanceError
        If the text is malformed, repeats a key, nests too deeply or grows too large through aliases.
    """
    parse: Callable[[str], Any] = _parse_json if suffix == ".json" else _parse_yaml
    try:
        data = parse(text)
        if _size(data) > MOST_NODES:
            raise fail(source, f"holds more than {MOST_NODES:,} values once its aliases are written out")
    except RecursionError:
        raise fail(source, "is nested too deeply") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise fail(source, f"is not valid JSON: {error.msg}", where) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise fail(source, f"is not valid YAML: {error.problem}", where) from None
    except yaml.YAMLError as error:
        raise fail(source, f"is not valid YAML: {error}") from None
    except ValueError as error:
        raise fail(source, str(error)) from None
    except (KeyError, AttributeError, TypeError) as error:
        # PyYAML's constructors fail so on a tag that does not fit its value, such as !!bool abc.
        raise fail(source, f"holds a value that does not fit its tag: {error}") from None
    return data


def _place(row: dict[Any, Any], path: list[str], cell: Cell) -> None:
    """Put a cell where its column name, a path such as ``variants.0.speed.theta.2``, says."""
    here: Any = row
    for step, following in zip(path, [*path[1:], None], strict=True):
        if following is None:
            here[step] = cell
        else:
            here = here.setdefault(step, {})
            if not isinstance(here, dict):
                raise KeyError(step)


def _lists(value: Any) -> Any:
    """Turn mappings whose keys are 0, 1, 2, … into lists."""
    if not isinstance(value, dict):
        return value
    if value and set(value) == {str(index) for index in range(len(value))}:
        return [_lists(value[str(index)]) for index in range(len(value))]
    return {key: _lists(item) for key, item in value.items()}


def check_header(header: list[str], source: str, where: str = "line 1") -> None:
    """Make sure that columns have names of their own.

    Raises
    ------
    InstanceError
        If one has no name or another one's, or a name leads down too many levels.
    """
    if max((name.count(".") for name in header), default=0) > DEEPEST:
        raise fail(source, f"has a column name with more than {DEEPEST} dots", where)
    if len(set(header)) < len(header) or "" in header:
        raise fail(source, "has a column without a name, or two of the same name", where)


def nested_row(
    cells: Iterable[tuple[str, list[str], Any]], source: str, where: str = "line 1"
) -> dict[str, Any]:
    """Return the filled cells of a row, each with its column's name and path, as a mapping of fields.

    Raises
    ------
    InstanceError
        If a cell stands where another column has fields.
    """
    row: dict[Any, Any] = {}
    for name, path, cell in cells:
        try:
            _place(row, path, cell)
        except (KeyError, TypeError):
            raise fail(source, f"column {name!r} clashes with another column", where) from None
    nested: dict[str, Any] = _lists(row)
    return nested


def numbered_rows(text: str, source: str) -> tuple[list[str], list[tuple[int, dict[str, Cell]]]]:
    """Return the columns of a CSV text, and the filled cells of each row with the number of its line.

    Raises
    ------
    InstanceError
        If the table has no rows, a repeated column, or a row of another length.
    """
    try:
        reader = csv.reader(io.StringIO(text), strict=True)
        lines = [(reader.line_num, cells) for cells in reader if cells]
    except csv.Error as error:
        raise fail(source, f"is not valid CSV: {error}") from None
    header, rows = [name.strip() for name in lines[0][1]], lines[1:]
    if not rows:
        raise fail(source, "has a header but no rows")
    check_header(header, source)
    faults = [
        Fault(source, f"line {number}", f"has {len(cells)} cells; the header has {len(header)}")
        for number, cells in rows
        if len(cells) != len(header)
    ]
    if faults:
        raise InstanceError(faults)
    return header, [
        (number, {name: Cell(cell.strip()) for name, cell in zip(header, cells, strict=True) if cell.strip()})
        for number, cells in rows
    ]


def parse_table(text: str, source: str) -> list[dict[str, Any]]:
    """Return the rows of a CSV text.

    The first line names the columns; a dot in a name leads into a nested field (``compute_s.V100``), a
    number into a list (``variants.0.name``). An empty cell is a field that is not given.

    Raises
    ------
    InstanceError
        If the table has no rows, a repeated or clashing column, or a row of another length.
    """
    header, rows = numbered_rows(text, source)
    paths = {name: name.split(".") for name in header}
    return [nested_row(((n, paths[n], cell) for n, cell in cells.items()), source) for _, cells in rows]
