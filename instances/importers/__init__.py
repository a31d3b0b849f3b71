"""Importers of published measurements, traces and clusters in use as planning instances.

Each importer reads untrusted files and returns a validated instance; its options are declared once, in a
model. Assumptions about data that the source lacks are listed in the instance's `assumptions`, in plain
sentences.
"""

from __future__ import annotations

from typing import Any

from .clusters.flux import import_flux as import_flux
from .clusters.kubernetes import import_kubernetes as import_kubernetes
from .clusters.kubernetes import import_kubernetes_elastic as import_kubernetes_elastic
from .clusters.slurm import import_slurm as import_slurm
from .clusters.slurm import import_slurm_elastic as import_slurm_elastic
from .importer import Importer, multi_kind_importer
from .layer_graphs.dnn_partitioning import import_dnn_partitioning as import_dnn_partitioning
from .layer_graphs.pipedream import import_pipedream as import_pipedream
from .layer_graphs.sailor import import_sailor as import_sailor
from .mix.pairs import import_gavel_mix as import_gavel_mix
from .mix.pairs import import_pairs as import_pairs
from .mix.serving import import_serving as import_serving
from .tensors import import_tensors as import_tensors
from .traces.gavel import import_gavel as import_gavel
from .traces.gavel import import_gavel_consolidation as import_gavel_consolidation
from .traces.gavel import import_gavel_trace as import_gavel_trace
from .traces.openb import import_openb as import_openb
from .traces.openb import import_openb_trace as import_openb_trace
from .traces.philly import import_philly as import_philly
from .traces.philly import import_philly_trace as import_philly_trace
from .traces.pollux import import_pollux as import_pollux
from .traces.pollux import import_pollux_trace as import_pollux_trace
from .traces.sacct import import_sacct as import_sacct
from .traces.tiresias import import_muri as import_muri
from .traces.tiresias import import_muri_mix as import_muri_mix
from .traces.tiresias import import_tiresias as import_tiresias
from .traces.tiresias import import_tiresias_trace as import_tiresias_trace
from .traces.trace import import_trace as import_trace

IMPORTERS: dict[str, Importer[Any, Any]] = {
    "gavel": multi_kind_importer(
        "Jobs with measured speeds on three GPU types (Gavel, OSDI'20).",
        {
            "allocation": import_gavel,
            "consolidation": import_gavel_consolidation,
            "scheduling": import_gavel_trace,
            "mix": import_gavel_mix,
        },
    ),
    "tiresias": multi_kind_importer(
        "Jobs and clusters of the Tiresias simulator (NSDI'19): jobs that are there at once, or a trace of "
        "them.",
        {"consolidation": import_tiresias, "scheduling": import_tiresias_trace},
    ),
    "pollux": multi_kind_importer(
        "Measured step times of ring all-reduce training, and workloads of such jobs (Pollux, OSDI'21).",
        {"allocation": import_pollux, "scheduling": import_pollux_trace},
    ),
    "sailor": import_sailor,
    "pipedream": import_pipedream,
    "dnn-partitioning": import_dnn_partitioning,
    "philly": multi_kind_importer(
        "Jobs of a production cluster (Philly, ATC'19): those of one instant, or a trace of them.",
        {"consolidation": import_philly, "scheduling": import_philly_trace},
    ),
    "kubernetes": multi_kind_importer(
        "Nodes and pods of a Kubernetes cluster.",
        {"consolidation": import_kubernetes, "allocation": import_kubernetes_elastic},
    ),
    "slurm": multi_kind_importer(
        "Nodes and queue of a Slurm cluster.",
        {"consolidation": import_slurm, "allocation": import_slurm_elastic},
    ),
    "flux": import_flux,
    "openb": multi_kind_importer(
        "Servers and pods of Alibaba's trace openb (2023): pods that are there at once, or a trace of them.",
        {"consolidation": import_openb, "scheduling": import_openb_trace},
    ),
    "muri": multi_kind_importer(
        "Traces of Muri's simulator (SIGCOMM'22): jobs by submission, or jobs that share GPUs.",
        {"scheduling": import_muri, "mix": import_muri_mix},
    ),
    "pairs": import_pairs,
    "sacct": import_sacct,
    "trace": import_trace,
    "tensors": import_tensors,
    "serving": import_serving,
}
"""The commands `import NAME`; a new importer is a file and one line here."""
