"""What the Slurm importer says of its instance."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from clusterplan.instances.importers.clusters.slurm import assumptions, ignored, left_out, where, why_nothing
from clusterplan.instances.importers.clusters.slurm_cluster import Cluster, SlurmOptions
from clusterplan.instances.importers.clusters.slurm_jobs import JobRecord
from clusterplan.instances.importers.clusters.slurm_nodes import SlurmNode


def cluster(**more: Any) -> Cluster:
    """Return a cluster of one node, one that is down, and a job that waits."""
    nodes = [
        SlurmNode(n, frozenset({s}), 8.0, 1024.0, {}, None, 0.0, 0.0, set())
        for n, s in (("a", "IDLE"), ("b", "DOWN"))
    ]
    document = {
        "job_id": 1,
        "name": "j",
        "job_state": ["PENDING"],
        "state_reason": "Resources",
        "tres_req_str": "cpu=1",
    }
    record = JobRecord.model_validate(document | more)
    return Cluster(tuple(nodes), (record,), SlurmOptions(nodes=Path("n"), queue=Path("q"), choice="all"))


def test_what_is_planned_and_what_is_left_out() -> None:
    """Nodes that take no jobs, and jobs that wait for other things."""
    made = cluster()
    said = list(assumptions(made, made.options))
    assert said[0] == "Planned are all jobs: 1 job, of which 0 run."
    assert any("not listed for 1 node" in sentence for sentence in said)
    assert list(left_out(made)) == ["1 node takes no jobs in their state and is left out: b."]
    (_, waits) = left_out(cluster(state_reason="Dependency"))
    assert waits == "1 job is left out that waits for other things than resources: Dependency 1 (1 j)."
    assert (where(()), where(("p", "q"))) == ("", " in partition p, q")


def test_wishes_that_the_plan_does_not_look_at() -> None:
    """With the names of the jobs."""
    assert list(ignored(cluster())) == []
    (sentence,) = ignored(cluster(exclusive=["true"]))
    assert sentence.startswith("1 job asks for a node of their own, which the plan does not look at: ")


def test_why_nothing_is_left_to_plan() -> None:
    """Each job of the queue counts for the first reason that keeps it out."""
    states: list[dict[str, Any]] = [
        {"job_state": ["COMPLETED"]},
        {"job_state": ["COMPLETED"]},
        {"state_reason": "Dependency"},
        {"state_reason": "ReqNodeNotAvail, UnavailableNodes:a"},
        {"job_state": ["RUNNING"], "nodes": "b"},
        {"partition": "other", "state_reason": "Dependency"},
    ]
    found = [cluster(**{"partition": "p", **state}) for state in states]
    options = SlurmOptions(nodes=Path("n"), queue=Path("q"), partitions=("p",))
    nodes = tuple(replace(node, partitions={"p"}) for node in found[0].listed)
    made = Cluster(nodes, tuple(one.records[0] for one in found), options)
    assert why_nothing(made) == (
        "of 6 jobs: COMPLETED 2, waiting for Dependency 1, asking for no GPU 1, "
        "running on a node that is left out or not listed 1, in another partition 1"
    )
    stay = options.model_copy(update={"running": "stay"})
    assert why_nothing(Cluster(nodes, (made.records[4],), stay)) == "of 1 job: running and to stay 1"
    assert why_nothing(Cluster(nodes, (), options)) == "the queue is empty"


def test_rules_that_are_not_in_the_files_are_named() -> None:
    """Licences, reservations, dependencies, and the QOS, with the jobs."""
    fields = {"licenses": "matlab:1", "resv_name": "r", "dependency": "singleton", "qos": "high"}
    said = list(ignored(cluster(**fields)))
    assert said == [
        "1 job asks for licences, which the plan does not look at: 1 j.",
        "1 job asks for a reservation, which the plan does not look at: 1 j.",
        "1 job asks to start after others, which the plan does not look at: 1 j.",
        "Limits and preemption of a QOS are not in the source (high: 1 j).",
    ]


def test_who_stays_is_named_with_the_reason() -> None:
    """As a line of what is assumed."""
    made = cluster(job_state=["RUNNING"], nodes="a", requeue=False)
    assert "1 running job stays where it is: 1 j (Requeue=0)." in list(assumptions(made, made.options))
