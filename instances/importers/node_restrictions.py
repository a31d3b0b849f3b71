"""Shared by importers of clusters: wording of notes, and restrictions of tasks to some servers.

A choice of servers is expressed by GPU models if these servers are exactly those of some models. Else it
becomes a resource that only those servers have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

from ..common.errors import some

LONGEST = 200
"""Limit of the length of the name of such a resource."""
NAMED = 3
"""Number of things that a note names, unless it says another."""
MAX_MODELS = 100
"""Limit of the GPU models of a job."""


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun in singular or plural; by default the plural has an s."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def numbered(names: Iterable[str], form: str) -> Iterator[str]:
    """Yield each name; duplicates get a number in a form such as ``{} ({})``, the first that is free."""
    taken, numbers = set[str](), Counter[str]()
    for name in names:
        unique = name
        while unique in taken:
            numbers[name] += 1
            unique = form.format(name, numbers[name] + 1)
        taken.add(unique)
        yield unique


def note(names: Collection[str], one: str, many: str, rest: str = "", most: int = NAMED) -> Iterator[str]:
    """Yield a sentence on some things: their number, what is said of them, and names; none on nothing.

    Parameters
    ----------
    one, many
        The noun, and perhaps its verb, for one and for several.
    rest
        What follows.
    most
        How many names it gives.
    """
    if names:
        text = " ".join(filter(None, (counted(len(names), one, many), rest)))
        yield f"{text}: {some(names, most)}."


class _Restricted(Protocol):
    """A workload whose groups of tasks may use certain nodes."""

    gpu_model: str | list[str] | None

    @property
    def groups(self) -> Sequence[_RestrictedGroup]: ...
    @property
    def places(self) -> set[str | None]: ...


class _RestrictedGroup(Protocol):
    nodes: frozenset[str]


def name_by_models(workloads: Iterable[_Restricted], models: Mapping[str, str | None]) -> None:
    """Replace a workload's choice of nodes by GPU models, if it is all nodes of some models.

    Parameters
    ----------
    workloads
        The workloads, which are changed.
    models
        Node → its GPU model, for all nodes that take tasks.
    """
    every = frozenset(models)
    known: dict[tuple[object, ...], tuple[frozenset[str], list[str] | None]] = {}
    for workload in workloads:
        choices = frozenset(group.nodes for group in workload.groups)
        key = workload.gpu_model, choices
        # Thousands of workloads have the same choice, and to compare large sets takes long.
        if key not in known and choices == {every}:
            known[key] = every, None
        if key not in known:
            of_model = {name for name, model in models.items() if workload.gpu_model in (None, model)}
            shared = {choice & of_model for choice in choices}
            chosen = shared.pop() if len(shared) == 1 else frozenset()
            known[key] = chosen, models_of_choice(chosen, models)
        chosen, listed = known[key]
        if listed is not None and chosen.issuperset(workload.places & every):
            workload.gpu_model = listed
            for group in workload.groups:
                group.nodes = every


def models_of_choice(chosen: frozenset[str], models: Mapping[str, str | None]) -> list[str] | None:
    """Return the GPU models that exactly the allowed servers have; None if there are no such models.

    Parameters
    ----------
    chosen
        Servers that tasks may use.
    models
        Server → its GPU model, for all servers.
    """
    own = {models[server] for server in chosen}
    others = {model for server, model in models.items() if server not in chosen}
    listed = sorted(filter(None, own))
    return listed if listed and len(listed) == len(own) <= MAX_MODELS and not own & others else None


def gpu_model_note(jobs: Sequence[str]) -> Iterator[str]:
    """Return a note on the jobs whose choice of servers is expressed by GPU models; nothing without any."""
    models = (
        "use certain nodes only, and these are all the nodes of certain GPU models, which stand in gpu_model"
    )
    return note(jobs, "job may", "jobs may", models)


@dataclass
class Choice:
    """Tasks of one job that may use certain servers only.

    Parameters
    ----------
    job
        The name of their job.
    servers
        The servers that they may use.
    tasks
        Number of tasks by current server, None for those without one. A task may stay on a server that it
        could not be assigned to.
    say
        Returns a few words on what the servers have in common.
    """

    job: str
    servers: frozenset[str]
    tasks: Mapping[str | None, int]
    say: Callable[[], str]

    @property
    def key(self) -> tuple[frozenset[str], str]:
        """Key of the artificial resource for these servers; if there are none, with the reason."""
        return self.servers, "" if self.servers else self.say()


@dataclass
class _Resource:
    name: str
    tasks: Counter[str | None] = field(default_factory=Counter)
    jobs: dict[str, None] = field(default_factory=dict)


class Restrictions:
    """Artificial resources by which tasks fit only on the servers that they may use.

    Parameters
    ----------
    servers
        The names of all servers.
    choices
        The choice of each group of tasks.
    """

    def __init__(self, servers: frozenset[str], choices: Iterable[Choice]) -> None:
        self._servers = servers
        # Thousands of choices are one set, which is compared with all servers once.
        self._is_all = cache(servers.__eq__)
        self._found: dict[tuple[frozenset[str], str], _Resource] = {}
        taken: Counter[str] = Counter()
        for choice in choices:
            if self._is_all(choice.servers):
                continue
            key = choice.key
            if key not in self._found:
                self._found[key] = _Resource(_name(choice.say(), taken))
            resource = self._found[key]
            resource.tasks.update(choice.tasks)
            resource.jobs[choice.job] = None

    @property
    def names(self) -> list[str]:
        """The names of the artificial resources."""
        return [resource.name for resource in self._found.values()]

    @property
    def servers(self) -> dict[str, frozenset[str]]:
        """Artificial resource → the servers that have it."""
        return {resource.name: servers for (servers, _), resource in self._found.items()}

    def demand(self, choice: Choice) -> dict[str, float]:
        """Return the demand of one task for the artificial resource of its allowed servers."""
        return {} if self._is_all(choice.servers) else {self._found[choice.key].name: 1.0}

    def permits(self, server: str) -> dict[str, float]:
        """Return a server's capacity of each artificial resource; 0 keeps the restricted tasks off it."""
        return {
            resource.name: float(resource.tasks.total() if server in servers else resource.tasks[server])
            for (servers, _), resource in self._found.items()
        }

    def sentences(self, why: str, task: str, server: str) -> Iterator[str]:
        """Yield notes on the meaning of each artificial resource.

        Parameters
        ----------
        why
            What restricts tasks to nodes, such as "partition, features".
        task, server
            The words for one of them.
        """
        for (servers, _), resource in self._found.items():
            needed = counted(resource.tasks.total(), f"{task} needs", f"{task}s need")
            have = "has" if len(servers) == 1 else "have"
            yield (
                f"The resource '{resource.name}' stands for a choice of {server}s ({why}): {needed} it, of "
                f"{some(resource.jobs, NAMED)}, and {len(servers)} of "
                f"{counted(len(self._servers), server)} {have} it."
            )


def _name(text: str, taken: Counter[str]) -> str:
    """Return a text as a name that is printable, short and unique."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in text)
    name = plain if len(plain) <= LONGEST else plain[: LONGEST - 1] + "…"
    number = 1
    while name in taken:
        number += 1
        end = f" ({number})"
        name = plain[: LONGEST - len(end)] + end
    taken[name] += 1
    return name
