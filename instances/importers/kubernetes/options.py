"""What the Kubernetes importer is asked, and which labels and resources it takes for GPUs by itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from ...common.fields import Name
from ..cluster_options import Running, Spread
from ..device_parts import Mig
from ..importer import ImportOptions, Option
from ..value_rule import Value

MODEL_LABELS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "eks.amazonaws.com/instance-gpu-name",
    "karpenter.azure.com/sku-gpu-name",
    "cloud.google.com/gke-tpu-accelerator",
)
"""Labels with the GPU model, by the operators of makers and by clouds."""
MACHINE = "node.kubernetes.io/instance-type"
"""Stands for the GPU model where no label has it."""
GPU = re.compile(
    r"(.*/)?(gpu|gpu\.shared|mig-.+)|gpu\.intel\.com/.+|google\.com/tpu|habana\.ai/gaudi"
    r"|aws\.amazon\.com/neuron(core|device)?|huawei\.com/Ascend.+|cambricon\.com/mlu|hygon\.com/dcu"
)
"""Resources that count as GPUs unless an option names them; accelerators of other kinds are among them."""


class KubernetesOptions(ImportOptions):
    """Nodes and pods of a Kubernetes cluster: a consolidation instance."""

    nodes: Annotated[Path, Option("What 'kubectl get nodes -o json' prints.", argument="nodes")]
    pods: Annotated[Path, Option("What 'kubectl get pods --all-namespaces -o json' prints.", argument="pods")]
    choice: Annotated[
        Literal["gpu", "all"],
        Option("gpu: jobs that ask for a GPU; all: every job outside namespaces kube-….", option="--pods"),
    ] = "gpu"
    running: Running = "move"
    namespaces: Annotated[
        tuple[Name, ...], Option("Only the pods of this namespace; repeatable.", option="--namespace")
    ] = ()
    spread: Spread = "preferred"
    rack_label: Annotated[str, Option("Label of a node with its rack.")] = "topology.kubernetes.io/zone"
    gpu_label: Annotated[
        str, Option("Label of a node with its GPU model. [default: the first known one that nodes have]")
    ] = ""
    value: Value = "gpus"
    gpu_resources: Annotated[
        tuple[Name, ...],
        Option("Resource that is a GPU; repeatable. [default: those called so]", option="--gpu-resource"),
    ] = ()
    mig: Mig = "new"
    volumes: Annotated[
        Path | None,
        Option("What 'kubectl get pv,pvc --all-namespaces -o json' prints: pods stay near their volumes."),
    ] = None
