"""How importers of clusters say that a task may use only some servers: by a resource that only those have."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping


class Restrictions:
    """The choices of servers that tasks are limited to.

    Parameters
    ----------
    servers
        The names of all servers.
    choices
        For each group of tasks the servers that it may use, and how many of its tasks are on which server
        now; those that are on none stand under None. A task may stay on a server that it could not be given.
    """

    def __init__(
        self, servers: frozenset[str], choices: Iterable[tuple[frozenset[str], Mapping[str | None, int]]]
    ) -> None:
        self._servers = servers
        found: dict[frozenset[str], Counter[str | None]] = defaultdict(Counter)
        for nodes, tasks in choices:
            if nodes != servers:
                found[nodes].update(tasks)
        self._tasks = dict(found)
        self._names = {nodes: f"allowed-{k}" for k, nodes in enumerate(found, 1)}

    def demand(self, choice: frozenset[str]) -> dict[str, float]:
        """Return what a task demands that may use only these servers."""
        return {self._names[choice]: 1.0} if choice in self._names else {}

    def permits(self, server: str) -> dict[str, float]:
        """Return what a server has of each choice."""
        return {
            name: float(self._tasks[nodes].total() if server in nodes else self._tasks[nodes][server])
            for nodes, name in self._names.items()
        }

    def sentences(self, why: str, tasks: str, servers: str) -> Iterator[str]:
        """Say what each of the resources stands for."""
        for nodes, name in self._names.items():
            yield (
                f"The resource {name} stands for a choice of {servers} ({why}): {self._tasks[nodes].total()} "
                f"{tasks} need it and {len(nodes)} of {len(self._servers)} {servers} have it."
            )
