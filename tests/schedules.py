"""Scheduling instances written as documents, and plans written as rows, for tests."""

from __future__ import annotations

from typing import Any

import yaml

from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.formulations.scheduling.plan import Segment
from clusterplan.instances.common.faults import validated
from clusterplan.instances.scheduling.instance import SchedulingInstance


def described(document: str, fields: str = "", **more: Any) -> SchedulingInstance:
    """Return the instance `t` of a document in YAML, with other fields in YAML or as they are."""
    parts = {**yaml.safe_load(document), **(yaml.safe_load(fields) or {}), **more}
    return validated(SchedulingInstance, {"name": "t", **parts}, "t")


def plan_of(*rows: tuple[Any, ...]) -> tuple[Segment, ...]:
    """Return segments of job, start, end, and of configuration and servers where there are any."""
    names = ("job", "start_s", "end_s", "configuration", "servers")
    return tuple(Segment(**dict(zip(names, row, strict=False))) for row in rows)


def broken(instance: SchedulingInstance, *rows: tuple[Any, ...]) -> list[str]:
    """Return the constraints that a plan of such rows breaks, in words."""
    return [str(one) for one in SchedulingFormulation(instance).violations(plan_of(*rows))]
