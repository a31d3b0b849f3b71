"""Allocation: how many parameter servers and workers for each job (Optimus, EuroSys'18, section 4.2).

Sets
    jobs j, resources r, configurations k ∈ K_j: (variant, p, w), or unplaced where the job is optional
Data
    t_jk = Q_j / f_j(p, w) [s], plus restart_s if k is not the current configuration; ω_j weight;
    a_jkr = p·N_jr + w·O_jr, what k takes of r; C_r capacity; the hourly budget is one more resource
Variables
    x_jk ∈ {0, 1}: job j runs with configuration k
Objective
    `total_completion_time`: minimise Σ_jk ω_j t_jk x_jk [weighted job-seconds]
    `makespan`: minimise T with T ≥ Σ_k t_jk x_jk for every j [s]
Constraints
    Σ_k x_jk = 1 for every j;  Σ_jk a_jkr x_jk ≤ C_r for every r
    (configurations later than the job's deadline are not in K_j; staying unplaced is never late)

The compact MILP formulation in PuLP is this multiple-choice knapsack, with the same symbols. For
geometric programs the speed formulas are also written as sums of monomials, 1/f(p, w) = Σ c·pᵃ·wᵇ:

================== ==========================================================
``ps_sync``        θ0·M/w + θ1 + θ2·w/p + θ3·w + θ4·p
``ps_async``       θ0/w + θ1/p + θ2 + θ3·p/w
``ring_allreduce`` (θ0·M − θ2)/w + (θ1 + θ2 − θ3) + θ3·w
================== ==========================================================

Where no coefficient is negative the sum is a posynomial, convex in the logarithms of p and w. That is
always so with parameter servers, and for `ring_allreduce` where θ0·M ≥ θ2 and θ1 + θ2 ≥ θ3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...instances.allocation.instance import AllocationInstance
from ...instances.allocation.job_table import TABLE, JobTable
from ...instances.common.arrays import Ints
from ...instances.common.base import ProblemKind
from ...instances.common.errors import OptionError
from ...instances.common.speed import FormulaModel, PsAsync, PsSync
from ..common.clock import check_model_size, check_time, until_time_limit
from ..common.formulation import Formulation, MilpModel, ModelObjective, new_problem, upper_bound_row
from ..common.objective import Bounds, Diagnosis, Objective, Violation, loosened, within
from .certificate import PriceCertificate, marginal_value_text, read_certificate
from .check.bound import certified_bound, price_bound
from .check.configurations import CheckedConfigurations, ConfigurationDerivation, checked_configurations
from .check.splits import PlacedDerivation
from .configurations import (
    BUDGET,
    UNPLACED,
    Configurations,
    build_configurations,
    completion_time_s,
    demand_of,
    grid_rows,
    resource_limits,
    task_demands,
)
from .placed_configurations import placed_configurations
from .plan import (
    MANY_ENTRIES,
    Entries,
    JobAllocation,
    Plan,
    PlanTable,
    completion_times_s,
    plan_violations,
    read_entries,
    usage_of,
)
from .splits import STAYS, PiecePrices, Servers
from .warm_start import adapted_plan

MAX_PAIRS = 1_000_000
"""Maximum number of configurations that are examined; beyond it the largest numbers of tasks are skipped."""


def infeasible_job_reasons(formulation: AllocationFormulation, j: int) -> list[str]:
    """Return a sentence for each variant of an infeasible job: the violated constraint, and by how much."""
    table = formulation.table
    return [
        f"job {table.names[j]!r}, variant {table.variant_names[v]!r}: "
        + (_placement_text(formulation, j, v) or _infeasibility_text(formulation, j, v))
        for v in range(int(table.first_variant[j]), int(table.first_variant[j + 1]))
    ]


def _placement_text(formulation: AllocationFormulation, j: int, v: int) -> str | None:
    """Return why no split of a variant fits on servers and is in time; None if the reason is another."""
    table, servers = formulation.table, formulation.servers
    if servers is None or not servers.names:
        return None
    time_s, _ = formulation.derivation.of_variant(j, v)
    if len(time_s):
        deadline = f"its deadline of {table.deadline_s[j]:g} s is earlier"
        return f"takes at least {time_s.min():g} s on these servers; {deadline}"
    per_worker = table.worker_demand[v]
    needs = [("a worker needs", per_worker), ("a parameter server needs", table.ps_demand[v])]
    row, text = int(table.first_row[v]), None
    if table.model[v] == TABLE and table.row_servers is not None and (k := int(table.row_servers[row])):
        workers = int(table.row_workers[row])
        listed = f"{workers} workers were measured with servers={k}"
        text = f"{listed}; on the {len(servers.names)} here they do not fit like this"
        needs.append((f"{listed}, one of which needs", math.ceil(workers / k) * per_worker))
    for what, demand in needs:
        for name, need, free in zip(servers.resources, demand.tolist(), servers.free.T, strict=True):
            if not within(need, float(free.max())):
                largest = f"the largest server, {servers.names[free.argmax()]!r}, has {free.max():g}"
                return f"{what} {need:g} {name}; {largest}"
        if not servers.fits(demand):
            amounts = zip(demand.tolist(), servers.resources, strict=True)
            together = ", ".join(f"{need:g} {name}" for need, name in amounts if need)
            return f"{what} {together}; no server has all of it"
    return text


def _infeasibility_text(formulation: AllocationFormulation, j: int, v: int) -> str:
    instance, table = formulation.instance, formulation.table
    wide_ps = np.clip(table.max_ps - table.min_ps + 1, 1, MAX_PAIRS)
    wide_workers = min(int(table.max_workers[v] - table.min_workers[v]) + 1, MAX_PAIRS // int(wide_ps[v]))
    measured = table.model[v] == TABLE
    place = np.arange(np.diff(table.first_row)[v] if measured else wide_ps[v] * max(1, wide_workers))
    variant = np.full(len(place), v)
    ps, workers, step = grid_rows(table, variant, place, wide_ps)
    time = completion_time_s(table, variant, ps, workers, step)
    deadline = float(table.deadline_s[j])
    # On servers it is the resources together that are short.
    early = (time <= loosened(deadline)) | (formulation.servers is not None)
    if not early.any():
        return f"takes at least {time.min():g} s; its deadline of {deadline:g} s is earlier"
    # The least of each resource over all configurations in time; two of these need not go together.
    least = demand_of(task_demands(instance, table), v, ps[early], workers[early]).min(axis=0)
    names, limits = resource_limits(instance)
    short = [
        f"{need:g} {'USD/h' if name == BUDGET else name}, {need - limit:g} more than the {limit:g} "
        f"{'of budget_usd_per_hour' if name == BUDGET else 'there are'}"
        for name, need, limit in sorted(zip(names, least.tolist(), limits.tolist(), strict=True))
        if not within(need, limit)
    ]
    kept = f" to keep its deadline of {deadline:g} s" if not early.all() else ""
    if short:
        return f"needs at least {'; '.join(short)}{kept}"
    return f"none of its configurations fits in the cluster{kept}"


class AllocationFormulation(Formulation[AllocationInstance, JobAllocation]):
    """Objectives, constraints and certified bounds of an allocation instance."""

    kind: ClassVar[ProblemKind] = "allocation"
    entry = JobAllocation

    @cached_property
    def objectives(self) -> tuple[Objective, ...]:
        """The single objective: total weighted completion time [job-s] or makespan [s]."""
        unit = "s" if self.is_makespan else "job-s"
        return (Objective(self.instance.objective, "min", unit),)

    @property
    def is_makespan(self) -> bool:
        """Whether the objective is the makespan, not the total completion time."""
        return self.instance.objective == "makespan"

    @cached_property
    def table(self) -> JobTable:
        """The jobs as a table with one array for each attribute."""
        return self.instance.table()

    @cached_property
    def configurations(self) -> Configurations:
        """The table of all configurations (variant, ps, workers) of every job.

        In an instance with servers each has the least time of any split: a relaxation.
        """
        if self.servers is not None:
            return placed_configurations(self.instance, self.table, self.servers)
        return build_configurations(self.instance, self.table)

    @cached_property
    def servers(self) -> Servers | None:
        """The servers on which tasks are placed; None if the resources are one pool."""
        return None if self.instance.servers is None else Servers(self.instance, self.table.resources)

    @property
    def menu(self) -> Configurations:
        """Alias of `configurations`, the table of configurations, for solvers of other packages."""
        return self.configurations

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: j for j, name in enumerate(self.table.names)}

    def plan_of(self, chosen: Sequence[int] | Ints) -> Plan:
        """Return the plan in which each job has the configuration of the given index; a large one in columns.

        Parameters
        ----------
        chosen
            Index of one configuration of each job, in the order of the jobs.
        """
        configs, table = self.configurations, self.table
        index = np.asarray(chosen, dtype=np.int64)
        variant = configs.variant[index]
        placed, rows = variant != UNPLACED, table.first_variant[:-1] + variant
        names: Any = np.asarray(table.variant_names, dtype=object)
        own = names[rows]
        own[~placed] = None
        ps, workers = configs.ps[index].astype(np.int64), configs.workers[index].astype(np.int64)
        plan = PlanTable(table.names, placed, own.tolist(), ps, workers, configs.time_s[index])
        return plan if len(plan) >= MANY_ENTRIES else tuple(plan)

    def indices_of(self, plan: Plan) -> Ints:
        """Return the index of each job's configuration in a feasible plan, in the order of the jobs."""
        configs, entries, owner = self.configurations, self._entries(plan), self.configurations.owner
        order = np.argsort(entries.job)
        columns = (entries.variant, entries.ps, entries.workers, entries.stays, entries.servers)
        variant, ps, workers, stays, servers = (c[order] for c in columns)
        index = np.where(variant < 0, UNPLACED, variant - self.table.first_variant[:-1])
        same = configs.variant == index[owner]
        same &= (configs.ps == ps[owner]) & (configs.workers == workers[owner])
        if configs.split is not None:
            counted = (self.table.model[variant] == TABLE)[owner] & (configs.split > 0)
            same &= (configs.split == STAYS) == stays[owner]
            same &= ~counted | (configs.split == servers[owner])
        found = np.flatnonzero(same)
        return found[np.unique(owner[found], return_index=True)[1]]

    _read: tuple[PlanTable, Entries] | None = None
    """The last plan in columns, which cannot change, and what was read of it."""

    def _entries(self, plan: Plan) -> Entries:
        if self._read is not None and self._read[0] is plan:
            return self._read[1]
        entries = read_entries(self.table, self._index, plan, self.servers)
        if isinstance(plan, PlanTable):
            self._read = plan, entries
        return entries

    def usage(self, plan: Plan) -> dict[str, float]:
        """Return how much of each resource a plan takes, and of the hourly budget if there is one."""
        return usage_of(self.instance, self.table, self._entries(plan))

    def violations(self, plan: Plan) -> list[Violation]:
        """Return all constraint violations of the plan."""
        return plan_violations(self.instance, self.table, self._entries(plan), plan, self.servers)

    def evaluate(self, plan: Plan) -> tuple[float, ...]:
        """Return the weighted sum of completion times, or the makespan, in seconds."""
        entries = self._entries(plan)
        times = completion_times_s(self.table, entries, self.servers)
        if self.is_makespan:
            return (float(times.max()),)
        return (math.fsum(self.table.weight[entries.job] * times),)

    @classmethod
    def parse_plan(cls, data: Any) -> Any:
        """Return the plan parsed from plain data, a large one on pooled resources in columns."""
        return data if isinstance(data, PlanTable) else PlanTable.read(data) or super().parse_plan(data)

    def choices(self, plan: Plan) -> Plan:
        """Return the plan without completion times: the decisions only."""
        if isinstance(plan, PlanTable):
            return replace(plan, completion_s=np.full(len(plan), np.nan))
        return tuple(entry.model_copy(update={"completion_s": None}) for entry in plan)

    def adapted(self, plan: Plan) -> Plan | None:
        """Return the plan without jobs that have ended, and with new jobs in their smallest configuration."""
        return adapted_plan(plan, self._entries(plan), self.table, self.configurations, self.servers)

    def finish(self, plan: Plan) -> Plan:
        """Return the plan sorted in the order of the jobs, with each job's completion time in seconds."""
        if isinstance(plan, PlanTable) and tuple(plan.names) == tuple(self.table.names):
            if not np.isnan(plan.completion_s).any():
                return plan
            return replace(plan, completion_s=completion_times_s(self.table, self._entries(plan), None))
        if any(entry.completion_s is None for entry in plan):
            times = completion_times_s(self.table, self._entries(plan), self.servers).tolist()
            plan = [e.model_copy(update={"completion_s": t}) for e, t in zip(plan, times, strict=True)]
        return tuple(sorted(plan, key=lambda entry: self._index[entry.job]))

    @cached_property
    def derivation(self) -> ConfigurationDerivation:
        """The derivation of the configurations of single jobs for the check."""
        derivation = PlacedDerivation if self.servers is not None else ConfigurationDerivation
        return derivation(self.instance, self.table)

    @cached_property
    def checked(self) -> CheckedConfigurations:
        """The configurations of the check, derived independently of the solvers up to a maximum number."""
        return checked_configurations(self.derivation, self.configurations)

    _priced: tuple[PiecePrices | None, CheckedConfigurations | None] = None, None
    """The last prices of pieces, and the configurations with them."""

    def _checked_with(self, pieces: PiecePrices | None) -> CheckedConfigurations:
        """Return the configurations of the check, with the prices of pieces of a certificate."""
        if self.servers is None or not pieces:
            return self.checked
        last, configs = self._priced
        if configs is None or last != pieces:
            shared = placed_configurations(self.instance, self.table, self.servers, pieces)
            configs = checked_configurations(PlacedDerivation(self.instance, self.table, pieces), shared)
            self._priced = pieces, configs
        return configs

    def shared_tables(self) -> str | None:
        """Return a note on configurations that the check shares with the solvers; None if it shares none."""
        return (self._priced[1] or self.checked).shared or self.checked.shared

    def elementary_bounds(self) -> Bounds:
        """Return the lower bound on the objective, in seconds, with each job alone in the cluster."""
        return (self.checked.elementary_bound(self.is_makespan),)

    def certified_bounds(self, certificate: Any, values: Sequence[float] | None = None) -> Bounds:
        """Return the lower bound that the dual prices and the cutoff prove, or the elementary one.

        The elementary bound gives each job the cluster to itself.
        """
        del values
        elementary = self.elementary_bounds()[0]
        given = self.read(certificate)
        if elementary is None or isinstance(given, str):
            return (elementary,)
        configs = self._checked_with(given.pieces)
        if configs.some_job_has_none and not configs.refuted:
            return (math.inf,)  # its pieces cost more than all servers can earn
        proven = None if configs.refuted else certified_bound(configs, self.is_makespan, given)
        return (elementary if proven is None else max(elementary, proven),)

    def read(self, certificate: Any) -> PriceCertificate | str:
        """Return an untrusted certificate of dual prices, or its first format error."""
        servers, on_servers = self.servers, None
        if servers is not None:
            most = servers.shapes.max(axis=0, initial=0.0).tolist()
            on_servers = dict(zip(servers.resources, most, strict=True))
        return read_certificate(self.checked.resources, certificate, on_servers)

    def prices(self, certificate: Any, plan: Plan) -> dict[str, float] | None:
        """Return the certificate's dual price of each resource, by name; None if it has none.

        Prices of 0 are none, unless they prove the plan optimal: then no resource is scarce. Beside prices
        of pieces those of resources are no values of one more unit, which is on some server.
        """
        given = self.read(certificate)
        if self.is_makespan or isinstance(given, str) or given.pieces:
            return None
        prices = given.prices
        if any(prices.values()):
            return prices
        least = price_bound(self.checked, np.zeros(len(self.checked.resources)))
        return prices if within(self.evaluate(plan)[0], least) else None

    def advice(self, prices: Mapping[str, float], value: float) -> str | None:
        """Return a sentence with the marginal value of each scarce resource, and which to buy next."""
        configs = self.checked
        bound = price_bound(configs, np.array([prices.get(name, 0.0) for name in configs.resources]))
        return marginal_value_text(self.instance, prices, value - bound)

    def elementary_infeasibility(self) -> Diagnosis | None:
        """Diagnose jobs that cannot run alone, or resources too small for the minimum demand of all jobs.

        None if neither is the case.
        """
        configs = self.checked
        never = np.flatnonzero(np.diff(configs.start) == 0)
        alone = [reason for j in never.tolist() for reason in infeasible_job_reasons(self, j)]
        if alone:
            remedy = "change what is named above for one variant, or make the job optional with unplaced_s"
            return Diagnosis(reasons=tuple(alone), remedies=(remedy,))
        least = np.minimum.reduceat(configs.demand, configs.start[:-1], axis=0).sum(axis=0)
        reasons, remedies = [], []
        for name, need, limit in zip(
            configs.resources, least.tolist(), configs.capacity.tolist(), strict=True
        ):
            if not within(need, limit):
                short = f"{need - limit:g} more than the {limit:g} there are"
                reasons.append(f"{name}: the smallest configurations of all jobs need {need:g}, {short}")
                remedies.append(f"raise {name} to at least {need:g}, or make jobs optional")
        return Diagnosis(reasons=tuple(reasons), remedies=tuple(remedies)) if reasons else None

    @property
    def model_terms(self) -> int:
        """Number of coefficients of the explicit MILP model, with one column for each configuration."""
        rows = 1 + len(self.configurations.resources) + self.is_makespan
        return len(self.configurations.time_s) * rows


MAX_SCALED_TIME = 1e9
"""Largest completion time in the model's time unit, which is at least the bound on the makespan."""


def choice_variables(problem: Any, configs: Configurations) -> list[Any]:
    """Add to a PuLP problem a binary variable of each configuration, and that each job has one of its own."""
    import pulp

    x: list[Any] = []
    for j in range(configs.jobs):
        check_time()
        x += [problem.add_variable(f"x_{j}_{i}", cat=pulp.LpBinary) for i in range(len(configs.of(j)))]
        problem += pulp.lpSum(x[k] for k in configs.of(j)) == 1, f"one_configuration_{j}"
    return x


def milp_model(formulation: AllocationFormulation) -> MilpModel[JobAllocation]:
    """Return the compact MILP model of allocation, a multiple-choice knapsack problem.

    Raises
    ------
    OptionError
        If the instance has servers.
    """
    import pulp

    if formulation.servers is not None:
        raise OptionError("there is no textbook model of allocation on servers; take exact in place of it")
    configs = formulation.configurations
    check_model_size(formulation.model_terms, "the textbook model")
    problem = new_problem(formulation.instance.name)
    x = choice_variables(problem, configs)
    for r in range(len(configs.resources)):
        check_time()
        problem += (
            upper_bound_row(x, configs.demand[:, r].tolist(), float(configs.capacity[r])),
            f"capacity_{r}",
        )
    if formulation.is_makespan:
        # No makespan is below 1, so that tolerances are small beside it; but from 1e20 on, backends take a
        # coefficient for infinite.
        shortest, longest = formulation.elementary_bounds()[0] or 0.0, float(configs.time_s.max(initial=0.0))
        unit = max(shortest, longest / MAX_SCALED_TIME) or 1.0
        latest = problem.add_variable("makespan", lowBound=0)
        for j in range(configs.jobs):
            check_time()
            times = pulp.lpSum(float(configs.time_s[k]) / unit * x[k] for k in configs.of(j))
            problem += times <= latest, f"completion_{j}"
        expression = pulp.LpAffineExpression([(latest, unit)])
    else:
        expression = pulp.LpAffineExpression(until_time_limit(zip(x, configs.cost.tolist(), strict=True)))

    def decode(value: Callable[[Any], float]) -> Plan:
        best = [max(configs.of(j), key=lambda k: value(x[k])) for j in range(configs.jobs)]
        return formulation.plan_of(best)

    def encode(plan: Plan) -> Mapping[Any, float]:
        chosen = set(formulation.indices_of(plan).tolist())
        start: dict[Any, float] = {own: float(k in chosen) for k, own in enumerate(x)}
        if formulation.is_makespan:
            start[latest] = formulation.evaluate(plan)[0] / unit
        return start

    objective = ModelObjective(formulation.objectives[0], expression, "min")
    return MilpModel(problem, (objective,), decode, encode)


class Monomial(NamedTuple):
    """A monomial c·pᵃ·wᵇ in seconds; the exponent a is `ps`, b is `workers`."""

    coefficient: float
    ps: int
    workers: int


def monomials(speed: FormulaModel) -> tuple[Monomial, ...]:
    """Return the non-zero monomials whose sum is the time of one training step in seconds."""
    # Each is c, a and b, in the order of the table above.
    if isinstance(speed, PsSync):
        t0, t1, t2, t3, t4 = speed.theta
        terms = [(t0 * speed.batch, 0, -1), (t1, 0, 0), (t2, -1, 1), (t3, 0, 1), (t4, 1, 0)]
    elif isinstance(speed, PsAsync):
        t0, t1, t2, t3 = speed.theta
        terms = [(t0, 0, -1), (t1, -1, 0), (t2, 0, 0), (t3, 1, -1)]
    else:
        t0, t1, t2, t3 = speed.theta
        terms = [(t0 * speed.batch - t2, 0, -1), (t1 + t2 - t3, 0, 0), (t3, 0, 1)]
    return tuple(Monomial(*term) for term in terms if term[0])
