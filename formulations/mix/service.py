"""Which copies serve which requests: a linear programme over shares of their time.

    maximise t  subject to  Σ_k μ_ki x_ki ≥ t λ_i for each type i,  Σ_i x_ki ≤ y_k,  x ≥ 0

All requests are served if t is at least 1; then every copy is busy for 1/t of its time.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...instances.mix.instance import MixInstance
from .plan import Copies, Plan

IDLE = 1e-12
"""Largest rate, as a part of all requests of a type, that counts as none."""


def greatest_load(
    instance: MixInstance, counts: Mapping[str, int]
) -> tuple[float, dict[tuple[str, str], float]]:
    """Return t, and the requests/s of each (configuration, type) then; t is 0 if a type is not served."""
    import highspy  # SciPy's linprog, which calls it too, takes half a second to load

    asked = {one.name: one.requests_per_s or 0.0 for one in instance.types}
    chosen = [one for one in instance.configurations if counts.get(one.name)]
    pairs = [(one.name, name) for one in chosen for name in one.requests_per_s if asked[name]]
    highs, infinity = highspy.Highs(), highspy.kHighsInf
    highs.setOptionValue("output_flag", False)
    for tolerance in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
        highs.setOptionValue(tolerance, 1e-10)
    highs.addCol(-1.0, 0.0, infinity, 0, np.array([], dtype=np.int32), np.array([]))
    for _ in pairs:
        highs.addCol(0.0, 0.0, infinity, 0, np.array([], dtype=np.int32), np.array([]))
    rate = {(one.name, name): rate for one in chosen for name, rate in one.requests_per_s.items()}

    def add_row(low: float, high: float, columns: list[int], values: list[float]) -> None:
        highs.addRow(
            low, high, len(columns), np.array(columns, dtype=np.int32), np.array(values, dtype=float)
        )

    for name, requests in asked.items():
        own = [column for column, (_, served) in enumerate(pairs, 1) if served == name]
        if requests:  # in parts of all requests of the type, so that coefficients are alike
            add_row(0.0, infinity, [0, *own], [-1.0, *(rate[pairs[c - 1]] / requests for c in own)])
    for one in chosen:
        own = [column for column, (served_by, _) in enumerate(pairs, 1) if served_by == one.name]
        add_row(-infinity, float(counts[one.name]), own, [1.0] * len(own))
    highs.run()
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return (0.0 if any(asked.values()) else float("inf")), {}
    load, *shares = highs.getSolution().col_value
    return load, {pair: share * rate[pair] for pair, share in zip(pairs, shares, strict=True) if share > 0}


def plan_of(instance: MixInstance, counts: Mapping[str, int]) -> Plan | None:
    """Return the plan with so many copies of each configuration; None if they cannot serve all requests."""
    chosen = {name: count for name, count in counts.items() if count > 0}
    if not instance.serves:
        return [Copies(configuration=name, count=count) for name, count in chosen.items()]
    load, rates = greatest_load(instance, chosen)
    if load < 1 - 1e-9:
        return None
    asked = {one.name: one.requests_per_s or 0.0 for one in instance.types}
    served: dict[str, dict[str, float]] = {name: {} for name in chosen}
    for (configuration, name), rate in rates.items():
        if rate > IDLE * asked[name]:
            served[configuration][name] = rate / max(load, 1.0)
    return [
        Copies(configuration=name, count=count, requests_per_s=served[name]) for name, count in chosen.items()
    ]
