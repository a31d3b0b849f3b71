"""Importers: published measurements and traces, and clusters as they are, turned into planning instances.

Each importer reads untrusted files and returns a validated instance; its options are declared once, in a
model. Whatever the source lacks and the importer assumes stands in the instance's `assumptions`, in plain
sentences.
"""

from __future__ import annotations

from typing import Any

from .gavel.allocation import import_gavel as import_gavel
from .gavel.consolidation import import_gavel_consolidation as import_gavel_consolidation
from .gavel.either import import_gavel_either
from .importer import Importer
from .kubernetes.importer import import_kubernetes as import_kubernetes
from .layer_graphs.dnn_partitioning import import_dnn_partitioning as import_dnn_partitioning
from .layer_graphs.pipedream import import_pipedream as import_pipedream
from .muri import import_muri as import_muri
from .openb import import_openb as import_openb
from .philly import import_philly as import_philly
from .philly_either import import_philly_either
from .philly_trace import import_philly_trace as import_philly_trace
from .pollux import import_pollux as import_pollux
from .sailor.importer import import_sailor as import_sailor
from .slurm.importer import import_slurm as import_slurm
from .tiresias import import_tiresias as import_tiresias
from .trace import import_trace as import_trace

IMPORTERS: dict[str, Importer[Any, Any]] = {
    "gavel": import_gavel_either,
    "tiresias": import_tiresias,
    "pollux": import_pollux,
    "sailor": import_sailor,
    "pipedream": import_pipedream,
    "dnn-partitioning": import_dnn_partitioning,
    "philly": import_philly_either,
    "kubernetes": import_kubernetes,
    "slurm": import_slurm,
    "openb": import_openb,
    "muri": import_muri,
    "trace": import_trace,
}
"""The commands `import NAME`; a new importer is a file and one line here."""
