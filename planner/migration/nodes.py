"""Names that cluster managers take: of servers as nodes, and of objects."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from ...instances.files.reading import fail

NodeNames = tuple[re.Pattern[str], str]
"""Pattern of valid names, and its description."""
KUBERNETES_NODE: NodeNames = (
    re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"),
    "a Kubernetes node: a-z, 0-9, '-', and '.' between them",
)
SLURM_NODE: NodeNames = (
    re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*"),
    "a Slurm node: letters, digits, '.', '_', '-'",
)

LONGEST_LABEL = 63


def check_nodes(job: str, servers: Iterable[str], node: NodeNames) -> None:
    """Raise an error for server names that are not valid node names of a cluster manager.

    Raises
    ------
    InstanceError
        Naming the job and the server.
    """
    for server in servers:
        if not node[0].fullmatch(server):
            raise fail("plan", f"the server {server!r} cannot be {node[1]}", f"job {job!r}")


def object_name(text: str, taken: set[str]) -> str:
    """Return a DNS label similar to a text, with a digest if it is already taken or too long."""
    plain = name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    digest = text
    while not name or len(name) > LONGEST_LABEL or name in taken:
        digest = hashlib.sha256(digest.encode()).hexdigest()[:8]
        name = f"{plain[: LONGEST_LABEL - 9].strip('-') or 'job'}-{digest}"
    taken.add(name)
    return name
