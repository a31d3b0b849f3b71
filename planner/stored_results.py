"""Reading and verification of stored results and frontiers, from JSON files and batch journals.

The lines of a journal are JSON objects, each ending with a checksum of the text before it. The checksum
detects disk faults and edits. It is no signature: a deliberate change with a new checksum is found only by
`verify`, which derives every figure again.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from ..formulations.common.column_plan import ColumnPlan
from ..formulations.registry import KINDS as FORMULATIONS
from ..instances.common.base import Instance
from ..instances.common.errors import Fault, Faults, InstanceError, shown
from ..instances.common.faults import validated
from ..instances.files.reading import (
    PackingError,
    TooMuchError,
    check_size,
    fail,
    read_bytes,
    text_of,
    unique_keys,
    unpacked,
)
from ..solvers.common.result import AnyFrontier, Result
from .findings import Verification, failed_verification
from .registry import KINDS, frontier_kinds
from .verification import verify

log = logging.getLogger("clusterplan")

STARTS = b'{"journal":', b'{"source":'
"""First bytes of a journal, or of an excerpt of one; other files of results begin differently."""
Stored = dict[str, Any]
"""A stored result or frontier, or a line of a journal, as plain data."""
MAX_SHOWN = 100
"""Most characters shown of an untrusted name, and most altered lines listed."""


class Line(NamedTuple):
    """A complete line of the journal of a batch of solves.

    Attributes
    ----------
    number
        Line number; line 1 is the head with the options of the batch.
    offset
        Number of bytes before the line.
    text
        Its bytes, with the end of the line.
    data
        The JSON object; None if the line is not one.
    intact
        Whether its checksum matches.
    """

    number: int
    offset: int
    text: bytes
    data: Stored | None
    intact: bool

    @property
    def pair(self) -> tuple[str, str]:
        """Return the source and the solver of the line."""
        source, solver = ((self.data or {}).get(key) for key in ("source", "solver"))
        return source if isinstance(source, str) else "?", solver if isinstance(solver, str) else "?"

    def shown(self) -> str:
        """Return the line's number, source and solver for messages, with untrusted names shortened."""
        if self.data is None:
            return f"line {self.number} (which cannot be read)"
        source, solver = (name[:MAX_SHOWN] for name in self.pair)
        return f"line {self.number} ({source!r}, {solver!r})"


def sealed(text: str) -> bytes:
    """Return a JSON object as a journal line with a checksum at its end."""
    return _sealed(text.removesuffix("}").encode("utf-8", "backslashreplace"))


def _sealed(body: bytes) -> bytes:
    return b'%s, "sha256": "%s"}\n' % (body, hashlib.sha256(body).hexdigest().encode())


_SEAL = len(_sealed(b""))


def journal_lines(file: Iterable[bytes]) -> Iterator[Line]:
    """Yield the complete lines of a journal file, without an incomplete last line."""
    offset = 0
    for number, text in enumerate(file, 1):
        if not text.endswith(b"\n"):
            return
        yield Line(number, offset, text, _decoded(text), _sealed(text[:-_SEAL]) == text)
        offset += len(text)


def _decoded(text: bytes) -> Stored | None:
    try:
        data = json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def journal_line_error(place: str, why: str = "") -> InstanceError:
    """Return the error for a line that does not belong to a journal."""
    return fail(place, f"is not of a journal{why and f': {why}'}; give another --output")


def stored_results(raw: bytes, source: str) -> list[Any]:
    """Return the results in a journal as plain data, oldest first, and warn of altered lines.

    An altered line is left out where a later intact one is of the same source and solver, which were
    solved again.

    Parameters
    ----------
    raw
        The journal.
    source
        Name of the file in messages.
    """
    results: list[Any] = []
    altered: list[str] = []
    known: set[tuple[str, str]] = set()
    # From the end, so that an altered line already knows whether a later one replaces it.
    for line in reversed(list(journal_lines(io.BytesIO(raw)))):
        if line.intact and line.data is not None:
            known.add(line.pair)
        elif line.data is not None and line.pair in known:
            continue
        else:
            altered.append(str(line.number))
        if line.data is not None and "result" in line.data:
            results.append(line.data["result"])
    if altered:
        more = f" and {len(altered) - MAX_SHOWN} more" if len(altered) > MAX_SHOWN else ""
        what = "altered since they were written, or of an older version: their checksums do not match"
        log.warning("%s: these lines are %s: %s%s", source, what, ", ".join(altered[::-1][:MAX_SHOWN]), more)
    if not raw.endswith(b"\n"):
        log.warning("%s: the last line was cut off, and is left out", source)
    return results[::-1]


_NON_BLANK = re.compile(r"\S")


def read_results(path: Path) -> list[Stored]:
    """Return the results in a file (JSON object, JSON lines or batch journal) as plain data.

    A file that ends in ``.gz`` is unpacked.

    Raises
    ------
    InstanceError
        If the file does not hold results.
    """
    source = str(path)
    raw = read_bytes(path, source)
    if path.suffix == ".gz":
        try:
            raw = unpacked(raw)
        except PackingError as error:
            raise fail(source, str(error)) from None
    stored = stored_results(raw, source) if raw.startswith(STARTS) else _results(text_of(raw, source), source)
    if not stored:
        raise fail(source, "holds no result; give what 'clusterplan solve --format json' printed")
    for data in stored:
        if not (isinstance(data, dict) and data.get("kind") in [*KINDS] and "instance_sha256" in data):
            raise fail(source, "is not a result; give what 'clusterplan solve --format json' printed")
    return stored


def _results(text: str, source: str) -> list[Any]:
    """Return the JSON documents in a text; of a journal, the results in its lines."""
    try:
        check_size(text)
    except TooMuchError as error:
        raise fail(source, str(error)) from None
    decoder = json.JSONDecoder(object_pairs_hook=unique_keys)
    results: list[Any] = []
    at = _NON_BLANK.search(text)
    while at is not None:
        try:
            data, position = decoder.raw_decode(text, at.start())
        except (ValueError, RecursionError) as error:
            where = f"line {text.count(chr(10), 0, at.start()) + 1}: " if results else ""
            raise fail(source, f"{where}is not JSON: {error}") from None
        at = _NON_BLANK.search(text, position)
        # A journal that somebody formatted again is no longer one by its first bytes.
        if isinstance(data, dict) and ("journal" in data or "source" in data):
            if "result" not in data:
                continue  # the head of a batch's journal, or a file that could not be read
            data = data["result"]
        results.append(data)
    return results


def parse_result(data: Any, source: str, most: int | None = None) -> Result:
    """Parse and validate a stored result, and its plan entry by entry.

    Parameters
    ----------
    most
        Most entries that a plan of its instance may have; None for any number.

    Raises
    ------
    InstanceError
        Naming each field, of the plan too, that has a value which is not allowed.
    """
    formulation = FORMULATIONS[kind_of(data, source)].formulation
    plan = data.get("plan")
    if plan is not None and not isinstance(plan, list):
        raise fail(source, "is not a list of entries", "plan")
    # Before entries are parsed: a hostile file may hold millions.
    if most is not None and plan is not None and len(plan) > most:
        raise fail(source, f"has {len(plan):,} entries; a plan of the instance has at most {most:,}", "plan")
    try:
        read = None if plan is None else formulation.parse_plan(plan)
    except ValidationError:
        faults = Faults()
        for index, given in enumerate(plan or ()):
            try:
                validated(formulation.entry, given, source)
            except InstanceError as error:
                faults.add_all(error, f"plan[{index}]")
                if faults.stop():
                    break
        faults.refuse()
        raise
    result = validated(Result, {**data, "plan": read}, source)
    _refuse_converted_values(data, result, source)
    return result


def _refuse_converted_values(given: Any, read: Any, source: str) -> None:
    """Raise an error for values that were converted to another type, such as text read as a number.

    Raises
    ------
    InstanceError
        Naming each of them.
    """
    faults = Faults()
    for path, value, meant in _converted_values(given, read, ""):
        faults.add(Fault(source, path, f"is {shown(value)}, which is not a {meant}; write a plain {meant}"))
        if faults.stop():
            break
    faults.refuse()


def _converted_values(given: Any, read: Any, path: str) -> Iterator[tuple[str, Any, str]]:
    """Yield the path, value and new type of each value that was converted when it was parsed."""
    if given is read or isinstance(read, ColumnPlan):  # which is made of the right types alone
        return
    if isinstance(read, BaseModel):
        for name, value in given.items():
            yield from _converted_values(
                value, getattr(read, name, value), f"{path}.{name}".removeprefix(".")
            )
    elif isinstance(read, Mapping):
        for key, value in given.items():
            yield from _converted_values(value, read.get(key, value), f"{path}.{key}")
    elif isinstance(read, tuple | list):
        for index, (value, made) in enumerate(zip(given, read, strict=True)):
            yield from _converted_values(value, made, f"{path}[{index}]")
    elif _type(given) != _type(read):
        yield path, given, _type(read)


def _type(value: Any) -> str:
    if isinstance(value, bool):
        return "truth value"
    return "number" if isinstance(value, int | float) else "text"


def kind_of(data: Any, source: str) -> str:
    """Return the problem kind of a stored result.

    Raises
    ------
    InstanceError
        If the data are no mapping, or do not name a kind.
    """
    if not isinstance(data, dict):
        raise fail(source, "is not a mapping of fields")
    if "kind" not in data:
        raise fail(source, f"is missing; allowed: {', '.join(KINDS)}", "kind")
    kind = data["kind"]
    if not isinstance(kind, str) or kind not in KINDS:
        raise fail(source, f"is {repr(kind)[:60]}; allowed: {', '.join(KINDS)}", "kind")
    return kind


def verify_stored(instance: Instance, data: Any, source: str) -> Verification:
    """Verify a result or frontier read from a file; invalid fields are faults."""
    try:
        kind = kind_of(data, source)
        if kind != instance.kind:
            return failed_verification(
                instance.name, f"the result is of kind {kind}; the instance is of kind {instance.kind}"
            )
        if is_frontier(data):
            return verify_frontier(instance, parse_frontier(data, source))
        shown = KINDS[kind]
        most = instance.sizes()[shown.rows_of_plan] * shown.entries_of_row
        return verify(instance, parse_result(data, source, most))
    except InstanceError as error:
        faults = (f"{fault.path}: {fault.what}".removeprefix(": ") for fault in error.faults)
        return failed_verification(instance.name, *faults)


def verify_frontier(instance: Instance, frontier: AnyFrontier) -> Verification:
    """Verify a frontier of the instance: every plan, every figure and the certified error."""
    return frontier_kinds()[instance.kind].check(instance, frontier).verification()


def parse_frontier(data: Any, source: str) -> AnyFrontier:
    """Parse and validate a stored frontier.

    Raises
    ------
    InstanceError
        Naming each field that has a value which is not allowed.
    """
    kind = kind_of(data, source)
    if kind not in frontier_kinds():
        raise fail(source, f"is {kind!r}; frontiers are of {' or '.join(frontier_kinds())}", "kind")
    frontier = validated(frontier_kinds()[kind].model, data, source)
    _refuse_converted_values(data, frontier, source)
    return frontier


def is_frontier(data: Mapping[str, Any]) -> bool:
    """Return whether stored data are a frontier and not a single result."""
    return "points" in data


def results_of_instance(instance: Instance, results: list[Stored]) -> list[Stored]:
    """Return the stored results with this instance's hash; if there are none, all of them."""
    digest = instance.sha256()
    return [data for data in results if data["instance_sha256"] == digest] or results
