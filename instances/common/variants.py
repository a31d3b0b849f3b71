"""Variants of a training job: what a worker and a parameter server take, how many there may be, how fast."""

from __future__ import annotations

from .fields import NONE_NAMED, Amounts, Checked, Complaint, Name, TaskCount
from .rules import complaints, range_rules, variant_rules
from .speed import Speed


class Range(Checked):
    """How many tasks of one sort a job may have, both ends included."""

    min: TaskCount = 1
    max: TaskCount

    def _complaints(self) -> list[Complaint]:
        return complaints(range_rules(self.min, self.max), least=self.min, most=self.max)


class Variant(Checked):
    """One way to run a job, for instance on one GPU model; a plan picks one variant.

    Attributes
    ----------
    worker_demand, ps_demand
        What one worker and one parameter server take of each resource (O and N of the paper).
    workers, ps
        Allowed numbers of tasks; a `table` lists its configurations and needs neither, and
        `ring_allreduce` has no parameter servers.
    """

    name: Name
    worker_demand: Amounts
    ps_demand: Amounts = NONE_NAMED
    workers: Range | None = None
    ps: Range | None = None
    speed: Speed

    def _complaints(self) -> list[Complaint]:
        model = self.speed.model
        sort = (model == "table", model == "ring_allreduce", model in ("ps_sync", "ps_async"))
        workers, ps = (1 if limits is None else limits.min for limits in (self.workers, self.ps))
        rules = variant_rules(sort, self.workers is not None, workers, self.ps is not None, ps)
        return complaints(rules, model=model)
