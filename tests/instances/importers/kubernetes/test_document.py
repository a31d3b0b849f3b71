"""A cluster's nodes as servers, and its jobs as jobs of tasks."""

from __future__ import annotations

from kubernetes_objects import cluster, pod

from clusterplan.instances.importers.kubernetes.document import ClusterDocument


def test_what_is_held_by_others_is_not_free() -> None:
    """A planned pod's own part is free for the plan."""
    made = cluster(pod("mine", 1, "a"), pod("other", 0, "a"), pod("waits", 2))
    assert [job.name for job in made.jobs] == ["t/mine", "t/waits"]
    server = ClusterDocument(made).server(made.nodes[0])
    assert server["capacity"] == {"cpu": 8, "memory_gib": 16, "gpu": 4, "pods": 10}
    assert server["free"] == {"cpu": 7.5, "memory_gib": 15, "gpu": 4, "pods": 9}
    assert (made.out, made.names) == (["b"], {"a"})


def test_a_job_is_worth_its_gpus_and_stays_placed_where_it_runs() -> None:
    """One that waits may be left out."""
    made = cluster(pod("mine", 2, "a"), pod("waits", 1))
    mine, waits = (ClusterDocument(made).job(job) for job in made.jobs)
    assert (mine["value"], mine["must_place"], mine["current"]) == (2.0, True, {"a": 1})
    assert (waits["value"], waits["must_place"], waits["spread"]) == (1.0, False, "free")
    assert waits["task_demand"] == {"cpu": 0.5, "memory_gib": 1, "gpu": 1, "pods": 1}


def test_more_than_there_is() -> None:
    """Requests of planned and other pods together."""
    other = pod("y", 2, "a")
    other.__dict__["metadata"] = other.metadata.model_copy(update={"namespace": "kube-system"})
    assert ClusterDocument(cluster(pod("x", 3, "a"), other)).overcommitted() == ["a"]
    assert ClusterDocument(cluster(pod("x", 4, "a"))).overcommitted() == []
