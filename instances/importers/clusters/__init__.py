"""The state of clusters in use, as Kubernetes and Slurm print it, turned into consolidation instances."""

from __future__ import annotations
