"""`clusterplan doctor`: is everything that is needed here, does it load together, does it answer right?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib import import_module, metadata

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from ..instances.registry import KINDS
from ..solvers.common.options import SolveOptions
from ..solvers.registry import all_solvers
from .api import solve

LIBRARIES = {
    # name → why its versions are limited as they are
    "pulp": "PuLP 4 drops the CBC program that it ships",
    "highspy": "HiGHS 1.14.0 returns wrong optima, and later wheels cannot be loaded beside OR-Tools",
    "ortools": "other versions are not tested",
    "cvxpy": "older ones do not know OR-Tools 9.15",
    "numpy": "OR-Tools needs it",
    "scipy": "",
    "pydantic": "older ones refuse words from CSV tables",
    "pandas": "",
    "pyscipopt": "",
}
OPTIONAL = ("pyscipopt",)

LIMIT_S = 120.0
"""Of a solve: seconds for the tiny instance, but the first solve on a machine may have loops to compile."""


@dataclass(frozen=True)
class Finding:
    """One check: whether it passed, and the version or the remedy."""

    what: str
    ok: bool
    detail: str
    needed: bool = True


def _allowed() -> dict[str, SpecifierSet]:
    """Return the versions that this package asks for, by library."""
    try:
        asked = [Requirement(line) for line in metadata.requires("clusterplan") or ()]
    except metadata.PackageNotFoundError:
        return {}  # run from a checkout that is not installed, which asks for nothing
    return {requirement.name: requirement.specifier for requirement in asked}


def _library(name: str, allowed: SpecifierSet) -> Finding:
    needed = name not in OPTIONAL
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(name, not needed, "not installed" + ("" if needed else " (optional)"), needed)
    if not allowed.contains(version, prereleases=True):
        what = f"{version} is installed; pip install '{name}{allowed}'. {LIBRARIES[name]}"
        return Finding(name, False, what.strip(), needed)
    try:
        # OR-Tools loads its shared library, which may clash, only with CP-SAT.
        import_module(name if name != "ortools" else "ortools.sat.python.cp_model")
    except (ImportError, OSError) as error:
        return Finding(name, False, f"{version} does not load: {error}", needed)
    return Finding(name, True, version, needed)


def _answers(kind: str, name: str) -> Finding:
    """Solve a tiny instance whose optimum brute force knows."""
    instance = KINDS[kind].tiny()
    expected = [record.value for record in solve(instance, "brute-force").objectives]
    result = solve(instance, name, SolveOptions(time_limit_s=LIMIT_S))
    right = result.status == "optimal" and all(
        ours.value is not None and value is not None and math.isclose(ours.value, value, rel_tol=1e-6)
        for ours, value in zip(result.objectives, expected, strict=True)
    )
    seen = ", ".join(
        f"{record.name} {record.value:g}" for record in result.objectives if record.value is not None
    )
    seen = seen or result.message or "no plan"
    return Finding(f"{name} on {kind}", right, seen if right else f"{seen}; brute force says {expected}")


def examine() -> list[Finding]:
    """Return the findings: libraries, in the order in which loading them would clash, then solvers."""
    allowed = _allowed()
    findings = [_library(name, allowed.get(name, SpecifierSet())) for name in LIBRARIES]
    for solver in all_solvers():
        if solver.proves and solver.name not in ("auto", "brute-force") and not solver.unavailable():
            for kind in solver.kinds:
                findings.append(_answers(kind, solver.name))
    return findings
