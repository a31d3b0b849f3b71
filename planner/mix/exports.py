"""Exports of mix plans: Deployments of Kubernetes for replicas, and an instance of consolidation for all."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

from ...formulations.mix.formulation import MixFormulation
from ...formulations.mix.plan import Copies, Plan
from ...instances.common.errors import OptionError
from ...instances.common.fields import Fields
from ...instances.mix.instance import Configuration, MixInstance
from ..migration.nodes import LONGEST_LABEL, object_name
from ..reports.text import counted
from .plan import as_data, rates_text, waiting

GPU = "nvidia.com/gpu"
IMAGE = "registry.example/REPLACE-ME:latest"
HEAD = (
    "# A STARTING POINT, not a finished rollout: give each Deployment the image and the arguments of your",
    "# server, with the parallelism and the batch of its configuration; name GPU models as your nodes do",
    f"# (kubectl get nodes -L {GPU}.product); add probes, Services and what routes each type of request.",
)
MAX_JOBS = 200_000
PER_SERVER = 8
"""Devices of a server, where an export has to say of servers what the instance does not."""


def kubernetes_lines(instance: MixInstance, plan: Plan) -> Iterator[str]:
    """Yield the lines of a Deployment for each configuration, as YAML.

    Raises
    ------
    OptionError
        If the plan is of jobs, which no Deployment runs.
    """
    import yaml

    if not instance.serves:
        raise OptionError(
            f"{instance.name}: has jobs, and a Deployment is for replicas that serve requests; "
            "--format consolidation says on which server each group runs"
        )
    known, taken = MixFormulation(instance).configurations, set[str]()
    yield from HEAD
    for entry in plan:
        one = known[entry.configuration]
        yield "---"
        if one.devices > PER_SERVER:
            yield f"# {one.devices} devices: more than most nodes have; such a replica needs pods on several."
        document = _deployment(one, entry, object_name(one.name, taken))
        yield from yaml.safe_dump(document, sort_keys=False, allow_unicode=True).splitlines()


def _deployment(one: Configuration, entry: Copies, name: str) -> Fields:
    model = re.sub(r"[^A-Za-z0-9]+", "-", one.hardware)[:LONGEST_LABEL].strip("-") or "REPLACE-ME"
    container = {"name": "server", "image": IMAGE, "resources": {"limits": {GPU: one.devices}}}
    pod = {"nodeSelector": {f"{GPU}.product": model}, "containers": [container]}
    about = {"clusterplan/configuration": one.name}
    about["clusterplan/requests-per-s"] = rates_text(entry.requests_per_s or {})
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "annotations": about},
        "spec": {
            "replicas": entry.count,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        },
    }


def consolidation_lines(instance: MixInstance, plan: Plan) -> Iterator[str]:
    """Yield the lines of an instance of consolidation, in which each copy is a job that holds whole devices.

    Its rows are JSON, which YAML reads alike.

    Raises
    ------
    OptionError
        If there are too many copies, each of which would be a line.
    """
    copies_of_all = sum(entry.count for entry in plan)
    if copies_of_all > MAX_JOBS:
        raise OptionError(f"{copies_of_all:,} copies would be as many jobs; at most {MAX_JOBS:,} are written")
    formulation = MixFormulation(instance)
    wait = sum(waiting(instance, plan).values())
    head = {
        "schema_version": 1,
        "kind": "consolidation",
        "name": f"{instance.name[:190]}-copies",
        "source": f"the plan of the mix {instance.name}",
        "assumptions": [
            f"Servers have {PER_SERVER} devices each: the mix says only how many of each model there are.",
            "Each copy of a configuration is a job that holds its devices alone; who shares them is settled.",
            *([f"{counted(wait, 'job')} that the mix lets wait are not in it."] if wait else ()),
            *instance.assumptions,
        ],
    }
    yield from (f"{key}: {_json(value)}" for key, value in head.items())
    yield "servers:"
    used, models = formulation.devices(plan), {each.name for each in instance.hardware}
    for each in instance.hardware:
        whole, rest = divmod(used[each.name] if each.limit is None else each.limit, PER_SERVER)
        names = (f"{each.name[:180]}-rest{number or ''}" for number in itertools.count())
        left = next(name for name in names if name not in models)
        for name, count, devices in ((each.name, whole, PER_SERVER), (left, 1, rest)):
            if used[each.name] and count and devices:
                row = {"name": name, "count": count, "capacity": {"gpu": devices}, "gpu_model": each.name}
                yield f"  - {_json(row)}"
    yield "jobs:"
    for index, copies in enumerate(as_data(instance, plan)["configurations"], 1):
        devices = copies["devices"]
        part = devices if devices <= PER_SERVER else 1  # what is wider than a server runs on several
        row = {"tasks": devices // part, "task_demand": {"gpu": part}, "gpu_model": copies["hardware"]}
        row |= {"spread": "preferred"} if part < devices else {}
        jobs = copies.get("names") or [[]] * copies["copies"]
        for number, inside in enumerate(jobs, 1):
            named = {"name": f"{copies['configuration'][:170]} #{index}.{number}"}
            assumed = {"assumed": [f"runs {', '.join(inside)}"[:300]]} if inside else {}
            yield f"  - {_json(named | row | assumed)}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
