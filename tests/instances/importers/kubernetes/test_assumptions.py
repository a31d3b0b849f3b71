"""What the Kubernetes importer says of its instance."""

from __future__ import annotations

from pathlib import Path

from clusterplan.instances.importers.kubernetes.assumptions import assumptions, what_is_ignored
from clusterplan.instances.importers.kubernetes.cluster import Cluster
from clusterplan.instances.importers.kubernetes.document import ClusterDocument
from clusterplan.instances.importers.kubernetes.objects import Node
from clusterplan.instances.importers.kubernetes.options import KubernetesOptions

SOFT = {"key": "t", "effect": "PreferNoSchedule"}


def test_an_empty_cluster() -> None:
    """The options are said, and taints that are only preferences."""
    node = Node.model_validate(
        {
            "metadata": {"name": "a"},
            "spec": {"taints": [SOFT]},
            "status": {"allocatable": {"pods": "1"}, "conditions": [{"type": "Ready", "status": "True"}]},
        }
    )
    options = KubernetesOptions(nodes=Path("n"), pods=Path("p"), namespaces=("x", "y"), running="stay")
    cluster = Cluster((node,), (), options)
    said = list(assumptions(ClusterDocument(cluster)))
    assert said[0].startswith("Planned are jobs that ask for a GPU in x, y: 0 jobs of 0 pods")
    assert not any("A job that runs as a whole must stay placed" in sentence for sentence in said)
    (ignored,) = what_is_ignored(cluster)
    assert ignored.startswith("1 taint is only a preference")
