"""What has to be done on a running cluster."""

from __future__ import annotations

from collections import Counter

from placements import job, placement, server

from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.planner.consolidation.actions import actions, runs_now, to_carry_out, total

INSTANCE = placement(
    ["migrations"],
    [server("n", gpu=4), server("m", gpu=4)],
    [job("stays", 1, current={"n": 1}), job("moves", 2, current={"n": 2}), job("ends", 1, current={"m": 1})],
)
PLAN = [
    JobPlacement(job="stays", servers={"n": 1}, action="keep"),
    JobPlacement(job="moves", servers={"n": 1, "m": 1}, action="move"),
    JobPlacement(job="ends", placed=False, action="stop"),
]


def test_each_job_is_told_what_to_do() -> None:
    """Those that stay are counted, the others named with their servers."""
    assert list(actions(INSTANCE, PLAN)) == [
        "1 job keeps running where it is",
        "to stop: ends: runs on m 1",
        "to move: moves: from n 1 to m 1",
    ]


def test_only_changes_are_carried_out() -> None:
    """Unless every placed job is asked for."""
    assert [entry.job for entry in to_carry_out(PLAN, every=False)] == ["moves"]
    assert [entry.job for entry in to_carry_out(PLAN, every=True)] == ["stays", "moves"]


def test_tasks_are_summed_over_groups() -> None:
    """By server."""
    assert total({"a": Counter(n=1), "b": Counter(n=2, m=1)}) == Counter(n=3, m=1)
    assert runs_now(INSTANCE)["moves"] == {"tasks": Counter(n=2)}


def test_moves_between_devices_name_the_server() -> None:
    """Where they count; nothing leaves it."""
    entry = JobPlacement(job="moves", servers={"n": 2}, action="move")
    assert list(actions(INSTANCE, [entry])) == ["to move: moves: to other devices of n"]
