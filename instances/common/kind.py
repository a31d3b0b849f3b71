"""What a kind of problem brings to this floor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..files.references import Folder
from .base import Instance


class Tables(NamedTuple):
    """How the large lists of an instance are saved in tables beside its document.

    Attributes
    ----------
    wanted
        Whether there is so much that they are saved so unless something else is asked for.
    write
        Write them beside the document at a path, with an ending; return the key of each in the document, and
        its name. Raises `OptionError` if a table cannot hold them.
    """

    wanted: Callable[[Any], bool]
    write: Callable[[Any, Path, str], dict[str, str]]


@dataclass(frozen=True)
class InstanceKind:
    """The data model of one kind.

    Attributes
    ----------
    model
        Its instances.
    lists
        The lists of its document that may be a path instead.
    tiny
        Returns an instance that brute force solves at once.
    resolved
        Turns a document whose lists are read into an instance, or into plain data that is to be validated.
    tables
        How it is saved in tables; None: in its document alone, and lists are read as rows.
    """

    model: type[Instance]
    lists: tuple[str, ...]
    tiny: Callable[[], Instance]
    resolved: Callable[[dict[str, Any], str, Folder], Instance | dict[str, Any]] = lambda data, *_: data
    tables: Tables | None = None
