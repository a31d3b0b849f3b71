"""The objects in the lists that kubectl prints, of one file or several, by their kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from ...common.errors import refuse_faults, shown
from ...common.faults import validated
from ...common.fields import Many, Part, repeated
from ...files.reading import fail, parse_document, read_text
from ..rejected_entries import Entry, RejectedEntries, valid_entries
from .kubernetes_affinity import Volumes
from .kubernetes_objects import ENDED, DisruptionBudget, Node, NodeList, Pod, PodGang

WANTED = "give what kubectl get nodes,pods --all-namespaces -o json prints"
EMPTY = "(empty)"
"""In place of a kind: the files that list nothing."""
VOLUMES = ("PersistentVolumeClaim", "PersistentVolume")
WANTED_VOLUMES = "give what kubectl get pv,pvc --all-namespaces -o json prints"


class _Gangs(Part):
    items: Many[PodGang]


class _Budgets(Part):
    items: Many[DisruptionBudget]


@dataclass(frozen=True)
class ObjectLists:
    """The objects of some files.

    Parameters
    ----------
    paths
        The files; one that stands twice counts once.
    volumes
        One of them that must list volumes; None without one.
    """

    paths: tuple[Path, ...]
    volumes: Path | None = None

    @cached_property
    def source(self) -> str:
        """The files that list nodes and pods, for messages."""
        return " and ".join(str(path) for path in self.paths)

    @cached_property
    def _by_kind(self) -> dict[str, list[tuple[Path, str, Any]]]:
        """Kind → file, path in it, and data of each object."""
        found: dict[str, list[tuple[Path, str, Any]]] = defaultdict(list)
        # Where nodes and pods are apart, an object that does not say its kind is what its file is for.
        roles = zip(self.paths, ("Node", "Pod") if len(self.paths) > 1 else ("",), strict=False)
        for path, role in {**({self.volumes: ""} if self.volumes else {}), **dict(roles)}.items():
            empty = True
            for place, kind, item in _items(path):
                if not (kind or role):
                    raise fail(str(path), f"is {shown(item)}, which does not say its kind", place)
                found[kind or role].append((path, place, item))
                empty = False
            if empty:
                found[EMPTY].append((path, "", None))
        return found

    def _data(self, *kinds: str) -> dict[str, Any]:
        """Return a list of the objects of some kinds, as kubectl prints one."""
        objects = chain.from_iterable(self._by_kind.get(kind, ()) for kind in kinds)
        return {"kind": "List", "items": [item for _, _, item in objects]}

    def _file(self, kind: str) -> str:
        """Return the file with the objects of a kind, for messages.

        Raises
        ------
        InstanceError
            If there is none.
        """
        there = self._by_kind.get(kind) or self._by_kind.get(EMPTY)
        if not there:
            raise fail(self.source, f"no {kind.lower()}s are listed; {WANTED}")
        return str(there[0][0])

    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes.

        Raises
        ------
        InstanceError
            If there are none, or one is wrong.
        """
        source, _ = self._file("Node"), self._file("Pod")
        nodes = validated(NodeList, self._data("Node"), source).items
        refuse_faults(source, repeated((node.name for node in nodes), "items", "metadata.name"))
        return nodes

    def pods(self) -> tuple[tuple[Pod, ...], RejectedEntries]:
        """Return the valid pods, without duplicates, and the rejected entries."""
        source, left_out = self._file("Pod"), RejectedEntries("pod")
        entries = self._entries("Pod")
        pods = valid_entries(Pod, entries, source, left_out, lambda pod: (pod.metadata.namespace, pod.name))
        return tuple(pods), left_out

    def _entries(self, kind: str) -> Iterator[Entry]:
        return ((place, _name_of(item) or place, item) for _, place, item in self._by_kind.get(kind, ()))

    def read_volumes(self) -> Volumes | None:
        """Return the volumes and claims; None if the files are not meant to have any.

        Raises
        ------
        InstanceError
            If a file of volumes was given, and lists none.
        """
        listed = [kind for kind in VOLUMES if self._by_kind.get(kind)]
        if self.volumes is not None:
            kinds = dict.fromkeys(kind for _, kind, _ in _items(self.volumes))
            for kind in VOLUMES:
                if kinds and kind not in kinds:
                    have = ", ".join(sorted(kinds)[:3])
                    raise fail(str(self.volumes), f"lists {have}, and no {kind}; {WANTED_VOLUMES}")
        elif not listed:
            return None
        return Volumes.of_list(self._data(*VOLUMES), str(self.volumes or self.source))

    def gangs(self) -> tuple[PodGang, ...]:
        """Return the pod groups of gang schedulers."""
        return validated(_Gangs, self._data("PodGroup"), self.source).items

    def budgets(self) -> tuple[DisruptionBudget, ...]:
        """Return the PodDisruptionBudgets."""
        return validated(_Budgets, self._data("PodDisruptionBudget"), self.source).items


def _items(path: Path) -> Iterator[tuple[str, str, Any]]:
    """Yield path, kind and data of each object that a file lists.

    Raises
    ------
    InstanceError
        If it is no list of kubectl.
    """
    data = parse_document(read_text(path), str(path), ".json")
    items = data.get("items") if isinstance(data, dict) else None
    if not isinstance(items, list):
        raise fail(str(path), f"has no list of items; {WANTED}")
    of_list = data.get("kind", "List")
    if not isinstance(of_list, str) or not of_list.endswith("List"):
        raise fail(str(path), f"is {shown(of_list)}, not a List; {WANTED}", "kind")
    for index, item in enumerate(items):
        kind = item.get("kind") if isinstance(item, dict) else None
        yield f"items[{index}]", kind if isinstance(kind, str) else of_list.removesuffix("List"), item


def _name_of(pod: Any) -> str:
    """Return namespace and name of an unvalidated pod entry; empty if it has none."""
    return "/".join(filter(None, (_text_at(pod, "metadata", key) for key in ("namespace", "name"))))


def node_of(pod: Any) -> str:
    """Return the node of an unvalidated pod entry; empty if it has none."""
    return "" if _text_at(pod, "status", "phase") in ENDED else _text_at(pod, "spec", "nodeName")


def _text_at(data: Any, *path: str) -> str:
    """Return the text at a path of nested mappings; empty if it is absent."""
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data if isinstance(data, str) else ""
