"""clusterplan plans deep-learning clusters by mathematical optimisation.

>>> import clusterplan
>>> instance = clusterplan.load("example:optimus-testbed")
>>> result = clusterplan.solve(instance)
>>> result.status, result.objective, result.bound, result.gap      # doctest: +SKIP
>>> clusterplan.verify(instance, result).ok
True

Five kinds of instance: *allocation* (how many parameter servers and workers for each job), *staging*
(which layers on which hardware, and how many units), *consolidation* (which servers), *scheduling* (which
job when) and *mix* (who shares a device with whom; which replicas serve a model). Every result carries
objective, bound and gap, and every plan is verified before it is returned.

What goes in
    load, parse_instance, save        an instance from a file, from plain data, and to a file
    Allocation, Staging,              builders: an instance call by call, Allocation(gpu=8).add_job(…)
        Consolidation, Scheduling, Mix
    import_slurm, import_kubernetes,  a cluster as it is;
        import_flux, import_openb,        jobs of a trace that are there at once;
        import_philly, import_tiresias
    import_slurm_elastic,             its jobs that may run on other numbers of GPUs
        import_kubernetes_elastic
    import_trace, import_sacct,       a whole trace, to be scheduled: a table of jobs, the accounts of Slurm,
        import_muri                       a trace of Muri
        import_gavel, import_gavel_consolidation, import_pollux, import_sailor, import_pipedream,
        import_dnn_partitioning       published measurements
    import_pairs, import_serving      speeds of jobs that share GPUs; replicas that serve requests
    import_tensors                    blocks of parameters for parameter servers
    load_catalogue                    a price list of machines
    predict                           a model on GPUs that one need not have; a Prediction
    module_model                      a PyTorch module as such a model
    fit_speed, fit_loss               a job's speed, and its remaining steps, from measurements
    Instance                          AllocationInstance, StagingInstance, ConsolidationInstance,
                                          SchedulingInstance, MixInstance
What is done
    solve                             one instance by one solver; the answer is a Result
    solve_many                        many instances in worker processes, with a journal; yields a Record each
    compare                           every solver on every instance; the answer is a Comparison
    what_if                           scenarios beside the instance as it is; the answer is a WhatIf
    pareto                            the whole trade-off: Frontier, AllocationFrontier, SchedulingFrontier,
                                          MovesFrontier
    verify                            a result checked without trusting a solver; the answer is a Verification
    SolveOptions, BatchOptions        limits and settings of a solve, and of many
What comes out
    result.plan, result.to_frame()    the plan, as entries and as a table of pandas
    result.objective, .bound, .gap    how good it is, and .certified_bound what the check derives by itself
    result.prices, .diagnosis         what one more unit is worth, and why there is no plan
    report, plot                      the page of an answer, and its plots as data of Plotly
    export_plan                       a plan for those who carry it out
    result.raise_for_status()         the result, or SolveError where it has no plan
    X.to_json(), X.to_frame()         of results, frontiers and comparisons; notebooks show them as tables

Infeasible instances, limits and solvers that answer wrongly are results. What the caller can mend raises a
ClusterplanError: InstanceError (a document), OptionError (a name or setting; RefusedError where nothing that
was named can do it), UnavailableError (a library that is missing), TooLargeError (a model that would not
fit), SolveError. Nothing is printed; the log is ``logging.getLogger("clusterplan")``. All calls are safe in
several threads. Other packages add solvers through the entry point ``clusterplan.solvers``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    # The alias of its own name makes each a public name for type checkers.
    from .formulations.common.objective import Diagnosis as Diagnosis
    from .instances.allocation.fits import LossFit as LossFit
    from .instances.allocation.fits import SpeedFit as SpeedFit
    from .instances.allocation.fits import fit_loss as fit_loss
    from .instances.allocation.fits import fit_speed as fit_speed
    from .instances.allocation.instance import AllocationInstance as AllocationInstance
    from .instances.allocation.kind import Allocation as Allocation
    from .instances.common.base import Instance as Instance
    from .instances.common.errors import ClusterplanError as ClusterplanError
    from .instances.common.errors import InstanceError as InstanceError
    from .instances.common.errors import OptionError as OptionError
    from .instances.common.errors import RefusedError as RefusedError
    from .instances.common.errors import TooLargeError as TooLargeError
    from .instances.common.errors import UnavailableError as UnavailableError
    from .instances.common.hardware import HardwareCatalogue as HardwareCatalogue
    from .instances.consolidation.instance import ConsolidationInstance as ConsolidationInstance
    from .instances.consolidation.kind import Consolidation as Consolidation
    from .instances.documents import load as load
    from .instances.documents import load_catalogue as load_catalogue
    from .instances.documents import parse_instance as parse_instance
    from .instances.documents import save as save
    from .instances.importers import import_dnn_partitioning as import_dnn_partitioning
    from .instances.importers import import_flux as import_flux
    from .instances.importers import import_gavel as import_gavel
    from .instances.importers import import_gavel_consolidation as import_gavel_consolidation
    from .instances.importers import import_kubernetes as import_kubernetes
    from .instances.importers import import_kubernetes_elastic as import_kubernetes_elastic
    from .instances.importers import import_muri as import_muri
    from .instances.importers import import_openb as import_openb
    from .instances.importers import import_pairs as import_pairs
    from .instances.importers import import_philly as import_philly
    from .instances.importers import import_pipedream as import_pipedream
    from .instances.importers import import_pollux as import_pollux
    from .instances.importers import import_sacct as import_sacct
    from .instances.importers import import_sailor as import_sailor
    from .instances.importers import import_serving as import_serving
    from .instances.importers import import_slurm as import_slurm
    from .instances.importers import import_slurm_elastic as import_slurm_elastic
    from .instances.importers import import_tensors as import_tensors
    from .instances.importers import import_tiresias as import_tiresias
    from .instances.importers import import_trace as import_trace
    from .instances.mix.instance import MixInstance as MixInstance
    from .instances.mix.kind import Mix as Mix
    from .instances.prediction import Prediction as Prediction
    from .instances.prediction import module_model as module_model
    from .instances.prediction import predict as predict
    from .instances.scheduling.instance import SchedulingInstance as SchedulingInstance
    from .instances.scheduling.kind import Scheduling as Scheduling
    from .instances.staging.instance import StagingInstance as StagingInstance
    from .instances.staging.kind import Staging as Staging
    from .planner.api import solve as solve
    from .planner.batch.comparison import Comparison as Comparison
    from .planner.batch.comparison import compare as compare
    from .planner.batch.solve_many import BatchOptions as BatchOptions
    from .planner.batch.solve_many import solve_many as solve_many
    from .planner.batch.task import Record as Record
    from .planner.findings import Verification as Verification
    from .planner.pareto import pareto as pareto
    from .planner.publish import export_plan as export_plan
    from .planner.publish import plot as plot
    from .planner.publish import report as report
    from .planner.study import WhatIf as WhatIf
    from .planner.study import what_if as what_if
    from .planner.verification import verify as verify
    from .solvers.allocation.frontier import AllocationFrontier as AllocationFrontier
    from .solvers.common.result import Result as Result
    from .solvers.common.result import SolveError as SolveError
    from .solvers.common.result import SolveOptions as SolveOptions
    from .solvers.consolidation.frontier import MovesFrontier as MovesFrontier
    from .solvers.scheduling.frontier import SchedulingFrontier as SchedulingFrontier
    from .solvers.staging.frontier import Frontier as Frontier

_HOMES = {
    "Allocation": "instances.allocation.kind",
    "AllocationFrontier": "solvers.allocation.frontier",
    "AllocationInstance": "instances.allocation.instance",
    "BatchOptions": "planner.batch.solve_many",
    "ClusterplanError": "instances.common.errors",
    "Comparison": "planner.batch.comparison",
    "Consolidation": "instances.consolidation.kind",
    "ConsolidationInstance": "instances.consolidation.instance",
    "Diagnosis": "formulations.common.objective",
    "Frontier": "solvers.staging.frontier",
    "HardwareCatalogue": "instances.common.hardware",
    "Instance": "instances.common.base",
    "InstanceError": "instances.common.errors",
    "LossFit": "instances.allocation.fits",
    "Mix": "instances.mix.kind",
    "MixInstance": "instances.mix.instance",
    "MovesFrontier": "solvers.consolidation.frontier",
    "OptionError": "instances.common.errors",
    "Prediction": "instances.prediction",
    "Record": "planner.batch.task",
    "RefusedError": "instances.common.errors",
    "Result": "solvers.common.result",
    "Scheduling": "instances.scheduling.kind",
    "SchedulingFrontier": "solvers.scheduling.frontier",
    "SchedulingInstance": "instances.scheduling.instance",
    "SolveError": "solvers.common.result",
    "SolveOptions": "solvers.common.result",
    "SpeedFit": "instances.allocation.fits",
    "Staging": "instances.staging.kind",
    "StagingInstance": "instances.staging.instance",
    "TooLargeError": "instances.common.errors",
    "UnavailableError": "instances.common.errors",
    "Verification": "planner.findings",
    "WhatIf": "planner.study",
    "compare": "planner.batch.comparison",
    "export_plan": "planner.publish",
    "fit_loss": "instances.allocation.fits",
    "fit_speed": "instances.allocation.fits",
    "import_dnn_partitioning": "instances.importers",
    "import_flux": "instances.importers",
    "import_gavel": "instances.importers",
    "import_gavel_consolidation": "instances.importers",
    "import_kubernetes": "instances.importers",
    "import_kubernetes_elastic": "instances.importers",
    "import_muri": "instances.importers",
    "import_openb": "instances.importers",
    "import_pairs": "instances.importers",
    "import_philly": "instances.importers",
    "import_pipedream": "instances.importers",
    "import_pollux": "instances.importers",
    "import_sacct": "instances.importers",
    "import_sailor": "instances.importers",
    "import_serving": "instances.importers",
    "import_slurm": "instances.importers",
    "import_slurm_elastic": "instances.importers",
    "import_tensors": "instances.importers",
    "import_tiresias": "instances.importers",
    "import_trace": "instances.importers",
    "load": "instances.documents",
    "load_catalogue": "instances.documents",
    "module_model": "instances.prediction",
    "pareto": "planner.pareto",
    "parse_instance": "instances.documents",
    "plot": "planner.publish",
    "predict": "instances.prediction",
    "report": "planner.publish",
    "save": "instances.documents",
    "solve": "planner.api",
    "solve_many": "planner.batch.solve_many",
    "verify": "planner.verification",
    "what_if": "planner.study",
}
"""Public name → the module that has it."""

__all__ = list(_HOMES)


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
