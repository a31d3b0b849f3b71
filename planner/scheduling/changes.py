"""What a schedule does, and what becomes different when another takes its place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ...formulations.scheduling.formulation import SchedulingFormulation
from ...formulations.scheduling.plan import Segment
from ...instances.common.errors import OptionError
from ...instances.scheduling.instance import SchedulingInstance
from ..changes import Amount, Changes, changed
from ..output.text import figure
from ..reports.text import counted, duration


def answer(instance: SchedulingInstance, plan: Sequence[Segment]) -> str:
    """Return how long jobs take and wait, in a sentence."""
    found = SchedulingFormulation(instance).metrics(plan)
    return (
        f"{counted(len(instance.jobs), 'job')} take {duration(found.mean_s)} on average, of which they wait "
        f"{duration(found.mean_queueing_s)}; the last ends after {duration(found.makespan_s)}."
    )


def changes(
    instance: SchedulingInstance, before: Sequence[Segment] | None, after: Sequence[Segment]
) -> Changes:
    """Return which jobs end at another time, and how the figures differ.

    Raises
    ------
    OptionError
        Without a plan before: an instance of scheduling does not say what runs now.
    """
    if before is None:
        raise OptionError("an instance of scheduling does not say what runs now; give two results to compare")
    formulation = SchedulingFormulation(instance)
    found, stay = changed(_told(before), _told(after), "move")
    old, new = formulation.metrics(before), formulation.metrics(after)
    amounts = [
        Amount("mean completion time [s]", old.mean_s, new.mean_s),
        Amount("99th percentile [s]", old.p99_s, new.p99_s),
        Amount("makespan [s]", old.makespan_s, new.makespan_s),
        Amount("preemptions", old.preemptions, new.preemptions),
    ]
    return Changes("job", found, stay, 0, amounts)


def _told(plan: Sequence[Segment]) -> dict[str, str]:
    """Return when each job runs, in words."""
    times: dict[str, list[Segment]] = defaultdict(list)
    for entry in plan:
        times[entry.job].append(entry)
    return {
        job: f"{figure(min(e.start_s for e in entries))}–{figure(max(e.end_s for e in entries))} s"
        + (f" in {len(entries)} parts" if len(entries) > 1 else "")
        for job, entries in times.items()
    }
