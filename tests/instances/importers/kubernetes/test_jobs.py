"""Which pods are placed together."""

from __future__ import annotations

from typing import Any

from clusterplan.instances.importers.kubernetes.jobs import LONGEST_NAME, is_unplanned, jobs_of, key_of
from clusterplan.instances.importers.kubernetes.objects import Pod


def pod(name: str, owner: tuple[str, str] | None = None, gpus: int = 1, **labels: str) -> Pod:
    """Return a pod that waits."""
    references = [{"kind": owner[0], "name": owner[1], "controller": True}] if owner else []
    container = {"resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}
    document: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "t", "labels": labels, "ownerReferences": references},
        "spec": {"containers": [container]},
        "status": {"phase": "Pending"},
    }
    return Pod.model_validate(document)


def test_pods_of_one_owner_are_a_job() -> None:
    """Those of a ReplicaSet and those without an owner are jobs of their own."""
    pods = [pod("a-1", ("Job", "a")), pod("a-2", ("Job", "a")), pod("b-1", ("ReplicaSet", "b")), pod("c")]
    jobs = jobs_of(pods, "gpu", {}, lambda pod, without: frozenset(), {})
    assert [(job.name, len(job.pods)) for job in jobs] == [("t/a", 2), ("t/b-1", 1), ("t/c", 1)]


def test_pods_that_ask_for_different_things_are_groups() -> None:
    """Each group has one demand."""
    pods = [pod(f"a-{n}", ("Job", "a"), gpus) for n, gpus in enumerate((1, 2, 1))]
    (job,) = jobs_of(pods, "gpu", {}, lambda pod, without: frozenset(), {})
    assert sorted(len(group.pods) for group in job.groups) == [1, 2]


def test_pods_that_are_not_planned() -> None:
    """Those of DaemonSets, and static ones."""
    assert [
        is_unplanned(pod("x", owner)) for owner in (("DaemonSet", "d"), ("Node", "n"), ("Job", "j"), None)
    ] == [
        True,
        True,
        False,
        False,
    ]


def test_long_names_are_cut_and_stay_different() -> None:
    """Names of two jobs differ only at their ends."""
    pods = [pod("x" * 240 + end) for end in "ab"]
    names = [job.name for job in jobs_of(pods, "gpu", {}, lambda pod, without: frozenset(), {})]
    assert len(set(names)) == 2
    assert all(len(name) <= LONGEST_NAME for name in names)
    assert key_of(pods[0]) != key_of(pods[1])
