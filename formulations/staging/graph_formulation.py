"""Formulation of staging on a graph of layers, an extension of the one on chains.

Sets
    classes of layers that share a stage (`classes.py`); ideals I of their order; stages S = J − I, I ⊂ J
Constraints
    stages follow a chain of ideals from the empty set to all classes; limits, memory, floor and budgets are
    those of a chain; a stage has at most so many units as `most_units_per_stage` allows
Stage time
    as in `stages.py`: transfers both ways over the cut, or relayed from ideal to ideal
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ...instances.common.errors import TooLargeError
from ...instances.staging.instance import StagingInstance
from ..common.objective import Diagnosis, Violation
from .formulation import StagingFormulation
from .graph_order import (
    Blocks,
    Classes,
    Ideals,
    blocks_of,
    classes_of,
    ideals_of,
    prefix_ideals,
    times_of_stages_s,
)
from .graph_stages import GraphTable, graph_table
from .stages import Stage, stage_of


def formulation_of(instance: StagingInstance) -> StagingFormulation:
    """Return the formulation of a staging instance, for a chain or a graph of layers."""
    return GraphFormulation(instance) if instance.is_graph else StagingFormulation(instance)


class GraphFormulation(StagingFormulation):
    """Objectives, constraints and certified bounds of a staging instance whose layers form a graph."""

    # The order of summation over a set of layers is not fixed.
    time_rounding = 1e-11

    @cached_property
    def classes(self) -> Classes:
        """The classes of layers that must share a stage, their order, and the tensors between them."""
        return classes_of(self.instance)

    @cached_property
    def blocks(self) -> Blocks:
        """The blocks of layers: classes, after those without time are merged into neighbours."""
        return blocks_of(self.instance, self.classes)

    @property
    def places(self) -> Sequence[Sequence[int]]:
        """The layers of each block, where the blocks have only one order."""
        return self.blocks.layers

    @cached_property
    def ideals(self) -> Ideals:
        """The ideals (down-sets) of the blocks, or those of one topological order if there are too many."""
        return ideals_of(len(self.blocks), self.blocks.arcs)

    def restricted_to_one_order(self) -> GraphFormulation:
        """Restrict the formulation to contiguous stages in one topological order of the blocks of layers."""
        other = GraphFormulation(self.instance)
        other.classes, other.blocks = self.classes, self.blocks
        other.ideals = prefix_ideals(len(self.blocks))
        return other

    @cached_property
    def slowest_sum_s(self) -> float:
        """Upper bound on the time of any stage: the sum of all times and transfers, in seconds."""
        parts, transfers = self.blocks.parts, self.blocks.transfer_s
        finite = np.where(np.isfinite(parts), parts, 0.0)
        return float(finite.max(axis=1).sum() + transfers.sum()) * (1 + 1e-9)

    @cached_property
    def table(self) -> GraphTable:  # type: ignore[override]
        """The table of the parts of stage time of every stage between two ideals (down-sets)."""
        # Methods for chains look at runs of blocks that are too slow, too.
        slowest_s = math.inf if self.blocks.in_a_row else self.latest_s
        return graph_table(self.instance, self.blocks, self.ideals, slowest_s)

    def stage(self, first: int, last: int, unit_type: int, units: int) -> Stage:
        """Return the stage between two ideals of given indices; `last` is the larger index minus one."""
        inside = self.ideals.sets[last + 1] & ~self.ideals.sets[first]
        layers = [layer for b, own in enumerate(self.blocks.layers) if inside >> b & 1 for layer in own]
        return stage_of(sorted(layers), self.instance.types[unit_type].name, units)

    def positions(self, plan: Sequence[Stage]) -> list[int] | None:
        """Return the table indices of the stages of a feasible plan; None if the table lacks one."""
        place = {ideal: index for index, ideal in enumerate(self.ideals.sets)}
        names = [hardware.name for hardware in self.instance.types]
        done, ideal, indices = set[int](), 0, []
        for stage in plan:
            done.update(stage.members)
            larger = sum(1 << b for b, own in enumerate(self.blocks.layers) if done.issuperset(own))
            # A plan may split the layers of a block, or not follow the one topological order.
            if len(done) != sum(len(own) for b, own in enumerate(self.blocks.layers) if larger >> b & 1):
                return None
            if larger not in place:
                return None
            at = self.table.index(place[ideal], place[larger] - 1, names.index(stage.type))
            if at < 0:
                return None
            indices.append(at)
            ideal = larger
        return indices

    def times_of_stages_s(self, plan: Sequence[Stage]) -> list[float]:
        """Return the time ET of each stage of a plan [s per probe batch], with its transfers."""
        return times_of_stages_s(self.instance, self.classes, plan)

    def _layer_violations(self, plan: Sequence[Stage]) -> Iterator[Violation]:
        instance, types = self.instance, {hardware.name for hardware in self.instance.types}
        place: dict[int, int] = {}
        for index, stage in enumerate(plan):
            where = f"stage {index} on {stage.type}"
            if stage.type not in types:
                yield Violation("type", f"stage {index}: there is no type {stage.type!r}")
                continue
            if stage.last_layer >= len(instance.layers):
                yield Violation("layers", f"{where}: there is no layer {stage.last_layer}")
                continue
            for layer in stage.members:
                if layer in place:
                    yield Violation("layers", f"{where}: layer {instance.layers[layer].name!r} comes again")
                elif stage.type not in instance.layers[layer].compute_s:
                    name = instance.layers[layer].name
                    yield Violation("layers", f"{where}: layer {name!r} cannot run on this type")
                place.setdefault(layer, index)
            most = instance.most_units_per_stage
            if most is not None and stage.units > most:
                yield Violation(
                    "units of a stage", f"{where}: {stage.units} units; at most {most} are allowed"
                )
        missing = [layer.name for index, layer in enumerate(instance.layers) if index not in place]
        if missing:
            yield Violation("layers", f"the plan leaves out {len(missing)} layers, such as {missing[0]!r}")
            return
        yield from self._order_violations(place)

    def _order_violations(self, place: dict[int, int]) -> Iterator[Violation]:
        """Yield violations by classes of layers that are split between stages, or out of order."""
        names = [layer.name for layer in self.instance.layers]
        members = self.classes.members
        for own in members:
            apart = next((layer for layer in own if place[layer] != place[own[0]]), None)
            if apart is not None:
                pair = f"{names[own[0]]!r} and {names[apart]!r}"
                yield Violation("classes", f"layers {pair} have to be in one stage")
        for a, b in sorted(self.classes.arcs):
            if place[members[a][0]] > place[members[b][0]]:
                pair = f"{names[members[b][0]]!r} comes before {names[members[a][0]]!r}"
                yield Violation("order", f"layer {pair}, which it needs")

    def elementary_infeasibility(self) -> Diagnosis | None:
        """Diagnose layers, and classes of layers, that no hardware type can run within memory and floor.

        None if there are none.
        """
        diagnosis = super().elementary_infeasibility()
        layers = self.instance.layers
        classes = [
            [(layers[index].name, set(layers[index].compute_s)) for index in own]
            for own in self.classes.members
        ]
        apart = [own for own in classes if not set.intersection(*(able for _, able in own))]
        if not apart:
            return diagnosis
        like = f", like {len(apart) - 1} other such groups" if len(apart) > 1 else ""
        reason = (
            f"layers {_incompatible_layers_text(apart[0])} have to be in one stage, for they share a "
            f"colour or lie on a cycle of classes, and no type can run all layers of that stage{like}"
        )
        others = diagnosis or Diagnosis(reasons=(), remedies=())
        remedy = "give the layers of one stage times on a common type, or other colours"
        return Diagnosis(reasons=(reason, *others.reasons), remedies=(remedy, *others.remedies))

    def elementary_bounds(self) -> tuple[float | None, ...]:
        """Return a bound on cost by each layer's cheapest type, or on speed, also by all devices together."""
        if self.instance.objective == "cost":
            return super().elementary_bounds()
        time = max(self.fastest_s, self.budgeted_s, self.shared_work_s)
        return (self.of_stage_time(time) if time > 0 else None,)

    def certified_bounds(
        self, certificate: Any, values: Sequence[float] | None = None
    ) -> tuple[float | None, ...]:
        """Return the bound that the certificate proves, or the elementary one if the graph is too large."""
        try:
            return super().certified_bounds(certificate, values)
        except TooLargeError:
            return self.elementary_bounds()

    @cached_property
    def shared_work_s(self) -> float:
        """Lower bound on τ: with weights y ≥ 0 of the types, Σ_l min_t y_t (S + A)_lt ≤ τ Σ_t y_t N_t.

        A stage on k units takes k·ET(k) ≥ S + A unit-seconds of computing. One weight vector is tried for
        each type: its least time relative to that of every other type.
        """
        instance = self.instance
        if any(one.limit is None for one in instance.types):
            return 0.0
        work = (self._parts[:, :, 0] + self._parts[:, :, 1]).tolist()
        best = 0.0
        for own in range(len(instance.types)):
            weights = [
                _least_ratio([(row[own], row[other]) for row in work]) for other in range(len(work[0]))
            ]
            if not all(map(math.isfinite, weights)):
                continue
            total = math.fsum(
                min(y * time for y, time in zip(weights, row, strict=True) if math.isfinite(time))
                for row in work
            )
            units = math.fsum(y * (one.limit or 0) for y, one in zip(weights, instance.types, strict=True))
            if units > 0:
                best = max(best, total / units)
        # Sums may be rounded up.
        return best * (1 - 1e-12)


def _incompatible_layers_text(layers: Sequence[tuple[str, set[str]]]) -> str:
    """Return a text that names two layers without a common type, or else the first and last layer."""
    for (one, able), (other, others) in itertools.combinations(layers, 2):
        if not able & others:
            return f"{one!r} and {other!r}"
    return f"{layers[0][0]!r} to {layers[-1][0]!r}"


def _least_ratio(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the minimum ratio a/b of pairs of finite numbers with b > 0; infinite without such pairs."""
    return min((a / b for a, b in pairs if math.isfinite(a) and math.isfinite(b) and b > 0), default=math.inf)
