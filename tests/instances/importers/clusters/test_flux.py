"""Importer of Flux, on handmade clusters whose plans are known."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from sample_documents import faults, said

import clusterplan
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.instances.importers.clusters.flux import import_flux


def nodes(ranks: str, hosts: str = "", cores: str = "0-7", gpus: str = "0-1", **more: Any) -> dict[str, Any]:
    """Return R: nodes of eight cores and two GPUs, or others."""
    listed = [{"rank": ranks, "children": {"core": cores, "gpu": gpus}}]
    return {"version": 1, "execution": {"R_lite": listed, "nodelist": [hosts], **more}}


ALL = nodes("0-3", "n[1-4]", properties={"fast": "0-1", "batch": "1-3"})


def job(number: int, text: str = "{}") -> dict[str, Any]:
    """Return record, jobspec and R of a job; `text` has fields, what it asks for, and `on`, where it runs."""
    fields = {"cores": 1, "gpus": 1, "slots": 1, "name": f"job{number}", **json.loads(text)}
    parts = [{"type": kind, "count": fields[kind + "s"]} for kind in ("core", "gpu")]
    top = {"type": "slot", "count": fields["slots"], "with": [part for part in parts if part["count"]]}
    spec = {
        "version": 1,
        "resources": [{"type": "node", "with": [top], **fields["per"]} if "per" in fields else top],
        "attributes": {"system": {"constraints": fields.get("constraints")}},
    }
    state, on = ("RUN", nodes(*fields["on"])) if "on" in fields else ("SCHED", None)
    return {"id": number, "jobspec": spec, "R": on, "state": state, **fields}


def imported(folder: Path, *jobs: Any, resources: Any = ALL, **options: Any) -> ConsolidationInstance:
    """Return the instance of a cluster; records do not look at jobspecs, and these at nothing else."""
    texts = {
        "R.json": json.dumps(resources),
        "jobs.json": json.dumps({"jobs": [each for each in jobs if each["name"] != "late"]}),
        "specs.jsonl": "\n".join([*map(json.dumps, jobs), '{"id":9,"jobspec":}']),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    return import_flux(*(folder / name for name in texts), **options)


def test_a_cluster_is_planned_within_what_is_free(tmp_path: Path) -> None:
    """What runs on a drained node leaves it, shares of nodes are on different ones, whole nodes alone."""
    made = imported(
        tmp_path,
        job(1, '{"cores": 2, "on": ["3", "n4", "0-1", "1"], "priority": 7, "jobid": "ƒA"}'),
        job(2, '{"cores": 6, "gpus": 0, "on": ["1", "n2", "0-5", ""]}'),
        job(3, '{"per": {"count": 2}}'),
        job(4, '{"gpus": 0, "per": {"count": 1, "exclusive": true}}'),
        job(5, '{"urgency": 0}'),
        resources={"all": ALL, "down": nodes("3", "n4"), "allocated": None},
    )
    free = "; ".join(
        f"{server.name} {server.free['cpu']:g} {server.free['gpu']:g}" for server in made.servers
    )
    assert free == "n1 8 2; n2 2 2; n3 8 2; n4 0 0"
    jobs = [f"{own.name} {own.value} {own.must_place} {own.max_per_server}" for own in made.jobs]
    assert jobs == ["ƒA job1 1.0 True None", "3 job3 2.0 False 1", "4 job4 2.0 False None"]
    result = clusterplan.solve(made)
    first, apart, alone = (set(entry.servers) for entry in result.plan)
    assert clusterplan.verify(made, result).ok
    assert len(apart) == 2
    assert not alone & (first | apart | {"n2", "n4"})
    assert "To be empty: 1 drained node (else --drained stay): n4." in said(made)
    assert "stay where they run: asks for no GPU 1 (2 job2), state held 1 (5 job5)." in said(made)


def test_what_a_job_holds_that_started_after_the_others_were_listed_is_not_free(tmp_path: Path) -> None:
    made = imported(tmp_path, job(1), job(2, '{"name": "late", "on": ["0", "n1", "0-5", "0-1"]}'))
    assert made.servers[0].free == {"cpu": 2.0, "gpu": 0.0}
    assert "state LATER 1 (2)" in said(made)
    ended = imported(tmp_path, job(1), job(2, '{"on": ["0", "n1", "0-5", "0-1"], "state": "INACTIVE"}'))
    assert ended.servers[0].free == {"cpu": 8.0, "gpu": 2.0}


@pytest.mark.parametrize(
    ("constraint", "allowed"),
    [
        ('{"properties": ["fast"]}', "n1 n2"),
        ('{"properties": ["batch", "^fast"]}', "n3 n4"),
        ('{"properties": ["none"]}', ""),
        ('{"hostlist": ["n[2-3]", "n4"]}', "n2 n3 n4"),
        ('{"ranks": ["0,2-3"]}', "n1 n3 n4"),
        ('{"and": [{"properties": ["fast"]}, {"ranks": ["1", "[2]"]}]}', "n2"),
        ('{"or": [{"hostlist": ["n1"]}, {"ranks": ["3"]}]}', "n1 n4"),
        ('{"not": [{"properties": ["fast"]}, {"properties": ["batch"]}]}', "n1 n3 n4"),
        ('{"not": []}', ""),
        ('{"or": []}', "n1 n2 n3 n4"),
    ],
)
def test_constraints_of_rfc_31(tmp_path: Path, constraint: str, allowed: str) -> None:
    made = imported(tmp_path, job(1, f'{{"constraints": {constraint}}}'))
    (resource,) = made.restrictions or ["cpu"]
    assert [server.name for server in made.servers if server.free[resource]] == allowed.split()


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ('{"state": "DEPEND"}', "state DEPEND"),
        ('{"priority": 0}', "state held"),
        ('{"on": ["1"], "state": "SCHED"}', "state SCHED"),
        ('{"on": ["1"], "state": "CLEANUP"}', "state CLEANUP"),
        ('{"on": ["1", "", "0-7", ""]}', "holds other amounts than it asks for"),
        ('{"on": ["1-2", "", "0", "0"]}', "holds other amounts than it asks for"),
        ('{"state": "RUN", "ranks": "[1]"}', "holds other amounts than it asks for"),
        ('{"state": "RUN", "ranks": "[1]", "R": {"version": 2}}', "R: version: is 2; allowed: 1"),
        ('{"on": ["9", "", "0", "0"]}', "could not start again where it runs"),
        ('{"on": ["3", "", "0", "0"]}', "could not start again where it runs"),
        *(
            (f'{{"ranks": "{text}"}}', f"has '{text}', no set of at most 65,536 numbers")
            for text in ("1234567890", "1-2-3", "3-1", "-")
        ),
        ('{"ranks": "x"}', "has 'x', no set of at most 65,536 numbers such as 0-3,7"),
        ('{"slots": "2-4"}', "jobspec: resources[0].count: is '2-4', which is not a whole number"),
        ('{"jobspec": null}', "jobspec: is None, which is not a mapping of fields"),
        ('{"per": {"count": 1, "type": "rack"}}', "asks for other things than nodes with slots"),
        ('{"per": {"count": 1, "with": []}}', "asks for other things than nodes with slots"),
        ('{"constraints": {"gpus": []}}', "constraints: gpus: unknown key"),
    ],
)
def test_what_cannot_be_planned_is_named_and_stays(tmp_path: Path, fields: str, why: str) -> None:
    """What it holds is not free: all that its nodes have, if its R cannot be read."""
    states = {"all": ALL, "down": nodes("3")}
    made = imported(tmp_path, job(1, fields), job(2), resources=states, drained="stay")
    assert f"stay where they run: {why}" in said(made)
    assert [own.name for own in made.jobs] == ["2 job2"]
    assert (made.servers[1].others == ("1 job1",)) == ('["1' in fields or '"[1]"' in fields)


def test_hosts_belong_to_ranks_in_order(tmp_path: Path) -> None:
    """Also where ranks are not in order, or a host is several nodes."""
    mixed = nodes("2-3", "pi[3,0],asp,asp", cores="0-1")
    mixed["execution"]["R_lite"] += nodes("0-1")["execution"]["R_lite"]
    made = imported(tmp_path, job(1), resources=mixed)
    free = "; ".join(f"{server.name} {server.free['cpu']:g}" for server in made.servers)
    assert free == "pi3 8; pi0 8; asp 2; asp/2 2"


@pytest.mark.parametrize(
    ("resources", "fault"),
    [
        ({}, "R.json: has neither 'execution' nor 'all'; give what flux resource R prints"),
        (nodes("0-3", "n[1-3]"), "R.json: has 4 ranks and 3 hosts"),
        (nodes(""), "R.json: has 0 ranks and 0 hosts"),
        (nodes("0-999999999"), "R.json: has '0-999999999', no set of"),
        (nodes("0", "n[1-999999999]"), "R.json: stands for more than 65,536 nodes"),
        ({"all": ALL, "down": nodes("0-3")}, "R.json: has no node that takes jobs"),
        (ALL, "jobs.json: has no job to plan, of 1: asks for no GPU 1 (1 job1)"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, resources: Any, fault: str) -> None:
    (found,) = faults(lambda: imported(tmp_path, job(1, '{"gpus": 0}'), resources=resources))
    assert found.startswith(f"{tmp_path}/{fault}")


def test_few_jobs_are_kept_on_separate_nodes(tmp_path: Path) -> None:
    """Each of them needs a resource of its own."""
    made = imported(tmp_path, *(job(number, '{"per": {"count": 2}}') for number in range(52)))
    assert "needs several nodes, as do more than 50 jobs 2 (50 job50, 51 job51)" in said(made)


@pytest.mark.parametrize("seed", range(3))
def test_random_clusters_have_plans_within_what_is_free(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    runs = [f'"on": ["{n}", "", "0", "{rng.randrange(2)}"]' for n in range(4)]
    waits = [f'"cores": {rng.randint(1, 4)}, "per": {{"count": {rng.randint(1, 3)}}}' for _ in range(8)]
    down = tmp_path / "down.json"
    down.write_text(json.dumps(nodes(rng.choice("0123"))))
    jobs = [job(number, f"{{{text}}}") for number, text in enumerate(runs + waits)]
    made = imported(tmp_path, *jobs, down=down, running="move" if seed else "stay")
    result = clusterplan.solve(made)
    assert result.status == "optimal"
    assert clusterplan.verify(made, result).ok
