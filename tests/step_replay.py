"""Goes through the steps of a plan on the model, with its own accounts, and checks every moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction

from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.planner.consolidation.migration_steps import migration_of
from clusterplan.planner.migration import steps as migration
from clusterplan.planner.migration.steps import Step

Tasks = Mapping[str, Mapping[str, int]]


def overfull(instance: ConsolidationInstance, places: Mapping[str, Tasks]) -> set[str]:
    """Return the servers that hold more of a resource, or of whole devices, than they have."""
    groups = {(job.name, group.name): group for job in instance.jobs for group in job.task_groups}
    used: defaultdict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for job, tasks in places.items():
        for name, placed in tasks.items():
            for server, count in placed.items():
                for resource, amount in groups[job, name].demand.items():
                    used[server, resource] += Fraction(amount) * count
                for device, ask in groups[job, name].asks.items():
                    used[server, f"devices {device}"] += Fraction(ask.thousandths * count, 1000)
    has: dict[tuple[str, str], Fraction] = {}
    for server in instance.expanded_servers:
        for resource, amount in server.available.items():
            has[server.name, resource] = Fraction(amount)
        for device, states in server.device_states.items():
            free = sum(1000 - s.used if s.mode == "shared" else 1000 * (s.mode == "free") for s in states)
            has[server.name, f"devices {device}"] = Fraction(free, 1000)
    slack = Fraction(1, 10**8)
    return {key[0] for key, amount in used.items() if amount > has.get(key, Fraction(0)) + slack}


def steps(instance: ConsolidationInstance, entries: Sequence[JobPlacement]) -> list[Step]:
    """Return the steps of a plan."""
    made = migration_of(instance, entries)
    return migration.steps(made.jobs, made.fits)


def replay(instance: ConsolidationInstance, entries: Sequence[JobPlacement], steps: Sequence[Step]) -> None:
    """Check that each step can be taken, that it fills no server beyond what it has, and the end.

    Raises
    ------
    AssertionError
        At the first step that cannot be.
    """
    places: dict[str, Tasks] = {
        job.name: now
        for job in instance.jobs
        if (now := {group.name: dict(group.current) for group in job.task_groups if group.current})
    }
    held: set[str] = set()
    for step in steps:
        if step.do == "hold":
            assert step.job not in places, f"{step.job} runs, and cannot be held"
            held.add(step.job)
        elif step.do == "stop":
            assert places.pop(step.job) == step.tasks
            held.add(step.job)
        elif step.do == "place":
            assert step.job in held, f"{step.job} could start before"
            held.remove(step.job)
            places[step.job] = step.tasks
            assert not overfull(instance, places) & set(step.servers), f"no room for {step}"
        else:
            held.remove(step.job)
    assert not held, f"still held: {held}"
    wanted = {
        entry.job: {g: dict(placed) for g, placed in entry.tasks.items() if placed} for entry in entries
    }
    assert places == {job: tasks for job, tasks in wanted.items() if tasks}
