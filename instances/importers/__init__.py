"""Importers: published measurements and traces, and clusters as they are, turned into planning instances.

Each importer is one function that reads untrusted files and returns a validated instance. Whatever the
source lacks and the importer assumes stands in the instance's `assumptions`, in plain sentences.
"""

from __future__ import annotations

from .gavel.allocation import import_gavel
from .gavel.consolidation import import_gavel_consolidation
from .kubernetes.importer import import_kubernetes
from .layer_graphs.dnn_partitioning import import_dnn_partitioning
from .layer_graphs.pipedream import import_pipedream
from .philly import import_philly
from .pollux import import_pollux
from .sailor import import_sailor
from .slurm.importer import import_slurm
from .tiresias import import_tiresias

__all__ = [
    "import_dnn_partitioning",
    "import_gavel",
    "import_gavel_consolidation",
    "import_kubernetes",
    "import_philly",
    "import_pipedream",
    "import_pollux",
    "import_sailor",
    "import_slurm",
    "import_tiresias",
]
