"""Plans of consolidation as node affinity of Kubernetes, a YAML document for each group of pods."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence

from ...formulations.consolidation.plan import JobPlacement
from ...instances.consolidation.instance import ConsolidationInstance
from .actions import check_nodes
from .devices import in_words

LONGEST_LABEL = 63

_NODE = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


def kubernetes_lines(instance: ConsolidationInstance, placed: Sequence[JobPlacement]) -> Iterator[str]:
    """Return a YAML document for each group of pods: a patch of what has the pods' template.

    Text from outside stands in double quotes, as in JSON, which YAML reads alike. Kubernetes takes one name
    of a node a condition, and a node need meet only one of several terms.

    Raises
    ------
    InstanceError
        If a server's name cannot be a node's.
    """
    jobs = {job.name: {group.name: group.asks for group in job.task_groups} for job in instance.jobs}
    taken: set[str] = set()
    for entry in placed:
        for group, servers in entry.tasks.items():
            check_nodes(entry.job, servers, _NODE, "a Kubernetes node: a-z, 0-9, '-', and '.' between them")
            name = _object_name(entry.job if entry.groups is None else f"{entry.job}-{group}", taken)
            counts = ", ".join(f"{server} {count}" for server, count in servers.items())
            annotations = {"clusterplan/job": entry.job}
            if entry.groups is not None:
                annotations["clusterplan/group"] = group
            yield "---"
            yield f"# Pods per node: {counts}. Affinity alone does not hold them to these numbers."
            for server, tasks in (entry.devices or {}).get(group, {}).items():
                held = in_words(tasks, jobs[entry.job][group])
                yield f"# Devices on {server}: {held}. Affinity does not choose devices."
            yield "metadata:"
            yield f"  name: {_quoted(name)}"
            yield "  annotations:"
            yield from (f"    {key}: {_quoted(value)}" for key, value in annotations.items())
            yield "spec:"
            yield "  template:"
            yield "    spec:"
            yield "      affinity:"
            yield "        nodeAffinity:"
            yield "          requiredDuringSchedulingIgnoredDuringExecution:"
            yield "            nodeSelectorTerms:"
            for server in servers:
                yield "              - matchFields:"
                yield "                  - key: metadata.name"
                yield "                    operator: In"
                yield f"                    values: [{_quoted(server)}]"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _object_name(text: str, taken: set[str]) -> str:
    """Return the DNS label nearest to a text; with a digest of it where that is another's, or too long."""
    plain = name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    digest = text
    while not name or len(name) > LONGEST_LABEL or name in taken:
        digest = hashlib.sha256(digest.encode()).hexdigest()[:8]
        name = f"{plain[: LONGEST_LABEL - 9].strip('-') or 'job'}-{digest}"
    taken.add(name)
    return name
