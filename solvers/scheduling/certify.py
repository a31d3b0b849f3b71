"""Certificates of schedules: none, for the check derives the elementary bound by itself."""

from __future__ import annotations

from ...formulations.common.objective import Diagnosis
from ...formulations.scheduling.formulation import SchedulingFormulation
from ..common.base import Clock, Outcome


def certify(formulation: SchedulingFormulation, outcome: Outcome, clock: Clock) -> None:
    """Add nothing."""
    del formulation, outcome, clock


def diagnose(formulation: SchedulingFormulation, known: Diagnosis | None, clock: Clock) -> Diagnosis | None:
    """Return what is known; a trace has a schedule unless events take the place of its jobs for ever."""
    del formulation, clock
    return known
