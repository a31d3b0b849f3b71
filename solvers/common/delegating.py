"""A method under its own name that looks at the formulation first, and then lets another do the work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .base import FormulationT_contra, Solver
from .options import SolveOptions


class Delegating(Solver[FormulationT_contra]):
    """Has the name, the settings and the features of the method that it delegates to."""

    def __init__(self, method: Solver[Any]) -> None:
        self.method = method
        self.kinds = method.kinds
        self.name, self.proves, self.what = method.name, method.proves, method.what
        self.features = method.features

    @property
    def method_options(self) -> Mapping[str, Any]:  # type: ignore[override]  # of the instance, not the class
        """The method's own settings."""
        return self.method.method_options

    def unavailable(self) -> str | None:
        """Return why the method cannot be used."""
        return self.method.unavailable()

    def check_options(self, options: SolveOptions) -> None:
        """Refuse every option that the method would ignore."""
        self.method.check_options(options)
