"""Staging: which layers on which hardware and how many units, at least cost (HeterPS, 2023).

Sets
    layers l = 1..L in order; types t; columns c = (first, last, type, k): layers first..last on k ≥ 1
    units of one type, where the type's limit and memory and the throughput floor allow it
Data
    ET_c stage time [s per B0 samples]; π_t price [USD/h per unit]; N_t limit; TL floor [samples/s];
    M samples, E epochs; κ = E·M / (3600·B0), so that cost = κ·τ·Σ π_t k_t
Variables
    z_c ∈ {0, 1}: stage c is used;  τ: time of the slowest stage;  y_c = τ·z_c
Objective
    `cost`: minimise κ·Σ_c π k y_c [USD]
    `throughput`, `time`: minimise τ, that is maximise B0/τ [samples/s], minimise E·M·τ/B0 [s]
Constraints
    z is a path of stages through the layers, and y is the same path times τ: one unit of z and τ of y
    enter at the first layer and are conserved at every boundary between layers
    ET_c z_c ≤ y_c ≤ τ_max z_c (so τ ≥ ET_c for each stage used; with binary z, y_c = τ z_c exactly)
    Σ_c k z_c ≤ N_t for every type;  κ·Σ π k y_c ≤ cost limit;  Σ π k z_c ≤ hourly budget
    maximal_runs: at a boundary, stages of type t that end plus those that begin ≤ stages that end

On a graph of layers stages follow a chain of ideals of the order of blocks (`graph_order.py`), from the empty
set to all blocks. Limits, memory, floor and budgets are those of a chain, and a stage has at most so many
units as `most_units_per_stage` allows. A stage time has transfers both ways over the cut, or relayed from
ideal to ideal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ...instances.common.arrays import Floats
from ...instances.common.base import ProblemKind
from ...instances.common.errors import TooLargeError
from ...instances.staging.instance import StagingInstance
from ..common.formulation import Formulation
from ..common.objective import Bounds, Diagnosis, Objective, Violation, loosened, within
from .certificate import BUDGET, StagingCertificate, prices_at, read_certificate
from .check.certificate import CertificateCheck
from .graph_order import (
    Blocks,
    Classes,
    Ideals,
    blocks_of,
    classes_of,
    ideals_of,
    prefix_ideals,
    transfer_of_layers,
)
from .graph_stages import graph_table, weighted_work
from .stages import (
    Hardware,
    Parts,
    Plan,
    Stage,
    StageTable,
    hardware_of,
    incompatible_layers_text,
    layer_names_text,
    memory_of_layers,
    memory_text,
    min_units,
    parts_of_layers,
    parts_time_s,
    received_s,
    stage_of,
    stage_table,
)

OBJECTIVES = {
    "cost": Objective("cost", "min", "USD"),
    "throughput": Objective("throughput", "max", "samples/s"),
    "time": Objective("time", "min", "s"),
}


class StagingFormulation(Formulation[StagingInstance, Stage]):
    """Objectives, constraints and certified bounds of a staging instance."""

    kind: ClassVar[ProblemKind] = "staging"
    entry = Stage
    time_rounding: ClassVar[float] = 0.0
    """Relative difference of stage times between solver and check; intervals end earlier by it."""

    @cached_property
    def objectives(self) -> tuple[Objective, ...]:
        """The single objective: cost in USD, throughput in samples per second, or time in seconds."""
        return (OBJECTIVES[self.instance.objective],)

    @cached_property
    def table(self) -> StageTable:
        """The table of the parts of stage time of every segment of layers on every hardware type."""
        return stage_table(self.instance, self.parts)

    @cached_property
    def parts(self) -> Floats:
        """Parts S, A, S', A' of the time of every layer on every hardware type, shape (L, T, 4)."""
        return parts_of_layers(self.instance)

    @cached_property
    def _received_s(self) -> Floats:
        """Time [s] for one device to receive the input of a stage from each layer on, shape (L,)."""
        return received_s(self.instance)

    @cached_property
    def hardware(self) -> Hardware:
        """Prices, limits and memory of the hardware types as arrays."""
        return hardware_of(self.instance)

    @cached_property
    def type_index(self) -> dict[str, int]:
        """Name of each hardware type → its index."""
        return {hardware.name: index for index, hardware in enumerate(self.instance.types)}

    @property
    def cost_factor(self) -> float:
        """Cost factor κ, in USD per (second of stage time × USD per hour)."""
        return self.instance.training.total / (3600 * self.instance.probe_batch)

    @property
    def slowest_allowed_s(self) -> float:
        """Maximum allowed stage time τ_max = B0/TL [s], infinite without a throughput floor."""
        floor = self.instance.throughput_floor_samples_per_s
        return math.inf if floor is None else self.instance.probe_batch / floor

    @property
    def latest_s(self) -> float:
        """Maximum allowed stage time plus its tolerance, in seconds."""
        return loosened(self.slowest_allowed_s)

    @property
    def places(self) -> Sequence[Sequence[int]]:
        """The layers at each place of the only order of layers; in a chain one at each."""
        return [(layer,) for layer in range(len(self.instance.layers))]

    def cost_usd(self, time_s: float, rate_usd_per_hour: float) -> float:
        """Return the cost of the training [USD] at a stage time τ and an hourly rate."""
        return self.cost_factor * time_s * rate_usd_per_hour

    def stage(self, first: int, last: int, unit_type: int, units: int) -> Stage:
        """Return the stage of layers `first` to `last` on devices of the hardware type of this index."""
        name = self.instance.types[unit_type].name
        return Stage(first_layer=first, last_layer=last, type=name, units=units)

    def positions(self, plan: Plan) -> list[int] | None:
        """Return the table indices of the stages of a feasible plan; None if the table lacks one."""
        return [self.table.index(s.first_layer, s.last_layer, self.type_index[s.type]) for s in plan]

    def times_of_stages_s(self, plan: Plan) -> list[float]:
        """Return the time ET of each stage [s per B0 samples], with its transfers."""
        parts = self.parts_of_stages(plan)
        return [parts_time_s(own, stage.units) for own, stage in zip(parts, plan, strict=True)]

    def parts_of_stages(self, plan: Plan) -> list[Parts]:
        """Return S, A, S' and A' + transfer [s] of each stage, whatever its units.

        ET = max(S + A/k, S' + (A' + transfer)/k), HeterPS eq. 1-4 with the receiving stage's transfer.
        """
        found: list[Parts] = []
        for stage in plan:
            own = self.parts[stage.first_layer : stage.last_layer + 1, self.type_index[stage.type]]
            # Added one after another, as in the table: np.sum need not do so.
            serial, parallel, comm_serial, comm_parallel = np.add.accumulate(own)[-1].tolist()
            received = comm_parallel + float(self._received_s[stage.first_layer])
            found.append((serial, parallel, comm_serial, received))
        return found

    def stage_time_s(self, plan: Plan) -> float:
        """Return the stage time τ of a plan, that of its slowest stage [s per B0 samples]."""
        return max(self.times_of_stages_s(plan))

    def rate_usd_per_hour(self, plan: Plan) -> float:
        """Return the total hourly price of all devices of a plan, in USD per hour."""
        price = self.hardware.price
        return math.fsum(price[self.type_index[stage.type]] * stage.units for stage in plan)

    def plan_cost_usd(self, plan: Plan) -> float:
        """Return the cost of the whole training with a plan, in USD."""
        return self.cost_usd(self.stage_time_s(plan), self.rate_usd_per_hour(plan))

    def evaluate(self, plan: Plan) -> tuple[float, ...]:
        """Return the value of the single objective: cost [USD], throughput [samples/s] or time [s]."""
        if self.instance.objective == "cost":
            return (self.plan_cost_usd(plan),)
        return (self.of_stage_time(self.stage_time_s(plan)),)

    def of_stage_time(self, time_s: float) -> float:
        """Convert a stage time τ [s] to the objective: throughput or time of the whole training."""
        instance = self.instance
        if instance.objective == "throughput":
            return instance.probe_batch / time_s if time_s > 0 else math.inf
        return instance.training.total / instance.probe_batch * time_s

    def to_stage_time(self, value: float) -> float:
        """Convert a throughput or a time of the whole training to the stage time τ [s]."""
        instance = self.instance
        if instance.objective == "throughput":
            return instance.probe_batch / value
        return value * instance.probe_batch / instance.training.total

    def violations(self, plan: Plan) -> list[Violation]:
        """Return all constraint violations of the plan."""
        return list(self._layer_violations(plan)) or [
            *self._resource_violations(plan),
            *self._limit_violations(plan),
        ]

    def _layer_violations(self, plan: Plan) -> Iterator[Violation]:
        expected = 0
        for index, stage in enumerate(plan):
            where = f"stage {index} (layers {stage.first_layer} to {stage.last_layer} on {stage.type})"
            if stage.type not in self.type_index:
                yield Violation("type", f"{where}: there is no type {stage.type!r}")
                continue
            if stage.first_layer != expected or stage.last_layer < stage.first_layer:
                yield Violation("layers", f"{where}: should begin at layer {expected} and not end before it")
            expected = stage.last_layer + 1
            if stage.layers is not None and len(stage.layers) != expected - stage.first_layer:
                yield Violation("layers", f"{where}: the layers of a chain's stage are consecutive")
            for layer in self.instance.layers[stage.first_layer : stage.last_layer + 1]:
                if stage.type not in layer.compute_s:
                    yield Violation("layers", f"{where}: layer {layer.name!r} cannot run on this type")
            if index and self.instance.stage_rule == "maximal_runs" and plan[index - 1].type == stage.type:
                yield Violation("maximal runs", f"{where}: the stage before has the same type")
        if expected != len(self.instance.layers):
            yield Violation("layers", f"the plan covers {expected} layers of {len(self.instance.layers)}")

    def _resource_violations(self, plan: Plan) -> Iterator[Violation]:
        layers = self.instance.layers
        for hardware in self.instance.types:
            stages = [(index, stage) for index, stage in enumerate(plan) if stage.type == hardware.name]
            units = sum(stage.units for _, stage in stages)
            if hardware.limit is not None and units > hardware.limit:
                yield Violation(
                    f"limit of {hardware.name}", f"the plan takes {units} units; there are {hardware.limit}"
                )
            for index, stage in stages:
                need = math.fsum(layers[layer].memory_on(hardware.name) for layer in stage.members)
                if hardware.memory_gib is not None and not within(need, hardware.memory_gib):
                    where = (
                        f"stage {index} needs"
                        if self.instance.is_graph
                        else f"layers {stage.first_layer} to {stage.last_layer} need"
                    )
                    what = f"{where} {need:g} GiB in a unit of {hardware.memory_gib:g} GiB"
                    yield Violation(f"memory of {hardware.name}", what)

    def adapted(self, plan: Plan) -> tuple[Stage, ...]:
        """Return an earlier plan with, where it breaks a limit now, the fewest units that keep the floor."""
        if any(self._layer_violations(plan)) or not self.violations(plan):
            return tuple(plan)
        stages = []
        for stage, parts in zip(plan, self.parts_of_stages(plan), strict=True):
            most = self.hardware.most[self.type_index[stage.type]]
            fewest = min_units(parts, self.latest_s, int(most))
            stages.append(stage.model_copy(update={"units": fewest or stage.units}))
        return tuple(stages)

    def _limit_violations(self, plan: Plan) -> Iterator[Violation]:
        time, rate = self.stage_time_s(plan), self.rate_usd_per_hour(plan)
        if not within(time, self.slowest_allowed_s):
            reached, floor = self.instance.probe_batch / time, self.instance.throughput_floor_samples_per_s
            yield Violation("throughput floor", f"the plan reaches {reached:g} samples/s of {floor:g}")
        for name, amount, limit in (
            ("cost limit", self.cost_usd(time, rate), self.instance.cost_limit_usd),
            ("hourly budget", rate, self.instance.hourly_budget_usd),
        ):
            if limit is not None and not within(amount, limit):
                yield Violation(
                    name, f"the plan takes {amount:g} USD, {amount - limit:g} more than {limit:g}"
                )

    def elementary_bounds(self) -> Bounds:
        """Return a bound on cost by each layer's cheapest type, or on speed by slowest layer and budget.

        A unit that is paid for τ works at most τ, so κ·Σ π k τ ≥ κ·Σ_l min_t π_t (S + A)_lt: a stage on
        k units takes k·ET(k) ≥ k·S + A ≥ S + A unit-seconds. The floor on τ is the same for each layer.
        """
        if self.instance.objective == "cost":
            return (self.cost_factor * self._least_work,)
        return (self.of_stage_time(self.least_s) if self.least_s > 0 else None,)

    @property
    def least_s(self) -> float:
        """Lower bound on τ [s] that no search finds: by the slowest layer, and by the hourly budget."""
        return max(self.fastest_s, self.budgeted_s)

    @property
    def budgeted_s(self) -> float:
        """Lower bound on τ by the hourly budget H: Σ_l min_t π_t (S + A)_lt ≤ H τ; 0 without a budget.

        Each stage of layers l on k units of type t has τ ≥ ET(k) ≥ S + A/k with the sums S and A of its
        layers, so that π_t k τ ≥ π_t (k S + A) ≥ Σ_l π_t (S + A)_lt, as k ≥ 1. Every layer is in one stage,
        and the Σ π_t k of all stages is at most H. Transfers only make a stage slower.
        """
        budget = self.instance.hourly_budget_usd
        # Plans may exceed the budget by its tolerance, and sums may be rounded up.
        return 0.0 if budget is None else self._least_work / loosened(budget) * (1 - 1e-12)

    @cached_property
    def _least_work(self) -> float:
        """Minimum priced work of all layers, Σ_l min_t π_t (S + A)_lt, in USD/h times seconds."""
        # Compute alone: the larger of two sums is at least either, but a sum of larger ones need not be.
        work = self.parts[:, :, 0] + self.parts[:, :, 1]
        able = np.isfinite(work)
        least = np.where(able, np.where(able, work, 0.0) * self.hardware.price, math.inf).min(axis=1)
        return math.fsum(least.tolist())

    def certified_bounds(self, certificate: Any, values: Sequence[float] | None = None) -> Bounds:
        """Return the bound on the objective that the certificate proves, or the elementary one."""
        del values
        (elementary,) = self.elementary_bounds()
        given = self.read(certificate)
        if not isinstance(given, StagingCertificate):
            return (elementary,)
        check, objective = self.check, self.objectives[0]
        if self.instance.objective == "cost":
            return (objective.tighter(elementary, check.cost_bound(given)),)
        # A throughput or time of 0 or less is no cutoff on a stage time.
        cutoff = given.cutoff or 0.0
        time = check.stage_time_bound(self.to_stage_time(cutoff) if cutoff > 0 else None, given)
        if time <= 0:
            return (elementary,)
        # Without any plan the bound is beyond all values: −∞ for a maximum.
        none = math.isinf(time) and objective.sense == "max"
        return (objective.tighter(elementary, -math.inf if none else self.of_stage_time(time)),)

    @property
    def check(self) -> CertificateCheck:
        """The check of the instance's certificates, which the methods have no part in."""
        return CertificateCheck(self.instance)

    def read(self, certificate: Any) -> StagingCertificate | str:
        """Return a certificate in its types, or its first format error as text."""
        return read_certificate(self.instance, certificate)

    def prices(self, certificate: Any, plan: Plan) -> dict[str, float] | None:
        """Return dual prices at the plan's stage time: USD per device by type, and of the budget.

        None if they cannot be read.
        """
        given = self.read(certificate)
        if self.violations(plan) or isinstance(given, str):
            return None
        return prices_at(self.instance, given, self.stage_time_s(plan))

    def advice(self, prices: Mapping[str, float], value: float) -> str | None:
        """Return a sentence that names the scarcest hardware type; None if no type has a dual price."""
        del value
        worth = {name: price for name, price in prices.items() if price > 0 and name != BUDGET}
        best = max(worth, key=worth.__getitem__, default=None)
        return None if best is None else f"scarcest type: {best}"

    @cached_property
    def fastest_s(self) -> float:
        """Lower bound on τ [s]: the maximum over layers of the time on all devices of the fastest type."""
        return float(self._alone_s.min(axis=1).max())

    @cached_property
    def _alone_s(self) -> Floats:
        """Time [s] of each layer on all devices of each type, infinite where it does not fit, (L, T)."""
        # With infinitely many units A/k vanishes, which bounds every real number of units.
        serial, parallel, comm_serial, comm_parallel = np.moveaxis(self.parts, 2, 0)
        units = self.hardware.limit
        single: Floats = np.maximum(serial + parallel / units, comm_serial + comm_parallel / units)
        single[memory_of_layers(self.instance) > self.hardware.room_gib] = math.inf
        return single

    def elementary_infeasibility(self) -> Diagnosis | None:
        """Diagnose layers that no type can hold, or run at the throughput floor; None if there are none."""
        instance, fastest = self.instance, self._alone_s.min(axis=1)
        longest = float(fastest.max())
        if within(longest, self.slowest_allowed_s) and math.isfinite(longest):
            return None
        homeless = [layer for layer, time in zip(instance.layers, fastest, strict=True) if math.isinf(time)]
        reasons = [memory_text(instance, homeless)] if homeless else []
        remedies = ["raise a limit, memory or parallel share that is named above"]
        finite = np.flatnonzero(np.isfinite(fastest))
        slow = [index for index in finite if not within(fastest[index], self.slowest_allowed_s)]
        if slow:
            slowest = max(slow, key=lambda index: fastest[index])
            best = instance.probe_batch / fastest[slowest]
            name = instance.types[self._alone_s[slowest].argmin()].name
            reason = (
                f"layer {instance.layers[slowest].name!r}: at most {best:g} samples/s, on all units of {name}"
            )
            others = [instance.layers[index] for index in slow if index != slowest]
            reasons.append(f"{reason}; too slow as well: {layer_names_text(others)}" if others else reason)
        if 0 < longest < math.inf:
            remedies.insert(0, f"no floor above {instance.probe_batch / longest:g} samples/s can be reached")
        return Diagnosis(reasons=tuple(reasons), remedies=tuple(remedies))


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
        return blocks_of(self.instance, self.classes, self.parts, self.transfer_s)

    @cached_property
    def transfer_s(self) -> Floats:
        """Time [s] for one device of each type to send or receive each layer's output, shape (L, T)."""
        return transfer_of_layers(self.instance)

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
    def table(self) -> StageTable:
        """The table of the parts of stage time of every stage between two ideals (down-sets)."""
        # Methods for chains look at runs of blocks that are too slow, too.
        slowest_s = math.inf if self.blocks.in_a_row else self.latest_s
        return graph_table(self.instance, self.blocks, self.ideals, slowest_s)

    def stage(self, first: int, last: int, unit_type: int, units: int) -> Stage:
        """Return the stage between two ideals of given indices; `last` is the larger index minus one."""
        inside = self.ideals.sets[last + 1] & ~self.ideals.sets[first]
        layers = [layer for b, own in enumerate(self.blocks.layers) if inside >> b & 1 for layer in own]
        return stage_of(sorted(layers), self.instance.types[unit_type].name, units)

    def positions(self, plan: Plan) -> list[int] | None:
        """Return the table indices of the stages of a feasible plan; None if the table lacks one."""
        place = {ideal: index for index, ideal in enumerate(self.ideals.sets)}
        done, ideal, indices, layers = set[int](), 0, [], self.blocks.layers
        for stage in plan:
            done.update(stage.members)
            whole = [b for b, own in enumerate(layers) if done.issuperset(own)]
            larger = sum(1 << b for b in whole)
            # A plan may split the layers of a block, or not follow the one topological order.
            if len(done) != sum(len(layers[b]) for b in whole) or larger not in place:
                return None
            at = self.table.index(place[ideal], place[larger] - 1, self.type_index[stage.type])
            if at < 0:
                return None
            indices.append(at)
            ideal = larger
        return indices

    def parts_of_stages(self, plan: Plan) -> list[Parts]:
        """Return S, A, S' and A' + D [s] of each stage of a plan, whatever its units."""
        done, found = set[int](), []
        for stage in plan:
            found.append(self.stage_parts(stage.members, self.type_index[stage.type], done))
            done.update(stage.members)
        return found

    def stage_parts(self, layers: Sequence[int], unit_type: int, before: Iterable[int] = ()) -> Parts:
        """Return S, A, S' and A' + D [s] of a stage on a hardware type, ready for `parts_time_s`.

        Where computing and communicating add up, all counts as computing.

        Parameters
        ----------
        before
            The layers of all stages before it, used only where stages relay.
        """
        of_layer, rule = self.classes.of_layer, self.instance.stage_cost
        inside, done = ({of_layer[layer] for layer in own} for own in (layers, before))
        ends = (done, done | inside) if rule == "relay" else (inside,)
        cuts = [self.transfer_s[self.classes.cut_by(own), unit_type] for own in ends]
        serial, parallel, comm_serial, comm_parallel = map(math.fsum, self.parts[list(layers), unit_type].T)
        received = math.fsum([comm_parallel, *max(cuts, key=math.fsum)])
        if rule == "sum":
            return serial + comm_serial, parallel + received, 0.0, 0.0
        return serial, parallel, comm_serial, received

    def _layer_violations(self, plan: Plan) -> Iterator[Violation]:
        instance = self.instance
        place: dict[int, int] = {}
        for index, stage in enumerate(plan):
            where = f"stage {index} on {stage.type}"
            if stage.type not in self.type_index:
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
        """Diagnose layers, and classes of them, that no type can run within memory and floor, if any."""
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
            f"layers {incompatible_layers_text(apart[0])} have to be in one stage, for they share a "
            f"colour or lie on a cycle of classes, and no type can run all layers of that stage{like}"
        )
        others = diagnosis or Diagnosis(reasons=(), remedies=())
        remedy = "give the layers of one stage times on a common type, or other colours"
        return Diagnosis(reasons=(reason, *others.reasons), remedies=(remedy, *others.remedies))

    @property
    def least_s(self) -> float:
        """Lower bound on τ [s]: by the slowest layer, the hourly budget, and all devices together."""
        return max(super().least_s, self.shared_work_s)

    def certified_bounds(self, certificate: Any, values: Sequence[float] | None = None) -> Bounds:
        """Return the bound that the certificate proves, or the elementary one if the graph is too large."""
        try:
            return super().certified_bounds(certificate, values)
        except TooLargeError:
            return self.elementary_bounds()

    @cached_property
    def shared_work_s(self) -> float:
        """Lower bound on τ: with weights y ≥ 0 of the types, Σ_l min_t y_t (S + A)_lt ≤ τ Σ_t y_t N_t.

        A stage on k units takes k·ET(k) ≥ S + A unit-seconds of computing.
        """
        limit = self.hardware.limit
        if np.isinf(limit).any():
            return 0.0
        best = 0.0
        for weights, least in zip(*weighted_work(self.parts[:, :, 0] + self.parts[:, :, 1]), strict=True):
            offered = math.fsum(weights * limit)
            if offered > 0:
                best = max(best, math.fsum(least) / offered)
        # Sums may be rounded up.
        return best * (1 - 1e-12)


def formulation_of(instance: StagingInstance) -> StagingFormulation:
    """Return the formulation of a staging instance, for a chain or a graph of layers."""
    return GraphFormulation(instance) if instance.is_graph else StagingFormulation(instance)
