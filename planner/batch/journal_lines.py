"""The lines of a journal: JSON objects, each of which ends with a checksum of all that stands before it.

The checksum finds what a faulty disk or a hasty hand has altered. It is no signature: whoever writes a
new one beside what was altered is found out only by `verify`, which derives every figure again.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ...instances.common.errors import InstanceError
from ...instances.files.json_reading import unique_keys
from ...instances.files.reading import fail

log = logging.getLogger("clusterplan")

STARTS = b'{"journal":', b'{"source":'
"""How a journal, or some lines of one, begin, and no other file of results."""
MOST_SHOWN = 100
"""Characters shown of a name that nobody vouches for, and lines of a journal that are listed."""


class Line(NamedTuple):
    """A complete line of a journal.

    Attributes
    ----------
    number
        The first is 1, the head, which says what was asked.
    offset
        Bytes before it.
    text
        Its bytes, with the end of the line.
    data
        What it says; None if it is no JSON object.
    intact
        Whether its checksum matches.
    """

    number: int
    offset: int
    text: bytes
    data: dict[str, Any] | None
    intact: bool

    @property
    def pair(self) -> tuple[str, str]:
        """Return the source and the solver that it is about."""
        source, solver = ((self.data or {}).get(key) for key in ("source", "solver"))
        return source if isinstance(source, str) else "?", solver if isinstance(solver, str) else "?"

    def shown(self) -> str:
        """Return its number, source and solver for a message; names, which are untrusted, are cut."""
        if self.data is None:
            return f"line {self.number} (which cannot be read)"
        source, solver = (name[:MOST_SHOWN] for name in self.pair)
        return f"line {self.number} ({source!r}, {solver!r})"


def sealed(text: str) -> bytes:
    """Return a JSON object as a line that ends with its checksum."""
    return _sealed(text.removesuffix("}").encode("utf-8", "backslashreplace"))


def _sealed(body: bytes) -> bytes:
    return b'%s, "sha256": "%s"}\n' % (body, hashlib.sha256(body).hexdigest().encode())


_SEAL = len(_sealed(b""))


def lines(file: Iterable[bytes]) -> Iterator[Line]:
    """Yield the complete lines; a last line that a stop cut off is not one."""
    offset = 0
    for number, text in enumerate(file, 1):
        if not text.endswith(b"\n"):
            return
        yield Line(number, offset, text, _decoded(text), _sealed(text[:-_SEAL]) == text)
        offset += len(text)


def _decoded(text: bytes) -> dict[str, Any] | None:
    try:
        data = json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def not_of_a_journal(place: str, why: str = "") -> InstanceError:
    """Return the error about a line that is true to its checksum, or the first one, and still is none."""
    return fail(place, f"is not of a journal{why and f': {why}'}; give another --output")


def stored_results(raw: bytes, source: str) -> list[Any]:
    """Return the results in a journal, oldest first, and warn of lines that were altered.

    An altered line is left out where a later intact one is of the same source and solver, which were
    solved again.

    Parameters
    ----------
    raw
        The journal.
    source
        What to call it.
    """
    found: list[Any] = []
    altered: list[str] = []
    known: set[tuple[str, str]] = set()
    # From the end, so that an altered line already knows whether a later one replaces it.
    for line in reversed(list(lines(io.BytesIO(raw)))):
        if line.intact and line.data is not None:
            known.add(line.pair)
        elif line.data is not None and line.pair in known:
            continue
        else:
            altered.append(str(line.number))
        if line.data is not None and "result" in line.data:
            found.append(line.data["result"])
    if altered:
        more = f" and {len(altered) - MOST_SHOWN} more" if len(altered) > MOST_SHOWN else ""
        what = "altered since they were written, or of an older version: their checksums do not match"
        log.warning("%s: these lines are %s: %s%s", source, what, ", ".join(altered[::-1][:MOST_SHOWN]), more)
    if not raw.endswith(b"\n"):
        log.warning("%s: the last line was cut off, and is left out", source)
    return found[::-1]
