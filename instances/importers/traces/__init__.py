"""Published traces and measurements of clusters, and traces of one's own, as instances of several kinds."""

from __future__ import annotations
