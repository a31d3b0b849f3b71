"""Names of servers that cluster managers take as names of nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...instances.files.reading import fail

KUBERNETES_NODE = (
    re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"),
    "a Kubernetes node: a-z, 0-9, '-', and '.' between them",
)
"""Pattern of valid node names, and its description."""


def check_nodes(job: str, servers: Iterable[str], allowed: re.Pattern[str], what: str) -> None:
    """Raise an error for server names that are not valid node names of a cluster manager.

    Raises
    ------
    InstanceError
        Naming the job and the server.
    """
    for server in servers:
        if not allowed.fullmatch(server):
            raise fail("plan", f"the server {server!r} cannot be {what}", f"job {job!r}")
