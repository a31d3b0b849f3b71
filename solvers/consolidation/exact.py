"""Exact consolidation: column generation over classes, certificates, and diagnosis of infeasibility.

Objectives are settled one after the other, lexicographically, each as a limit for the later ones (Haimes et
al. 1971). As far as they depend on classes alone, the linear relaxation of the pattern formulation bounds
the goal, and integer solutions over the columns found so far nearly always attain that bound. The plan is
disaggregated to named servers. Racks, migrations and traffic depend on named servers. From the first of them
on, the compact model continues from that plan, with settled objectives fixed.

At the end dual prices are computed for every objective that has any, so that the check can derive its bound
again. Plans of methods without prices are certified in the same way. If not all required jobs fit together,
the diagnosis is the largest part of them that does.
"""

from __future__ import annotations

import glob
import logging
import math
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from ...formulations.common.objective import Diagnosis
from ...formulations.consolidation.certificate import MUST_PLACE, PRICED
from ...formulations.consolidation.formulation import (
    ConsolidationFormulation,
    DeviceFormulation,
    freed_units,
)
from ...formulations.consolidation.plan import Plan
from ...formulations.consolidation.presolve import WithFixedJobs
from ...instances.common.arrays import Ints
from ...instances.common.errors import TooLargeError, first_names, some
from ...instances.common.fields import Fields
from ...instances.consolidation.job import PlacementJob
from ..backends import BACKENDS
from ..backends.base import BackendError
from ..common.base import Clock, Outcome, Solver
from ..common.result import Limit, SolveOptions
from ..milp import Milp
from . import cp_sat, moves
from .brute_force import ConsolidationBruteForce, has_few_placements
from .devices.exact import certify_on_devices
from .list_assignment import Blocks
from .list_heuristics import BEST_FIT
from .number_partitioning import even_blocks, even_out_loads
from .pattern_search import PatternSearch, TrafficSearch
from .patterns.branching import branching_tree, certified_goals, infeasibility_goals
from .patterns.column_generation import PatternProgram, RelaxationResult, certificate_goal
from .patterns.disaggregation import Disaggregation, add_plan_columns
from .patterns.master import RestrictedMaster
from .presolve import plan_without_moves
from .progress import EQUALITY_TOLERANCE, SETTINGS, Progress, attains_bound, kept_level
from .waste_budget import exact_cover_for_bound


def certify(formulation: ConsolidationFormulation, outcome: Outcome, clock: Clock) -> None:
    """Add a certificate to an outcome: dual prices for its plan's objectives or for infeasibility.

    Raises
    ------
    TooLargeError
        If servers and jobs are too diverse for classes, or there is no time for them.
    """
    if isinstance(formulation, WithFixedJobs):
        if formulation.rest.instance.jobs:
            plan = None if outcome.plan is None else formulation.others(outcome.plan)
            reduced = replace(outcome, plan=plan)
            certify(formulation.rest, reduced, clock)
            outcome.certificate = reduced.certificate
        return
    if isinstance(formulation, DeviceFormulation):
        pooled = Outcome(infeasible=True)
        if outcome.infeasible:
            certify(formulation.pooled, pooled, clock)
        certify_on_devices(formulation, outcome, clock, pooled.certificate)
        return
    if formulation.instance.objectives[0] == "imbalance":  # it has no prices
        return
    patience = clock.at_most(SETTINGS.certificate_patience_s)
    with patience.enforced():
        certificate = {"goals": [], "moves": moves.prices_of_plan(formulation, outcome.plan, patience)}
        if formulation.instance.free is None:
            certificate["goals"] = _certificate_goals(formulation, outcome, patience)
    if any(certificate.values()):
        outcome.certificate = certificate


def _certificate_goals(formulation: ConsolidationFormulation, outcome: Outcome, clock: Clock) -> list[Fields]:
    """Return the dual prices of an outcome's objectives; empty if there is no plan or proof to certify."""
    options, master = SolveOptions(), RestrictedMaster(formulation.classes)
    if outcome.infeasible:
        return infeasibility_goals(master, options, clock)
    if outcome.plan is None or formulation.violations(outcome.plan):
        return []
    values = formulation.evaluate(outcome.plan)
    # With the plan's own columns the relaxation is feasible at the plan's levels.
    add_plan_columns(formulation, master, outcome.plan)
    return certified_goals(formulation, master, values, outcome.bounds, options, clock)


log = logging.getLogger("clusterplan")


class ConsolidationExact(Solver[ConsolidationFormulation]):
    """Exact consolidation by column generation, for data centres with many servers."""

    name = "exact"
    kinds = ("consolidation",)
    proves = True
    features = frozenset({"warm_start"})
    what = "classes of interchangeable servers and jobs, prices and whole numbers; certified"

    def solve(self, formulation: ConsolidationFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Optimise one objective after the other, then compute dual prices for the certificate."""
        progress = Progress(formulation)
        if options.warm_start is not None:
            progress.start_from(options.warm_start)
        run = _Run(formulation, options, clock, progress)
        blocks = even_blocks(formulation)
        if blocks is not None and run.even_out_loads(blocks):
            return run.outcome()
        if formulation.instance.free is not None:
            return run.free_servers()
        if formulation.instance.has_aim:
            run.seat_jobs()
        else:
            run.settle()
        return run.outcome()


@dataclass
class _Run:
    """State of one solve by `exact`; its phases store their results in `progress`."""

    formulation: ConsolidationFormulation
    options: SolveOptions
    clock: Clock
    progress: Progress
    master: RestrictedMaster | None = None
    build_s: float = 0.0
    by_list: Outcome | None = None
    offered: bool = False
    search: PatternSearch | None = None
    too_large: TooLargeError | None = None
    textbook_tried: bool = False

    def outcome(self) -> Outcome:
        """Return the outcome of the solve: incumbent, bounds and certificate."""
        progress = self.progress
        if not progress.infeasible and not progress.is_open(self.options.gap):
            progress.limit = "none"
        elif not progress.infeasible and progress.limit == "none" and self.clock.expired:
            progress.limit = "time"
        outcome = progress.outcome(progress.limit, progress.certificate())
        outcome.build_s = self.build_s
        return outcome

    def free_servers(self) -> Outcome:
        """Return the outcome where servers are freed: by the programme of moves, then with named servers."""
        progress = self.progress
        with suppress(TooLargeError), self.clock.enforced():  # what is known has to do then
            moves.plan_moves(progress, self.options, self.clock)
        self.settle_named_servers()
        if progress.plan is not None:
            freed = freed_units(self.formulation, progress.plan)
            aim = self.formulation.instance.free
            asked = len(freed) if aim is None else aim.count
            of = f" ({len(freed)} of {asked} asked for)" if len(freed) < asked else ""
            progress.notes.append(f"freed: {some(freed, MAX_NAMED_UNITS) or 'none'}{of}")
        return self.outcome()

    def even_out_loads(self, blocks: Blocks) -> bool:
        """Spread tasks evenly; return whether that is all that can be done.

        Small instances, and how many servers each job of few tasks uses, are left to what follows.
        """
        progress, most, done = self.progress, max(blocks.tasks), False
        few, small = most <= SETTINGS.most_textbook_cells, self._is_small()
        rounds = SETTINGS.most_rounds if small or self.clock.remaining_s is None else math.inf
        with suppress(TooLargeError), self.clock.enforced():  # plans so far have to do then
            found = even_out_loads(progress, blocks, self.options, self.clock, rounds)
            done = found and not (few and (small or most > 1) and progress.is_open(self.options.gap))
        if not done:
            progress.bounds = []
        return done

    def seat_jobs(self) -> None:
        """Let jobs start with the fewest moves: by the programme of moves, then by classes from its plan."""
        progress = self.progress
        with suppress(TooLargeError), self._share().enforced():
            moves.plan_moves(progress, self.options, self._share())
        progress.needs_columns, known = True, progress.bounds
        progress.add_combinatorial_bounds()
        if progress.is_open(self.options.gap) and not progress.infeasible:
            progress.settled = progress.proven(0.0)
            progress.bounds = list(progress.settled)
            self.settle()
            progress.tighten(known)

    def settle(self) -> None:
        """Optimise by classes, then with named servers, and compute the certificate."""
        progress, left = self.progress, self.clock.remaining_s
        if left is None or left >= SETTINGS.bounds_first_s:
            try:
                with self.clock.share(SETTINGS.share_for_first_bounds).enforced():
                    self.build_classes()
                    if self.search is not None:
                        self.search.bound_without_plan()
            except TooLargeError as error:
                self.too_large = error
        if left is not None:
            self.best_fit()  # whatever the limit, so that none returns less
        if self.search is not None:
            self.use_best_fit()
            self.search.bound()
        try:
            with self.clock.enforced():
                self.settle_by_classes()
        except TooLargeError as error:
            progress.notes.append(f"without classes: {error}")
        if not progress.infeasible:
            if progress.is_open(0.0):
                self.use_best_fit()
            with suppress(TooLargeError):  # then what is known has to do
                self.settle_named_servers()
                self.certify()
            offered = self.offered and progress.plan is not None and progress.plan is self.best_fit()
            if offered and progress.is_open(self.options.gap):
                progress.notes.append("the plan is that of best-fit")

    def build_classes(self) -> RestrictedMaster:
        """Return the restricted master problem over classes of servers and jobs, built on the first call."""
        if self.master is None:
            if self.too_large is not None:
                raise self.too_large
            self.master = RestrictedMaster(self.formulation.classes)
            self.build_s = self.clock.elapsed_s
            # Without a table of sums; or with rounded amounts, when servers may not hold what patterns say.
            if self.master.searches or not self.master.classes.exact:
                many = cp_sat.is_too_large(self.formulation)
                clock = self.clock.share(SETTINGS.share_of_search) if many else self._share()
                self.search = PatternSearch(self.master, self.options, clock, self.progress)
        return self.master

    def settle_by_classes(self) -> None:
        """Optimise the leading objectives, which depend on classes of servers and jobs alone.

        Raises
        ------
        TooLargeError
            If servers and jobs are too diverse for classes, or the time is up before there are any.
        """
        if self.search is not None and self.clock.expired:
            self.progress.limit = "time"
            return
        progress, formulation = self.progress, self.formulation
        master = self.build_classes()
        if progress.plan is not None:
            add_plan_columns(formulation, master, progress.plan)
        if not master.classes.exact:
            progress.notes.append("amounts differ so much that they are rounded for the bound")
        if len(master.classes.servers) > SETTINGS.many_server_classes or self.search is not None:
            self.use_best_fit()
        if master.classes.base:  # tasks run now
            plan_now = plan_without_moves(formulation, self._share())
            if plan_now is not None and self.progress.update_incumbent(plan_now) is not None:
                add_plan_columns(formulation, master, plan_now)
        if self.search is not None:
            self.search.run()
        else:
            self._settle_in_order(master)

    def _settle_in_order(self, master: RestrictedMaster) -> None:
        """Optimise one objective after the other over classes; the last solution's plan may be incumbent."""
        progress, formulation = self.progress, self.formulation
        program = PatternProgram(master, self.options, self.clock)
        # Jobs that must be placed, or an objective without prices, need a feasible solution first.
        objectives, settled = formulation.instance.objectives, len(progress.settled)
        program.levels |= progress.settled_levels(master.classes)
        first: list[str] = [MUST_PLACE] if master.fewest_placed.any() or objectives[0] not in PRICED else []
        solution: Ints | None = None
        for goal in objectives[settled:] if settled else [*first, *objectives]:
            try:
                if goal == "traffic" and solution is not None:
                    program, candidate = self._limit_traffic(program, solution)
                elif goal in (MUST_PLACE, *PRICED):
                    candidate = self._settle(program, goal, solution)
                else:
                    break
            except TooLargeError as error:
                progress.notes.append(f"{goal} and what follows without classes: {error}")
                break
            if candidate is None:
                break
            solution = candidate
        if solution is not None and not progress.infeasible:
            self._update_from(program, solution)

    def _update_from(self, program: PatternProgram, solution: Ints) -> tuple[float, ...] | None:
        """Update the incumbent by the plan of a solution; return its values, None if it is infeasible.

        Bounds that do not hold for the plan are dropped.
        """
        progress, master = self.progress, program.master
        values = progress.update_incumbent(Disaggregation(self.formulation, master, solution).plan())
        progress.drop_dependent_bounds(master.classes, program.levels, values and progress.values)
        return values

    def _limit_traffic(self, program: PatternProgram, solution: Ints) -> tuple[PatternProgram, Ints | None]:
        """Minimise the maximum traffic of a server; return the pattern formulation under it, and a solution.

        The later objectives continue in that formulation.
        """
        progress, names = self.progress, self.formulation.instance.objectives
        known = len(progress.bounds)
        values = self._update_from(program, solution)
        if values is None or len(progress.bounds) < known:
            return program, None
        least = self.formulation.elementary_bounds()[names.index("traffic")]
        search = TrafficSearch(self.formulation, dict(program.levels), self.options, self.clock, least or 0.0)
        search.run(values[names.index("traffic")])
        progress.notes += search.notes
        progress.bounds.append(search.bound)
        progress.traffic = search.refuted
        if self.clock.expired:
            progress.limit = "time"
        if search.best is None or search.best.solution is None:
            return program, None
        search.best.program.clock = self.clock
        return search.best.program, search.best.solution

    def best_fit(self) -> Plan | None:
        """Return the plan of best fit, computed once, with a minimum of time even beyond the time limit."""
        if self.by_list is None:
            patience = self.clock.at_least(SETTINGS.best_fit_patience_s)
            self.by_list = BEST_FIT.solve(self.formulation, SolveOptions(), patience)
        return self.by_list.plan

    def use_best_fit(self) -> None:
        """Offer the plan of best fit as the incumbent, once."""
        if not self.offered:
            self._offer(self.best_fit())
        self.offered = True

    def _offer(self, plan: Plan | None) -> bool:
        """Update the incumbent by a plan of another method; return whether it is feasible."""
        feasible = plan is not None and self.progress.update_incumbent(plan) is not None
        if feasible and self.progress.plan is plan:
            self.progress.needs_columns = True
        return feasible

    def _settle(self, program: PatternProgram, goal: str, start: Ints | None) -> Ints | None:
        """Bound an objective and return an integer solution that attains the bound; None if none is found."""
        master, progress = program.master, self.progress
        program.clock = self._share()
        relaxed = program.relax(goal)
        bound = program.bound(goal, relaxed)
        # At least one job that must be placed is missing in every plan.
        if goal == MUST_PLACE and bound > 0 and relaxed.prices is not None:
            progress.goals = [certificate_goal(master, goal, relaxed.prices)]
            progress.infeasible = True
            return None
        # Prices under a limit on traffic are of other classes, which the certificate does not refer to.
        if goal != MUST_PLACE and relaxed.prices is not None and master is self.master:
            progress.goals.append(certificate_goal(master, goal, relaxed.prices))
        try:
            solution = self._near_bound(program, goal, bound, relaxed, start)
            limit: Limit = "none"
            attained = solution is not None and attains_bound(master.counted(goal, solution), bound)
            if not attained and solution is not None and self._is_proven(program, goal, solution):
                bound = master.counted(goal, solution)
            elif not attained:
                if solution is not None and self._is_small():
                    progress.update_incumbent(Disaggregation(self.formulation, master, solution).plan())
                if self._settle_by_textbook():
                    return None
                program.clock = self._share()
                solution, limit = program.solve_integers(goal, bound, solution)
        except BackendError as error:
            progress.notes.append(f"{goal}: {error}")
            return None
        # An interruption ends all later steps as well.
        if limit == "interrupt":
            self.clock = Clock(0.0)
        if solution is not None and relaxed.prices is not None and limit == "none":
            solution, bound, limit = self._close_gap(program, goal, relaxed, bound, solution)
        progress.limit = limit if limit != "none" else progress.limit
        if goal != MUST_PLACE:
            progress.bounds.append(master.in_plan(goal, bound) if math.isfinite(bound) else None)
            progress.report()
        if solution is None:
            return None
        value = master.counted(goal, solution)
        log.info("%s: bound %g, reached %g with %d columns", goal, bound, value, len(master.columns))
        program.levels[goal] = kept_level(master.classes, goal, master.exactly(goal, solution))
        return solution

    def _near_bound(
        self,
        program: PatternProgram,
        goal: str,
        bound: float,
        relaxed: RelaxationResult,
        start: Ints | None,
    ) -> Ints | None:
        """Search for an integer solution that attains a bound: near the relaxation, then by exact cover."""
        program.clock = self._share()
        start = program.near_relaxation(goal, bound, relaxed, start)
        if start is not None and attains_bound(program.master.counted(goal, start), bound):
            return start
        cover = exact_cover_for_bound(program, goal, bound)
        return start if cover is None else cover

    def _is_proven(self, program: PatternProgram, goal: str, solution: Ints) -> bool:
        """Return whether a branching tree proves a solution of a small instance optimal."""
        if goal == MUST_PLACE or not self._is_small():
            return False
        program.clock = self._share().at_most(SETTINGS.branching_patience_s)
        tree = branching_tree(program, goal, program.master.exactly(goal, solution))
        goals = self.progress.goals
        if tree and goals and goals[-1]["objective"] == goal:
            goals[-1]["tree"] = tree
        return bool(tree)

    def _is_small(self) -> bool:
        """Return whether the textbook model, with named servers, is small."""
        return cp_sat.named_cells(self.formulation) <= SETTINGS.most_textbook_cells

    def _settle_by_textbook(self) -> bool:
        """Optimise what is not proven by the textbook model, once, if that is small; return whether it ended.

        Where it is small, branch and bound over named servers ends earlier than over columns.
        """
        formulation, progress = self.formulation, self.progress
        if self.textbook_tried or not self._is_small():
            return False
        self.textbook_tried = True
        clock = self.clock.share(SETTINGS.share_of_textbook).at_most(SETTINGS.textbook_patience_s)
        options, settled = self.options.starting_from(progress.plan), progress.proven(self.options.gap)
        outcome = Milp(BACKENDS["highs"]).solve(formulation, options, clock, settled)
        self._offer(outcome.plan)
        if outcome.limit == "interrupt":
            progress.limit, self.clock = outcome.limit, Clock(0.0)
            return True
        if outcome.doubtful:
            return False
        progress.infeasible = outcome.infeasible and progress.plan is None
        # Where something is left open, the search over columns goes on with the objective that it is at.
        before = progress.bounds
        progress.tighten(outcome.bounds)
        if not progress.infeasible and progress.is_open(self.options.gap):
            progress.bounds = before
            return False
        return True

    def _close_gap(
        self, program: PatternProgram, goal: str, relaxed: RelaxationResult, bound: float, solution: Ints
    ) -> tuple[Ints, float, Limit]:
        """Close the gap between solution and bound by adding all columns of low reduced cost."""
        master = program.master
        value = master.counted(goal, solution)
        while not attains_bound(value, bound) and not self.clock.expired:
            assert relaxed.prices is not None
            # Only solutions that are better by a step are of interest.
            step = 1.0 if master.integral[goal] else EQUALITY_TOLERANCE / 2 * max(1.0, abs(value))
            if not master.enumerate_columns(goal, relaxed.prices, value - step - relaxed.bound):
                break
            better, limit = program.solve_integers(goal, bound, None, most=value - step)
            if limit != "none":
                return solution if better is None else better, bound, limit
            if better is None or master.counted(goal, better) >= value:
                # No better solution over all columns that one could use: the value is the bound.
                return solution, value if master.integral[goal] else value - step, "none"
            solution, value = better, master.counted(goal, better)
        return solution, bound, "none"

    def _share(self) -> Clock:
        """Return a clock with a share of the remaining time for one step, which leaves time for others."""
        return self.clock.share(SETTINGS.share_of_time_left)

    def settle_named_servers(self) -> None:
        """Solve the compact model with named servers from the first objective that is not proven."""
        progress, formulation = self.progress, self.formulation
        progress.add_combinatorial_bounds()
        settled = progress.proven(self.options.gap)
        if len(settled) == len(formulation.objectives) or self.clock.expired:
            return
        name = formulation.objectives[len(settled)].name
        try:
            with self.clock.enforced():
                outcome = cp_sat.solve(formulation, progress.plan, settled, self.options, self.clock)
        except (TooLargeError, BackendError) as error:
            progress.notes.append(f"{name} and what follows are not proven: {error}")
            return
        progress.notes.append(f"{name} and what follows by the model with named servers")
        self._merge_outcome(outcome)
        # Amounts many orders of magnitude apart leave gaps as small as a library's tolerances.
        few = has_few_placements(formulation, SETTINGS.most_enumerated)
        if few and progress.is_open(self.options.gap):
            self._merge_outcome(ConsolidationBruteForce().solve(formulation, self.options, self.clock))

    def _merge_outcome(self, outcome: Outcome) -> None:
        """Update incumbent, bounds and stopping limit by the outcome of another method."""
        progress = self.progress
        progress.limit = outcome.limit
        progress.infeasible = outcome.infeasible and progress.plan is None
        if self._offer(outcome.plan):
            progress.tighten(outcome.bounds)

    def certify(self) -> None:
        """Compute the dual prices of every priced objective that has none yet."""
        progress = self.progress
        if self.master is not None and progress.plan is not None:
            # Columns that hold the plan keep the relaxation feasible at the plan's levels.
            if progress.needs_columns and not self.clock.expired:
                add_plan_columns(self.formulation, self.master, progress.plan)
            progress.goals = certified_goals(
                self.formulation,
                self.master,
                progress.values,
                progress.bounds,
                self.options,
                self.clock,
                progress.goals,
            )


MAX_NAMED_UNITS = 50
"""Largest number of freed servers or racks that a message names."""
MAX_NAMED_JOBS = 8
"""Largest number of jobs that a diagnosis names; the others are counted."""


def diagnose(
    formulation: ConsolidationFormulation, known: Diagnosis | None, clock: Clock
) -> Diagnosis | None:
    """Return the known diagnosis of infeasibility, or which required jobs the best plan leaves out.

    Where servers are freed or drained, or jobs are seated, that is asked for in any case: who is in the way?
    """
    if known is not None and not formulation.instance.has_aim:
        return known
    if isinstance(formulation, WithFixedJobs):
        formulation = formulation.rest
    if isinstance(formulation, DeviceFormulation):
        formulation = formulation.pooled
    instance, servers = formulation.instance, formulation.servers
    must = [job for job in instance.jobs if instance.requires(job)]
    # Whoever is seated comes before all that could be stopped for it.
    jobs = tuple(
        job.model_copy(update={"must_place": False, "value": 1.0 if instance.runs(job) else 1.0 + len(must)})
        for job in must
    )
    changes = {"jobs": jobs, "objectives": ("value",), "free": None, "seat": None, "stop": ("*",)}
    relaxed = ConsolidationFormulation(instance.model_copy(update=changes))
    plan = ConsolidationExact().solve(relaxed, SolveOptions(), clock).plan
    left_out = [entry for entry in relaxed.finish(plan) if not entry.placed] if plan is not None else []
    if not left_out:
        return known
    reasons = [
        *(() if known is None else known.reasons),
        f"{len(must) - len(left_out)} of the {len(must)} jobs that must be placed were found to fit together",
    ]
    reasons += [f"with these, job {entry.job!r} {entry.reason}" for entry in left_out[:MAX_NAMED_JOBS]]
    # The jobs of the relaxed instance have another value.
    blocking = [formulation.jobs[entry.job] for entry in left_out]
    running = [job for job in blocking if instance.runs(job)]
    others = [job for job in blocking if not instance.runs(job)]
    remedies = [] if known is None else [*known.remedies]
    # An importer takes all that is free from a server that is drained already, as an aim does.
    used = {server for job in must for group in job.task_groups for server in group.current}
    closed = [name for name in sorted(used - instance.drained) if not any(servers[name].available.values())]
    if closed:
        remedies.append(f"leave what runs on {some(closed)}, drained already: import with --drained stay")
    if running:
        worth = math.fsum(job.worth for job in running)
        few = (f"--stop {shlex.quote(glob.escape(job.name))}" for job in running[:MAX_NAMED_JOBS])
        is_few = len(running) <= MAX_NAMED_JOBS
        options = " ".join(few) if is_few else f"--stop allowed, or --stop for each of {_named(running)}"
        remedies.append(f"{options}: what is stopped then is worth {worth:g}")
    if others:
        may_stop = ", or let running jobs be stopped for them (--stop allowed)" * instance.has_aim
        remedies.append(f"set must_place: false on {_named(others)}, or free room for them{may_stop}")
    return Diagnosis(reasons=tuple(reasons), remedies=tuple(remedies))


def _named(jobs: Sequence[PlacementJob]) -> str:
    """Return the names of the first jobs, and how many more there are."""
    return first_names([repr(job.name) for job in jobs], MAX_NAMED_JOBS)
