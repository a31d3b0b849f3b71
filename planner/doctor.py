"""`clusterplan doctor`: is everything that is needed here, does it load together, does it answer right?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib import import_module, metadata

from packaging.version import Version

from ..instances.base import Instance
from ..instances.generators.allocation import generate_allocation
from ..instances.generators.consolidation import generate_consolidation
from ..instances.generators.staging import generate_staging
from ..solvers.options import SolveOptions
from ..solvers.registry import all_solvers
from .api import solve

LIBRARIES = {
    # import name → (distribution, allowed versions in words, why)
    "pulp": ("pulp", "3.3", "4", "PuLP 4 drops the CBC program that it ships"),
    "highspy": (
        "highspy",
        "1.9",
        "1.14",
        "HiGHS 1.14.0 returns wrong optima, and later wheels cannot be loaded beside OR-Tools",
    ),
    "ortools": ("ortools", "9.15", "10", "other versions are not tested"),
    "cvxpy": ("cvxpy", "1.5", None, ""),
    "numpy": ("numpy", "1.26", None, ""),
    "scipy": ("scipy", "1.11", None, ""),
    "pyscipopt": ("pyscipopt", "5.5", None, ""),
}
OPTIONAL = ("pyscipopt",)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: whether it is fine, and what was seen or is to be done."""

    what: str
    ok: bool
    detail: str
    needed: bool = True


def _library(name: str) -> Finding:
    package, least, below, why = LIBRARIES[name]
    needed = name not in OPTIONAL
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        return Finding(name, not needed, "not installed" + ("" if needed else " (optional)"), needed)
    allowed = f">={least}" + (f",<{below}" if below else "")
    if Version(version) < Version(least) or (below and Version(version) >= Version(below)):
        return Finding(
            name, False, f"{version} is installed; pip install '{package}{allowed}'. {why}".strip(), needed
        )
    try:
        import_module(name if name != "ortools" else "ortools.sat.python.cp_model")
    except (ImportError, OSError) as error:
        return Finding(name, False, f"{version} does not load: {error}", needed)
    return Finding(name, True, version, needed)


def _tiny(kind: str) -> Instance:
    """Return an instance that brute force solves at once."""
    if kind == "allocation":
        return generate_allocation(2, 2, tightness=0.9, seed=1)
    if kind == "staging":
        return generate_staging(3, 2, "tight", seed=1)
    return generate_consolidation(2, 3, 4, seed=1)


def _answers(kind: str, name: str) -> Finding:
    """Solve a tiny instance whose optimum brute force knows."""
    instance = _tiny(kind)
    expected = [record.value for record in solve(instance, "brute-force").objectives]
    result = solve(instance, name, SolveOptions(time_limit_s=30))
    right = result.status == "optimal" and all(
        ours.value is not None and value is not None and math.isclose(ours.value, value, rel_tol=1e-6)
        for ours, value in zip(result.objectives, expected, strict=True)
    )
    seen = ", ".join(
        f"{record.name} {record.value:g}" for record in result.objectives if record.value is not None
    )
    return Finding(f"{name} on {kind}", right, seen if right else f"{seen}; brute force says {expected}")


def examine() -> list[Finding]:
    """Return what was found: libraries in the order in which their loading clashes, then solvers."""
    findings = [_library(name) for name in LIBRARIES]
    for solver in all_solvers():
        if solver.proves and solver.name not in ("auto", "brute-force") and not solver.unavailable():
            for kind in solver.kinds:
                findings.append(_answers(kind, solver.name))
    return findings
