"""Plans of consolidation for Kubernetes: a script where jobs say which objects they are, else affinity."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence

from ...formulations.consolidation.plan import JobPlacement
from ...instances.consolidation.instance import ConsolidationInstance
from .actions import KUBERNETES_NODE, check_nodes, to_carry_out
from .devices import in_words
from .kubernetes_script import script_lines

LONGEST_LABEL = 63


def kubernetes_plan(instance: ConsolidationInstance, entries: Sequence[JobPlacement]) -> Iterator[str]:
    """Return a script that carries a plan out; where no job says which object it is, patches of templates."""
    if any(job.workload is not None for job in instance.jobs):
        return script_lines(instance, entries)
    return kubernetes_lines(instance, to_carry_out(entries, every=False))


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
            check_nodes(entry.job, servers, *KUBERNETES_NODE)
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
