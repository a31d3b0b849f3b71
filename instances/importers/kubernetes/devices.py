"""What the pods of a cluster hold and ask for of its GPUs as devices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

from ...consolidation.devices import WHOLE, Ask
from ..device_parts import (
    Gpus,
    Holding,
    Unclear,
    about_devices,
    are_known,
    because,
    check_there,
    taken,
    the_same,
    thousandths,
    worth,
)
from ..node_restrictions import counted
from .gpus import OF_HAMI, Wish, asks_for_part, devices_of, gpus_of, is_device, offers, reserves, wish_of
from .objects import Node, Pod


class ClusterDevices:
    """GPUs of nodes as devices, and what pods ask for of them.

    Parameters
    ----------
    nodes, pods
        All that are listed.
    keep_partitions
        Whether partitions are resources, as nodes have them.

    Attributes
    ----------
    unclear
        Identity of a pod → why it is not clear what it asks for.
    out
        Node → why it is not clear what is left of its devices.
    gpus
        Node → its devices; those that are out are not among them.
    """

    def __init__(self, nodes: Sequence[Node], pods: Sequence[Pod], keep_partitions: bool) -> None:
        self.keep_partitions = keep_partitions
        self._nodes = {node.name: node for node in nodes}
        self._wishes: dict[int, Wish] = {}
        self._asked: dict[tuple[Wish, frozenset[str]], frozenset[Ask]] = {}
        self.unclear: dict[int, str] = {}
        self.gpus: dict[str, Gpus] = {}
        self.out: dict[str, str] = {}
        self._known: set[str] = set()
        self._there: set[str] = set()
        for pod in pods:
            try:
                wish = None if reserves(pod) else wish_of(pod, keep_partitions)
            except Unclear as error:
                self.unclear[id(pod)] = str(error)
                continue
            if wish is not None:
                self._wishes[id(pod)] = wish
        for node in nodes:
            try:
                self.gpus[node.name] = gpus_of(node, keep_partitions)
            except Unclear as error:
                self.out[node.name] = str(error)
        self._leave_out(pods)

    @staticmethod
    def needed(pods: Iterable[Pod], keep_partitions: bool) -> bool:
        """Return whether any pod asks for a part of a GPU."""
        return any(asks_for_part(pod, keep_partitions) for pod in pods)

    def _leave_out(self, pods: Sequence[Pod]) -> None:
        """Leave out the nodes whose devices do not hold what their pods hold."""
        held: dict[str, list[Pod]] = defaultdict(list)
        for pod in pods:
            if pod.node in self.gpus:
                held[pod.node].append(pod)
        for name, there in held.items():
            try:
                holdings = self.held_on(name, there)
                if taken(self.gpus[name], holdings, []) is None:
                    raise Unclear("has devices that do not hold what its pods ask for")
                if are_known(self.gpus[name], holdings):
                    self._known.add(name)
            except Unclear as error:
                self.out[name] = str(error)
        for name in self.out:
            self.gpus.pop(name, None)

    def is_device(self, resource: str) -> bool:
        """Return whether a resource is one of GPUs that are planned as devices."""
        return is_device(resource, self.keep_partitions)

    def held_on(self, node: str, pods: Iterable[Pod]) -> list[Holding]:
        """Return what pods hold of the devices of a node, those that hold any.

        Raises
        ------
        Unclear
            If this cannot be said of one of them.
        """
        found = []
        for pod in pods:
            wish = self._wish(pod)
            if wish is not None:
                ask = self._ask(wish, self.gpus[node])
                devices = devices_of(pod, wish, self.gpus[node])
                right = not ask.profile and len(set(devices)) == len(devices) == (ask.whole or 1)
                found.append(Holding(ask, devices if right else ()))
        return found

    def devices_of(self, pod: Pod) -> tuple[int, ...]:
        """Return the devices that a pod has; none where that is not known, or what is said does not fit."""
        if pod.node not in self._known or self.wish(pod) is None:
            return ()
        return self.held_on(pod.node, [pod])[0].devices

    def ask_of(self, pod: Pod, nodes: frozenset[str], planned: frozenset[str]) -> Ask | None:
        """Return what a pod asks for on whichever node; None if for no GPU.

        Parameters
        ----------
        nodes
            Those that it may use.
        planned
            All that take pods.

        Raises
        ------
        Unclear
            If that cannot be said, or no node has such a thing.
        """
        wish = self._wish(pod)
        if wish is None:
            return None
        if wish.ask.profile not in self._there:
            check_there([self.gpus[name] for name in planned], wish.ask.profile)
            self._there.add(wish.ask.profile)
        if not wish.memory:
            return wish.ask
        # Thousands of pods ask for the same on the same nodes.
        if (wish, nodes) not in self._asked:
            self._asked[wish, nodes] = self._asks_on(wish, nodes)
        return the_same(self._asked[wish, nodes] | self._asks_on(wish, [pod.node] if pod.node else []))

    def _asks_on(self, wish: Wish, nodes: Iterable[str]) -> frozenset[Ask]:
        # In one order, for the first that is unclear is the one that is named.
        there = (self.gpus[name] for name in sorted(nodes) if name in self.gpus)
        return frozenset(self._ask(wish, gpus) for gpus in there if gpus.count)

    def wish(self, pod: Pod) -> Wish | None:
        """Return what a pod asks for of GPUs, if that is clear."""
        return self._wishes.get(id(pod))

    def offering(self, wish: Wish, nodes: frozenset[str]) -> frozenset[str]:
        """Return those of the nodes that may have what a pod asks for."""
        listing = wish.through in OF_HAMI and any(gpus.names for gpus in self.gpus.values())
        return frozenset(
            name
            for name in nodes
            if name in self.gpus
            and offers(self._nodes[name], self.gpus[name], wish)
            and (self.gpus[name].names or not (listing and self.gpus[name].count))
        )

    def _wish(self, pod: Pod) -> Wish | None:
        if id(pod) in self.unclear:
            raise Unclear(f"holds a pod of which it is not clear what it has: {pod.metadata.name}")
        return self._wishes.get(id(pod))

    def _ask(self, wish: Wish, gpus: Gpus) -> Ask:
        if not wish.memory:
            return wish.ask
        size = gpus.sizes.get(wish.through)
        if size is None:
            raise Unclear(f"asks by {wish.through}, of which a node does not say what each device has")
        if wish.memory > size:
            raise Unclear(f"asks for {wish.memory} of {wish.through}; a device has {size}")
        share = WHOLE if wish.memory == size else self._shares[wish.through, size][wish.memory]
        share = max(share, wish.cores)
        return Ask(share=share) if share < WHOLE else Ask(whole=1)

    @cached_property
    def _shares(self) -> dict[tuple[str, int], dict[int, int]]:
        """Unit, and size of a device in it → part of a device → its thousandths."""
        parts: dict[str, set[int]] = defaultdict(set)
        for wish in self._wishes.values():
            if wish.memory:
                parts[wish.through].add(wish.memory)
        sizes = {(unit, size) for gpus in self.gpus.values() for unit, size in gpus.sizes.items()}
        return {
            (unit, size): thousandths([part for part in parts[unit] if part < size], size)
            for unit, size in sizes
        }

    @cached_property
    def geometries(self) -> set[str]:
        """The geometries of the devices."""
        return {gpus.geometry for gpus in self.gpus.values() if gpus.geometry}

    def worth(self, ask: Ask) -> Fraction:
        """Return how many GPUs an ask is."""
        return Fraction(worth(ask, self.geometries))

    def document(self, node: str, others: Iterable[Pod], planned: Iterable[Pod]) -> dict[str, Any]:
        """Return the field of a server that has the devices of a node."""
        found = self.gpus[node].document(self.held_on(node, others), self.held_on(node, planned))
        return {} if found is None else {"devices": found}

    def sentences(self, asks: Iterable[Ask]) -> Iterator[str]:
        """Say how devices are planned of which the planned pods ask for this."""
        exact = all(
            WHOLE * part == share * size
            for (_, size), shares in self._shares.items()
            for part, share in shares.items()
        )
        yield from about_devices("pod", not exact, any(ask.profile for ask in asks))
        if any(wish.cores or (wish.ask.share and not wish.memory) for wish in self._wishes.values()):
            yield "A share is the part of the memory, or of the cores where a pod asks for more of these."

    def left_out(self, unclear: Mapping[str, str]) -> Iterator[str]:
        """Say which nodes, and which pods of these, are left out for their GPUs."""
        if unclear:
            are = counted(len(unclear), "pod is", "pods are")
            yield (
                f"{are} left out with the others of their jobs for what they ask for of GPUs, and stay where "
                f"they run: {because(unclear)}."
            )
        if self.out:
            nodes = counted(len(self.out), "node counts", "nodes count")
            yield f"{nodes} as cordoned for the GPUs: {because(self.out)}."
