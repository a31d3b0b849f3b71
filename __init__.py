"""clusterplan plans deep-learning clusters by mathematical optimisation.

>>> import clusterplan
>>> instance = clusterplan.load("example:optimus-testbed")
>>> result = clusterplan.solve(instance)
>>> result.status, result.objective, result.bound, result.gap      # doctest: +SKIP
>>> clusterplan.verify(instance, result).ok
True

Three kinds of instance: *allocation* (how many parameter servers and workers for each job), *staging*
(which layers on which hardware, and how many units) and *consolidation* (which servers). Every result
carries objective, bound and gap, and every plan is verified before it is returned.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .formulations.base import Diagnosis
    from .instances.allocation import AllocationInstance
    from .instances.base import Instance
    from .instances.consolidation import ConsolidationInstance
    from .instances.document import load, load_catalogue, parse_instance, save
    from .instances.errors import (
        ClusterplanError,
        InstanceError,
        OptionError,
        TooLargeError,
        UnavailableError,
    )
    from .instances.fits import LossFit, SpeedFit, fit_loss, fit_speed
    from .instances.hardware import HardwareCatalogue
    from .instances.staging import StagingInstance
    from .planner.api import solve
    from .planner.pareto import pareto
    from .planner.verification import Verification, verify
    from .solvers.allocation_frontier import AllocationFrontier
    from .solvers.frontier import Frontier
    from .solvers.options import SolveOptions
    from .solvers.result import Result

_HOMES = {
    "AllocationFrontier": "solvers.allocation_frontier",
    "AllocationInstance": "instances.allocation",
    "ClusterplanError": "instances.errors",
    "ConsolidationInstance": "instances.consolidation",
    "Diagnosis": "formulations.base",
    "Frontier": "solvers.frontier",
    "HardwareCatalogue": "instances.hardware",
    "Instance": "instances.base",
    "InstanceError": "instances.errors",
    "LossFit": "instances.fits",
    "OptionError": "instances.errors",
    "Result": "solvers.result",
    "SolveOptions": "solvers.options",
    "SpeedFit": "instances.fits",
    "StagingInstance": "instances.staging",
    "TooLargeError": "instances.errors",
    "UnavailableError": "instances.errors",
    "Verification": "planner.verification",
    "fit_loss": "instances.fits",
    "fit_speed": "instances.fits",
    "load": "instances.document",
    "load_catalogue": "instances.document",
    "pareto": "planner.pareto",
    "parse_instance": "instances.document",
    "save": "instances.document",
    "solve": "planner.api",
    "verify": "planner.verification",
}

__all__ = [
    "AllocationFrontier",
    "AllocationInstance",
    "ClusterplanError",
    "ConsolidationInstance",
    "Diagnosis",
    "Frontier",
    "HardwareCatalogue",
    "Instance",
    "InstanceError",
    "LossFit",
    "OptionError",
    "Result",
    "SolveOptions",
    "SpeedFit",
    "StagingInstance",
    "TooLargeError",
    "UnavailableError",
    "Verification",
    "fit_loss",
    "fit_speed",
    "load",
    "load_catalogue",
    "pareto",
    "parse_instance",
    "save",
    "solve",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that the command line starts without solvers."""
    if name not in _HOMES:
        raise AttributeError(f"module 'clusterplan' has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return [*__all__, "__version__"]
