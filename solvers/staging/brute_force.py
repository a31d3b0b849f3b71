"""Complete enumeration of all paths of stages and numbers of units; ground truth for tiny instances."""

from __future__ import annotations

from collections import defaultdict

from ...formulations.common.clock import check_time
from ...formulations.staging.columns import Columns
from ...formulations.staging.formulation import StagingFormulation
from ...formulations.staging.plan import Stage
from ..common.base import Clock, Outcome, Solver
from ..common.brute_force import refuse_many
from ..common.options import SolveOptions


class StagingBruteForce(Solver[StagingFormulation]):
    """Depth-first enumeration over (last layer, type, units) of each stage in turn."""

    name = "brute-force"
    kinds = ("staging",)
    proves = True
    what = "every chain of stages and number of units; tiny instances only"

    def solve(self, formulation: StagingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Enumerate all plans, or as many as the time allows; each is judged by `evaluate` itself."""
        del options
        instance = formulation.instance
        refuse_many(len(instance.layers), "layers")
        choices: dict[int, list[tuple[Stage, int]]] = defaultdict(list)
        columns = Columns(formulation)
        for column in columns.all:
            check_time()
            choices[column.first].append((columns.stages([column])[0], column.type))
        left = [one.limit if one.limit is not None else 10**9 for one in instance.types]
        plan: list[Stage] = []
        best: tuple[float, tuple[Stage, ...]] | None = None
        out_of_time = False

        # Units are counted while the plan grows; everything else is judged on whole plans.
        def extend(layer: int, before: int | None) -> None:
            nonlocal best, out_of_time
            if layer == len(instance.layers):
                if not formulation.violations(plan):
                    value = formulation.evaluate(plan)[0]
                    if best is None or formulation.precedes((value,), (best[0],)):
                        best = value, tuple(plan)
                return
            for stage, unit_type in choices[layer]:
                out_of_time = out_of_time or clock.expired
                if out_of_time:
                    return
                apart = instance.stage_rule == "free_cuts" or unit_type != before
                if apart and stage.units <= left[unit_type]:
                    left[unit_type] -= stage.units
                    plan.append(stage)
                    extend(stage.last_layer + 1, unit_type)
                    plan.pop()
                    left[unit_type] += stage.units

        extend(0, None)
        if best is None:
            return Outcome(limit="time") if out_of_time else Outcome(infeasible=True)
        return Outcome(best[1], (None if out_of_time else best[0],), limit="time" if out_of_time else "none")
