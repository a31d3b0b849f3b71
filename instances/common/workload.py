"""Workloads: the objects of a cluster manager that jobs are, with which a script stops and starts them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .fields import Model, Name

ObjectName = Annotated[str, Field(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
"""Name of a Kubernetes object."""
Resource = Annotated[str, Field(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
"""Kubernetes resource, plural and group as for ``kubectl``, such as ``pytorchjobs.kubeflow.org``."""


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
