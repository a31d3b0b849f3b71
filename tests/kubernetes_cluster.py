"""A stand-in for a Kubernetes cluster, and its objects."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from clusterplan.instances.importers.clusters.kubernetes_cluster import Cluster
from clusterplan.instances.importers.clusters.kubernetes_objects import KubernetesOptions, Node, Pod

SCHEMAS = json.loads(Path(__file__).with_name("kubernetes_schemas.json").read_text(encoding="utf-8"))
POD = {"spec": {"containers": [{"name": "main", "image": "i"}]}}
TEMPLATE = {"template": POD}
SELECTED = {**TEMPLATE, "replicas": 2, "selector": {"matchLabels": {"app": "x"}}}
LEAST: dict[str, dict[str, Any]] = {
    "jobs.batch": TEMPLATE,
    "jobsets.jobset.x-k8s.io": {"replicatedJobs": [{"name": "workers", "template": {"spec": TEMPLATE}}]},
    "pytorchjobs.kubeflow.org": {"pytorchReplicaSpecs": {"Worker": TEMPLATE}},
    "mpijobs.kubeflow.org": {"mpiReplicaSpecs": {"Launcher": TEMPLATE, "Worker": TEMPLATE}},
    "deployments.apps": SELECTED,
    "statefulsets.apps": {**SELECTED, "serviceName": "x"},
    "pods": POD["spec"],
}
"""The specification of the smallest object of each kind."""
KUBECTL = r"""#!/usr/bin/env bash
set -u
all="$*" kind= name= patch= namespace=
printf -v line '%s\x1f' "$@"
printf '%s\n' "$line" >> "$CLUSTER/log"  # in one piece, for another may write at the same moment
words=("$@")
for i in "${!words[@]}"; do
  next=${words[i + 1]:-}
  case ${words[i]} in
    -n) namespace=$next ;;
    -p) patch=$next ;;
    -l) case $next in *=*) name=${next##*=} ;; esac ;;
    *metadata.name=*) name=${words[i]##*metadata.name=}; name=${name%%,*} ;;
    get | patch | scale | delete) [ "$next" = --local ] || kind=$next; [ "${next#p}" != ods ] || next=pods ;;
  esac
done
runs="$CLUSTER/runs/$name"
case $all in
  *--dry-run=server*) [ ! -e "$CLUSTER/refuse" ] ;;
  "get nodes "*) echo ;;
  "cordon "* | "uncordon "* | *" auth can-i "*) ;;
  *" get pods -l "*) [ ! -e "$runs" ] || cat "$runs" ;;
  *" get jobs.batch -l "*) name=${all#*jobset-name=}; echo "job.batch/${name%%,*}-workers-0" ;;
  *" -o go-template="*) echo "app=${words[4]}," ;;
  *"patch --local -f "*.spec.replicas*) echo 2 ;;
  *"patch --local -f "*) file=${words[3]}; echo "${file##*.}" ;;
  "create -f -") read -r name; cp "$CLUSTER/planned/$name" "$CLUSTER/runs/$name" ;;
  *" get "*" -o jsonpath="*) ;;
  *" get "*" -o json") echo '{}' ;;
  *" get "*" -o name") echo "$kind/x" ;;
  *" wait pods "*) [ ! -e "$runs" ] ;;
  *" delete jobs.batch "*) ;;
  *" delete pods "*) rm -f "$CLUSTER/runs/${words[4]}" ;;
  *" scale "*--replicas=0*) rm -f "$CLUSTER/runs/${words[4]}" ;;
  *" scale "*) cp "$CLUSTER/planned/${words[4]}" "$CLUSTER/runs/${words[4]}" ;;
  *" patch "*) name=${words[4]%-workers-0}
    case $patch in
      *'"suspend":true'*) rm -f "$CLUSTER/runs/$name"; touch "$CLUSTER/suspended/$name" ;;
      *'"suspend":false'*)
        rm "$CLUSTER/suspended/$name"; touch "$CLUSTER/started/$name"
        if [ -e "$CLUSTER/planned/$name" ]; then cp "$CLUSTER/planned/$name" "$CLUSTER/runs/$name"; fi ;;
      *'"completions"'*) ;; # an indexed Job may change both numbers together, suspended or not
      *startTime*) rm -f "$CLUSTER/started/$name" ;;
      *)
        case $kind in jobs.batch | jobsets.*)
          if [ "$kind" != jobs.batch ] || [ -e "$CLUSTER/started/$name" ] ||
            [ ! -e "$CLUSTER/suspended/$name" ]; then
            echo "$kind $name: field is immutable" >&2; exit 1
          fi ;;
        esac ;;
    esac ;;
  *) echo "unknown: $all" >&2; exit 9 ;;
esac
"""


@dataclass(frozen=True)
class FakeCluster:
    """The folder in which the stand-in keeps what runs and what it was asked."""

    folder: Path

    @classmethod
    def made(
        cls, folder: Path, now: Mapping[str, list[str]], planned: Mapping[str, list[str]]
    ) -> FakeCluster:
        """Return a cluster; object → the server of each pod, now and after it was placed."""
        for name in ("runs", "planned", "suspended", "started", "bin"):
            (folder / name).mkdir()
        for part, servers in (("runs", now), ("planned", planned), ("started", now)):
            for name, pods in servers.items():
                (folder / part / name).write_text("".join(f"{pod}\n" for pod in pods), encoding="utf-8")
        (folder / "log").touch()
        (folder / "bin" / "kubectl").write_text(KUBECTL, encoding="utf-8")
        (folder / "bin" / "kubectl").chmod(0o755)
        return cls(folder)

    def bash(self, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a script with bash."""
        path = self.folder / "plan.sh"
        path.write_text(script, encoding="utf-8")
        settings = {"CLUSTER": str(self.folder), "TIMEOUT": "1", "PAUSE": "0.1"}
        environment = {**os.environ, **settings, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}
        return subprocess.run(
            ["bash", str(path), *arguments],
            env=environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def runs(self) -> dict[str, list[str]]:
        """Return object → the server of each pod that runs."""
        found = sorted((self.folder / "runs").iterdir())
        return {path.name: path.read_text(encoding="utf-8").split() for path in found}

    def commands(self) -> list[list[str]]:
        """Return what kubectl was asked, and forget it."""
        text = (self.folder / "log").read_text(encoding="utf-8")
        (self.folder / "log").write_text("", encoding="utf-8")
        return [line.split("\x1f")[:-1] for line in text.split("\n") if line]


def merged(value: Any, patch: Any) -> Any:
    """Return what a JSON merge patch makes of a value (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    kept = dict(value) if isinstance(value, dict) else {}
    for key, change in patch.items():
        if change is None:
            kept.pop(key, None)
        else:
            kept[key] = merged(kept.get(key), change)
    return kept


def wrong_in(resource: str, patch: Mapping[str, Any]) -> list[str]:
    """Return what the schema of a resource has against the smallest object of its kind after a patch."""
    document = merged({"metadata": {"name": "x"}, "spec": LEAST[resource]}, patch)
    schema = {**SCHEMAS["resources"][resource], "$defs": SCHEMAS["$defs"]}
    return [
        f"{fault.json_path}: {fault.message}" for fault in Draft202012Validator(schema).iter_errors(document)
    ]


def node(name: str, gpus: int = 4, labels: dict[str, str] | None = None, **spec: Any) -> Node:
    """Return a node that is ready."""
    status = {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "10", "nvidia.com/gpu": str(gpus)}}
    status |= {"conditions": [{"type": "Ready", "status": "True"}]}
    return Node.model_validate({"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status})


def pod(name: str, gpus: int, on: str | None = None, **spec: Any) -> Pod:
    """Return a pod that waits, or runs on a node."""
    requests = {"cpu": "500m", "memory": "1Gi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    spec = {"containers": [{"resources": {"requests": requests}}], "nodeName": on, **spec}
    status = {"phase": "Running" if on else "Pending"}
    return Pod.model_validate({"metadata": {"name": name, "namespace": "t"}, "spec": spec, "status": status})


def cluster(*pods: Pod, nodes: tuple[Node, ...] = (), **options: Any) -> Cluster:
    """Return a cluster of two nodes, one of them cordoned."""
    files = {"nodes": Path("n"), "pods": Path("p")}
    listed = nodes or (node("a"), node("b", unschedulable=True))
    return Cluster(listed, pods, KubernetesOptions(**files, **options))
