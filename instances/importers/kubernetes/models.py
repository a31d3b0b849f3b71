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
    label
        The label with the GPU model.
    of_node
        Node → its GPU model, empty where it has none.
    """

    label: str
    of_node: Mapping[str, str]

    @classmethod
    def read(cls, nodes: Sequence[Node], label: str, has_gpus: Callable[[Node], bool]) -> GpuModels:
        """Return the models of nodes.

        Parameters
        ----------
        nodes
            The nodes.
        label
            The label with the model; empty for the first known one that any of the nodes has.
        has_gpus
            Whether a node has GPUs: machines without them have a type as well.
        """
        known = (name for name in MODEL_LABELS if any(node.labels.get(name) for node in nodes))
        label = label or next(known, MACHINE)
        there = (node for node in nodes if label != MACHINE or has_gpus(node))
        models = dict.fromkeys((node.name for node in nodes), "")
        return cls(label, models | {node.name: node.labels.get(label, "") for node in there})

    def of(self, node: Node) -> str | None:
        """Return the GPU model of a node."""
        return self.of_node.get(node.name) or None

    def keep(self, jobs: Iterable[PodJob], holds_gpus: Callable[[PodGroup], bool]) -> None:
        """Let pods that hold GPUs stay on the models that their job runs on, unless they name models."""
        for job in jobs:
            groups = [group for group in job.groups if holds_gpus(group)]
            pods = [pod for group in groups for pod in group.pods]
            models = {self.of_node.get(pod.node or "", "") for pod in pods} - {""}
            if models and not any(names_label(pod, self.label) for pod in pods):
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
