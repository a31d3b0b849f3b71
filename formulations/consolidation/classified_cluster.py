"""Servers and jobs of an instance with the methods' table of classes, derived when it is first asked for."""

from __future__ import annotations

from ...instances.common.errors import TooLargeError
from .build_classes import classes_of
from .classes import ClassTable
from .cluster_data import ClusterData


class ClassifiedCluster(ClusterData):
    """Servers and jobs of an instance, and their classes where there are few enough."""

    _classes: ClassTable | TooLargeError | None = None

    @property
    def classes(self) -> ClassTable:
        """Servers and jobs in classes; raises TooLargeError where they are too diverse."""
        if self._classes is None:
            try:
                self._classes = classes_of(self)
            except TooLargeError as error:
                self._classes = error
        if isinstance(self._classes, TooLargeError):
            raise self._classes
        return self._classes
