"""Complete enumeration of all paths of stages and numbers of units; ground truth for tiny instances."""

from __future__ import annotations

from collections import defaultdict

from ...formulations.common.clock import check_time
from ...formulations.staging.formulation import StagingFormulation
from ...formulations.staging.milp import Columns
from ...formulations.staging.plan import Stage
from ..common.brute_force import BruteForce, Enumeration, refuse_many


class StagingBruteForce(BruteForce[StagingFormulation]):
    """Depth-first enumeration over (last layer, type, units) of each stage in turn."""

    kinds = ("staging",)
    what = "every chain of stages and number of units; tiny instances only"

    def enumerate(self, formulation: StagingFormulation, search: Enumeration) -> None:
        """Add one stage after the other."""
        instance = formulation.instance
        refuse_many(len(instance.layers), "layers")
        choices: dict[int, list[tuple[Stage, int]]] = defaultdict(list)
        columns = Columns(formulation)
        for column in columns.all:
            check_time()
            choices[column.first].append((columns.stages([column])[0], column.type))
        left = [one.limit if one.limit is not None else 10**9 for one in instance.types]
        plan: list[Stage] = []

        # Units are counted while the plan grows; everything else is judged on whole plans.
        def extend(layer: int, before: int | None) -> None:
            if layer == len(instance.layers):
                search.judge(plan)
                return
            for stage, unit_type in choices[layer]:
                if search.over():
                    return
                apart = instance.stage_rule == "free_cuts" or unit_type != before
                if apart and stage.units <= left[unit_type]:
                    left[unit_type] -= stage.units
                    plan.append(stage)
                    extend(stage.last_layer + 1, unit_type)
                    plan.pop()
                    left[unit_type] += stage.units

        extend(0, None)
