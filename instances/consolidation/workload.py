"""The object of a cluster manager that a job is: what a script names to stop the job and to start it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ..common.fields import Model, Name

ObjectName = Annotated[str, Field(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
"""A name as Kubernetes has them."""
Resource = Annotated[str, Field(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
"""Such as ``jobs.batch`` or ``pytorchjobs.kubeflow.org``: plural and group, as ``kubectl`` takes them."""


class Workload(Model):
    """An object of Kubernetes whose pods are the tasks of a job, or some of whose pods are.

    Attributes
    ----------
    parts
        Group of tasks → the part of the object with the template of its pods, such as a replica type.
    """

    resource: Resource
    namespace: ObjectName
    name: ObjectName
    parts: dict[Name, Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9][-A-Za-z0-9]*$")]] = {}
