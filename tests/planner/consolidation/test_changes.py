"""What a plan of consolidation changes for jobs, servers and money.

What a scenario changes in an instance of consolidation.
"""

from __future__ import annotations

from typing import Any

import pytest
from sample_documents import CONSOLIDATION

import clusterplan
from clusterplan.formulations.consolidation.plan import entry_of
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.planner.changes import Amount, Change, place_columns
from clusterplan.planner.consolidation.changes import MAX_NAMED, changes, current_plan, remarks, what_if
from clusterplan.planner.reports.text import cells_of


def cluster(**changed: Any) -> ConsolidationInstance:
    """Return two servers of 4 GPUs and three jobs, two of which run."""
    document = {
        "name": "x",
        "servers": [{"name": "s", "count": 2, "capacity": {"gpu": 4}}],
        "jobs": [
            {"name": "split", "tasks": 2, "task_demand": {"gpu": 1}, "current": {"s-0": 1, "s-1": 1}},
            {"name": "still", "tasks": 1, "task_demand": {"gpu": 1}, "current": {"s-0": 1}},
            {"name": "new", "tasks": 1, "task_demand": {"gpu": 4}},
        ],
    }
    return ConsolidationInstance.model_validate(document | changed)


def test_against_what_runs_now() -> None:
    instance = cluster()
    split, still, new = instance.jobs
    plan = [
        entry_of(split, {"tasks": {"s-0": 2}}).model_copy(update={"action": "move"}),
        entry_of(still, {"tasks": {"s-0": 1}}).model_copy(update={"action": "keep"}),
        entry_of(new, {"tasks": {"s-1": 1}}).model_copy(update={"action": "start"}),
    ]
    found = changes(instance, None, plan)
    assert found.changes == [
        Change("split", "move", "1×s-0, 1×s-1", "2×s-0"),
        Change("new", "start", "", "1×s-1"),
    ]
    assert (found.stay, found.wait) == (1, 0)
    assert found.amounts == [Amount("gpu in use", 3, 7, 8), Amount("servers in use", 2, 2, 2)]
    assert found.places == [Amount("s-0", 2, 3, 4), Amount("s-1", 1, 4, 4)]


def test_a_server_that_is_to_be_empty_has_what_it_had() -> None:
    instance = cluster(drain=["s-0"])
    split = entry_of(instance.jobs[0], {"tasks": {"s-1": 2}}).model_copy(update={"action": "move"})
    found = changes(instance, None, [split])
    assert found.places == [Amount("s-0", 2, 0, 4, "to be empty"), Amount("s-1", 1, 2, 4)]
    (shown, *_), _ = cells_of(place_columns("gpu on server"), found.places)
    assert shown == "s-0, to be empty"


def test_what_is_assumed_about_jobs_that_start_or_move_is_said() -> None:
    """Each sentence once, with the jobs; of the other assumptions their number."""
    jobs = [{**job, "assumed": ["Alike.", job["name"]]} for job in cluster().document()["jobs"]]
    instance = cluster(jobs=jobs, assumptions=["One.", "Two."])
    split, still, new = instance.jobs
    plan = [
        entry_of(split, {"tasks": {"s-0": 2}}).model_copy(update={"action": "move"}),
        entry_of(still, {"tasks": {"s-0": 1}}).model_copy(update={"action": "keep"}),
        entry_of(new, {"tasks": {"s-1": 1}}).model_copy(update={"action": "start"}),
    ]
    said = [
        "assumed of split, new: Alike.",
        "assumed of split: split",
        "assumed of new: new",
        "2 assumptions: see `assumptions` in the instance",
    ]
    assert list(remarks(instance, plan)) == said
    assert list(changes(instance, None, plan).notes) == said
    assert list(changes(instance, plan, plan).notes) == said[-1:]


def test_money_of_servers_in_use() -> None:
    """Where prices are known; how many servers have none is said."""
    gpu = {"capacity": {"gpu": 4}}
    servers = [{"name": "s", "count": 2, **gpu, "price_usd_per_hour": 3}, {"name": "t", **gpu}]
    instance = cluster(servers=servers)
    split, still, new = instance.jobs
    plan = [
        entry_of(split, {"tasks": {"s-0": 2}}).model_copy(update={"action": "move"}),
        entry_of(still, {"tasks": {"s-0": 1}}).model_copy(update={"action": "keep"}),
        entry_of(new, {"tasks": {"t": 1}}).model_copy(update={"action": "start"}),
    ]
    name = "USD per hour of servers in use (1 of 3 servers have no price)"
    assert changes(instance, None, plan).amounts[-1] == Amount(name, 6, 3, 6)


def test_a_job_that_keeps_running_need_not_say_on_which_devices() -> None:
    devices = {"gpu": {"count": 4}}
    instance = cluster(
        servers=[{"name": "s", "count": 2, "capacity": {"cpu": 1}, "devices": devices}],
        jobs=[{"name": "j", "tasks": 1, "task_demand": {}, "devices": {"gpu": 1}, "current": {"s-0": 1}}],
    )
    now = current_plan(instance)
    named = now[0].model_copy(update={"devices": {"tasks": {"s-0": ({"gpu": ("2",)},)}}, "action": "keep"})
    assert changes(instance, None, [named]).stay == 1


DEVICES = {"gpu": {"count": 2, "taken": [{"device": 0, "share": 500}]}}


def scenario(key: str, text: str, **document: Any) -> ConsolidationInstance:
    """Return the instance after one change."""
    instance = ConsolidationInstance.model_validate({**CONSOLIDATION, **document})
    return instance.replace(**what_if(instance)[key].fields(instance, text))


def changed(key: str, text: str, **document: Any) -> Any:
    """Return the document after one change."""
    return scenario(key, text, **document).document()


def test_drain_is_the_field_of_the_instance() -> None:
    """Rows stay as they are, so that a plan is of the instance with another field."""
    found = scenario("drain", "n-1")
    assert (found.drain, found.drained) == (("n-1",), {"n-1"})
    assert found.replace(drain=["n"]).drained == {"n-0", "n-1"}
    assert changed("drain", "n-1")["servers"] == cluster(**CONSOLIDATION).document()["servers"]


def test_draining_a_row_a_rack_or_a_pattern_drains_all_of_it() -> None:
    servers = [{"name": "n", "count": 2, "rack": "r", "capacity": {"gpu": 1, "cpu": 1}}]
    for text in ("n", "n-*", "r"):
        assert scenario("drain", text, servers=servers).drain == ("n-0", "n-1")


def test_a_drained_row_of_many_servers_is_named_once() -> None:
    servers = [{"name": "n[1]", "count": MAX_NAMED + 1, "capacity": {"gpu": 1, "cpu": 1}}]
    for text, wanted in (("n[1]", "n[[]1]"), ("*", "*")):
        found = scenario("drain", text, servers=servers)
        assert (found.drain, len(found.drained)) == ((wanted,), MAX_NAMED + 1)


def test_a_drained_server_leaves_the_objectives_as_they_are() -> None:
    """And who may be stopped; where servers are drained already, these rules hold for more of them."""
    jobs = [{"name": "j", "tasks": 1, "task_demand": {"gpu": 1}, "current": {"n-0": 1}}]
    before = ConsolidationInstance.model_validate({**CONSOLIDATION, "jobs": jobs})
    after = scenario("drain", "n-0", jobs=jobs)
    assert (after.objectives, after.has_aim) == (before.objectives, False)
    assert not after.requires(after.jobs[0])
    both = scenario("drain", "n-0", jobs=jobs, drain=["n-1"])
    assert (both.drain, both.objectives[0], both.has_aim) == (("n-1", "n-0"), "migrations", True)


def test_a_job_on_a_drained_server_moves() -> None:
    jobs = [{"name": "j", "tasks": 2, "task_demand": {"gpu": 1}, "current": {"n-0": 2}}]
    instance = clusterplan.parse_instance(changed("drain", "n-0", jobs=jobs))
    (entry,) = clusterplan.solve(instance).plan or ()
    assert (entry.action, entry.used_servers) == ("move", {"n-1"})


def test_added_servers_are_empty_and_like_the_one_that_is_named() -> None:
    servers = [{"name": "a", "rack": "r", "capacity": {"gpu": 4, "cpu": 8}, "free": {"gpu": 1}}]
    found = changed("add", "2xa", servers=servers)["servers"]
    assert [s["name"] for s in found] == ["a", "a-added-1", "a-added-2"]
    assert found[0]["free"] == {"gpu": 1}
    assert "free" not in found[1]
    assert found[1]["capacity"] == {"gpu": 4, "cpu": 8}


def test_servers_that_are_added_later_are_not_drained() -> None:
    """Although their names match the pattern, and they stand in the same rack."""
    servers = [{"name": "a", "rack": "r", "capacity": {"gpu": 4, "cpu": 8}}]
    for text in ("a*", "r"):
        instance = scenario("drain", text, servers=servers)
        more = instance.replace(**what_if(instance)["add"].fields(instance, "a"))
        assert ([server.name for server in more.servers], more.drained) == (["a", "a-added-1"], {"a"})


def test_added_servers_of_a_model_are_like_most_of_it() -> None:
    servers = [
        {"name": "a", "gpu_model": "H100", "capacity": {"gpu": 4, "cpu": 1}},
        {"name": "b", "count": 3, "gpu_model": "H100", "capacity": {"gpu": 8, "cpu": 2}, "free": {"gpu": 1}},
    ]
    found = changed("add", "h100", servers=servers)["servers"][-1]
    assert (found["name"], found["capacity"]["gpu"]) == ("b-added-1", 8)
    assert not {"count", "free"} & found.keys()
    with pytest.raises(OptionError, match="there are: models H100; a, b"):
        changed("add", "a100", servers=servers)


def test_devices_of_an_added_server_are_free() -> None:
    servers = [{"name": "d", "capacity": {"cpu": 4}, "devices": DEVICES}]
    jobs = [{"name": "j", "tasks": 1, "task_demand": {"cpu": 1}}]
    assert changed("add", "1xd", servers=servers, jobs=jobs)["servers"][1]["devices"] == {"gpu": {"count": 2}}


def test_jobs_are_removed_valued_and_demanded() -> None:
    assert [job["name"] for job in changed("remove", "p")["jobs"]] == ["j"]
    assert [job.get("value") for job in changed("value", "p:+3")["jobs"]] == [None, 5]
    assert [job["must_place"] for job in changed("must-place", "j")["jobs"]] == [True, False]
    with pytest.raises(OptionError, match="there is no job 'x'"):
        changed("remove", "x")
