"""Layer graphs and measured times of layers that other planners published, as staging instances."""

from __future__ import annotations
