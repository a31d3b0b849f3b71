"""The objects that jobs are: their names go into scripts, so only those that objects can have are taken."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from clusterplan.instances.consolidation.job import PlacementJob
from clusterplan.instances.consolidation.workload import Workload

FIELDS: dict[str, Any] = {"resource": "pytorchjobs.kubeflow.org", "namespace": "team", "name": "bert-1.5"}


def test_a_job_may_say_which_object_it_is() -> None:
    """A document without it is as it was before."""
    plain = {"name": "a", "tasks": 1, "task_demand": {"gpu": 1}}
    job = PlacementJob.model_validate({**plain, "workload": {**FIELDS, "parts": {"tasks": "Worker"}}})
    assert job.workload == Workload(**FIELDS, parts={"tasks": "Worker"})
    assert "workload" not in PlacementJob.model_validate(plain).model_dump(exclude_none=True)


@pytest.mark.parametrize("field", ["resource", "namespace", "name"])
@pytest.mark.parametrize("text", ["", "a b", "$(x)", "a;b", "A", "-a", "a\n", "a'", "x" * 254])
def test_other_names_are_refused(field: str, text: str) -> None:
    """Nothing that a shell would take for more than a word."""
    with pytest.raises(ValidationError):
        Workload.model_validate({**FIELDS, field: text})


@pytest.mark.parametrize("part", ["", "a.b", "$x", "-a", "a\n"])
def test_other_parts_are_refused(part: str) -> None:
    """A dot would lead elsewhere in the object."""
    with pytest.raises(ValidationError):
        Workload.model_validate({**FIELDS, "parts": {"tasks": part}})
