"""The instance of a stored result: the document, with the options that it was solved with."""

from __future__ import annotations

from typing import Any

from ....instances.common.base import Instance
from ....instances.documents import load
from ..moves import MoveOptions


def solved_instance(
    instance_file: str, allow_outside: bool, device_moves: bool, stored: list[dict[str, Any]]
) -> Instance:
    """Load an instance as the last of the stored results says that it was solved.

    The result only says which question it answers: everything else is derived from the instance.

    Raises
    ------
    InstanceError
        If the file is missing or wrong.
    """
    given = MoveOptions(device_moves=device_moves).changes()
    instance = load(instance_file, allow_outside, given)
    last = stored[-1] if stored else {}
    said = last.get("instance_options") if last.get("kind") == instance.kind else None
    if not isinstance(said, dict):
        return instance
    known = {name: said[name] for name in instance.chosen_with_solve if name in said} | given
    if known.items() <= instance.chosen().items():
        return instance
    return instance.replace(**known)
