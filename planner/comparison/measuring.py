"""The measures of plans, taken as their solves end, since plans are too large to be kept."""

from __future__ import annotations

from collections.abc import Mapping

from ...formulations.registry import formulate
from ...instances.common.base import Instance
from ...instances.common.errors import ClusterplanError
from ...instances.documents import load
from ..batch.record import Record
from ..registry import KINDS
from .measures import Measures


class Measurer:
    """Takes the measures of plans of those kinds that declare some.

    Parameters
    ----------
    named
        The sources by their labels.
    allow_outside
        Whether files that a source names may lie outside its own folder.

    Attributes
    ----------
    taken
        The measures by source and solver.
    faults
        Why some could not be taken, each in a sentence.
    """

    def __init__(self, named: Mapping[str, str | Instance], allow_outside: bool) -> None:
        self._named, self._allow_outside = named, allow_outside
        self._read: tuple[str, Instance] | None = None
        self.taken: dict[tuple[str, str], Measures] = {}
        self.faults: list[str] = []

    def take(self, record: Record) -> None:
        """Take the measures of a record's plan, if its kind has any."""
        result = record.result
        if result is None or not result.plan:
            return
        declared = KINDS[result.kind].comparison
        if declared is None:
            return
        try:
            instance = self._instance(record.source)
        except ClusterplanError as error:
            self._fault(record, f"could not be read again: {error}")
            return
        if instance.sha256() != result.instance_sha256:
            self._fault(record, "has changed since it was solved")
        elif formulate(instance).violations(result.plan):  # a journal may hold anything
            self._fault(record, f"the plan of {record.solver} breaks its constraints")
        else:
            self.taken[record.source, record.solver] = declared.measures(instance, result.plan)

    def _instance(self, source: str) -> Instance:
        """Return the instance of a label; the last one is kept, since its solves follow each other."""
        given = self._named[source]
        if isinstance(given, Instance):
            return given
        if self._read is None or self._read[0] != source:
            self._read = source, load(given, self._allow_outside)
        return self._read[1]

    def _fault(self, record: Record, why: str) -> None:
        said = f"{record.source}: {why}; its plans have no measures"
        if said not in self.faults:
            self.faults.append(said)
