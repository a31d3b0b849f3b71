"""Exports of a mix: Deployments that Kubernetes accepts, and an instance of consolidation that is solved."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from kubernetes_cluster import wrong_in
from mix_instances import serving, sharing

import clusterplan
from clusterplan.formulations.mix.plan import Copies
from clusterplan.instances.common.errors import OptionError
from clusterplan.planner.mix.exports import MAX_JOBS, consolidation_lines


def exported(instance: Any, form: str) -> str:
    return clusterplan.export_plan(instance, clusterplan.solve(instance), form)


def test_a_deployment_for_each_configuration() -> None:
    text = exported(serving(), "kubernetes")
    assert text.startswith("# A STARTING POINT")
    first, second = yaml.safe_load_all(text)
    heads = [(one.pop("apiVersion"), one.pop("kind")) for one in (first, second)]
    assert heads == [("apps/v1", "Deployment")] * 2
    assert [wrong_in("deployments.apps", one) for one in (first, second)] == [[], []]
    assert (first["metadata"]["name"], first["spec"]["replicas"]) == ("h100-tp2-b32", 3)
    pod = first["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "h100"}
    assert pod["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": 2}
    assert "REPLACE-ME" in pod["containers"][0]["image"]
    assert second["metadata"]["annotations"]["clusterplan/requests-per-s"] == "chat 4.9"


def test_a_replica_wider_than_a_node_says_so() -> None:
    wide = {"name": "a" * 99, "hardware": "l 40/s", "devices": 16, "requests_per_s": {"chat": 99, "long": 9}}
    made = serving().replace(hardware=[{"name": "l 40/s", "price_usd_per_hour": 1}], configurations=[wide])
    text = exported(made, "kubernetes")
    assert "# 16 devices: more than most nodes have" in text
    (one,) = yaml.safe_load_all(text)
    assert len(one["metadata"]["name"]) <= 63
    assert one["spec"]["template"]["spec"]["nodeSelector"] == {"nvidia.com/gpu.product": "l-40-s"}


def test_jobs_are_no_deployments() -> None:
    with pytest.raises(OptionError, match="--format consolidation says on which server each group runs"):
        exported(sharing(), "kubernetes")


@pytest.mark.parametrize(("instance", "jobs", "gpus"), [(sharing(), 3, 14), (serving(), 10, 13)])
def test_each_copy_is_a_job_with_a_place(instance: Any, jobs: int, gpus: int) -> None:
    made = clusterplan.parse_instance(yaml.safe_load(exported(instance, "consolidation")))
    result = clusterplan.solve(made)
    assert clusterplan.verify(made, result).complete
    assert [entry.placed for entry in result.plan] == [True] * jobs
    assert result.objectives[0].value == gpus
    assert {job.gpu_model for job in made.jobs} <= {each.name for each in instance.hardware}


def test_what_the_mix_does_not_say_is_assumed() -> None:
    data = yaml.safe_load(exported(sharing(assumptions=["as measured"]), "consolidation"))
    assert data["assumptions"][0].startswith("Servers have 8 devices each")
    assert data["assumptions"][-2:] == ["2 jobs that the mix lets wait are not in it.", "as measured"]
    assert [(row["count"], row["capacity"]["gpu"]) for row in data["servers"]] == [(1, 8), (1, 6)]
    assert [job.get("assumed") for job in data["jobs"]] == [["runs a1"], ["runs a2"], None]
    assert (data["jobs"][2]["tasks"], data["jobs"][2]["task_demand"]) == (12, {"gpu": 1})


def test_too_many_copies_for_a_line_each_are_refused() -> None:
    plan = [Copies(configuration="a on v100", count=MAX_JOBS + 1)]
    with pytest.raises(OptionError, match="as many jobs"):
        next(consolidation_lines(sharing(), plan))
