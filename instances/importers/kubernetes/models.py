"""GPU models: labels that name them, those that running pods keep, and choices of nodes that are models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..node_restrictions import models_of_choice
from .affinity import names_label
from .jobs import PodGroup, PodJob
from .objects import Node
from .options import MACHINE, MODEL_LABELS


@dataclass(frozen=True)
class GpuModels:
    """The GPU models of nodes.

    Attributes
    ----------
    labels
        The labels with GPU models, the first known one first: each pool of nodes may have its own.
    of_node
        Node → its GPU model, empty where it has none.
    by_type
        Nodes whose type stands for the GPU model, as no label has it.
    """

    labels: tuple[str, ...]
    of_node: Mapping[str, str]
    by_type: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        """The first of the labels."""
        return self.labels[0]

    @classmethod
    def read(cls, nodes: Sequence[Node], label: str, has_gpus: Callable[[Node], bool]) -> GpuModels:
        """Return the models of nodes.

        Parameters
        ----------
        nodes
            The nodes.
        label
            The label with the model; empty for the first known one that each node has.
        has_gpus
            Whether a node has GPUs: machines without them have a type as well.
        """
        if label and label != MACHINE:
            return cls((label,), {node.name: node.labels.get(label, "") for node in nodes})
        labels = (MACHINE,) if label else (*MODEL_LABELS, MACHINE)
        own = {node.name: _first(labels if has_gpus(node) else labels[:-1], node) for node in nodes}
        used = tuple(name for name in labels if name in own.values())
        by_type = frozenset(name for name, its in own.items() if its == MACHINE)
        return cls(
            used or (MACHINE,), {node.name: node.labels.get(own[node.name], "") for node in nodes}, by_type
        )

    def of(self, node: Node) -> str | None:
        """Return the GPU model of a node."""
        return self.of_node.get(node.name) or None

    def keep(self, jobs: Iterable[PodJob], holds_gpus: Callable[[PodGroup], bool]) -> None:
        """Let pods that hold GPUs stay on the models that their job runs on, unless they name models."""
        for job in jobs:
            groups = [group for group in job.groups if holds_gpus(group)]
            pods = [pod for group in groups for pod in group.pods]
            models = {self.of_node.get(pod.node or "", "") for pod in pods} - {""}
            if models and not any(names_label(pod, label) for pod in pods for label in self.labels):
                nodes = frozenset(name for name, model in self.of_node.items() if model in models)
                for group in groups:
                    if not group.nodes <= nodes:
                        group.nodes, group.models = group.nodes & nodes, tuple(sorted(models))

    def name_choices(self, jobs: Iterable[PodJob], nodes: Sequence[Node]) -> None:
        """Write the choice of nodes of a job as GPU models where these tell the nodes apart.

        Parameters
        ----------
        jobs
            The jobs, which are changed.
        nodes
            The nodes that take pods.
        """
        models = {node.name: self.of(node) for node in nodes}
        every = frozenset(models)
        known: dict[tuple[object, ...], tuple[frozenset[str], list[str] | None]] = {}
        for job in jobs:
            choices = frozenset(group.nodes for group in job.groups)
            if choices == {every}:
                continue
            key = job.gpu_model, choices
            if key not in known:
                of_model = {name for name, model in models.items() if job.gpu_model in (None, model)}
                shared = {choice & of_model for choice in choices}
                chosen = shared.pop() if len(shared) == 1 else frozenset()
                known[key] = chosen, models_of_choice(chosen, models)
            chosen, listed = known[key]
            if listed is not None and chosen.issuperset({pod.node for pod in job.pods} & every):
                job.gpu_model = listed
                for group in job.groups:
                    group.nodes = every


def _first(labels: Sequence[str], node: Node) -> str:
    """Return the first of some labels that a node has; empty if it has none."""
    return next((name for name in labels if node.labels.get(name)), "")
