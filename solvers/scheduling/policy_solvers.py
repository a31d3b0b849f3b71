"""Scheduling policies as solvers: each simulates the trace, and returns a plan without a bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ...formulations.common.compiled import garbage_collector_disabled
from ...formulations.scheduling.evaluation import checkpoint_interval_s, restarts_s
from ...formulations.scheduling.formulation import SchedulingFormulation
from ...formulations.scheduling.plan import Segment
from ...instances.common.arrays import Ints
from ...instances.common.errors import OptionError, OutOfTimeError
from ...instances.common.fields import Fields
from ...instances.scheduling.instance import SchedulingInstance
from ..backends.base import check_time_to_load_torch, missing_package_text, seeded_torch
from ..common.base import Clock, MethodOption, Outcome, Solver
from ..common.conclude import joined
from ..common.result import SolveOptions
from .engine import Engine, EvictionError, Schedule, StuckError
from .placement import RULES
from .policies.contract import Policy, RemainingTimePolicy
from .policies.dl2_policy import DL2, INCUMBENTS
from .policies.fairness import MaxMin, TenantQueues, Themis
from .policies.optimus import Optimus, OptimusExact
from .policies.service_disciplines import (
    Backfill,
    FirstCome,
    Gittins,
    LeastAttained,
    MultilevelQueues,
    RoundRobin,
    Shortest,
    ShortestRemaining,
    ShortestService,
    TimeSlice,
    turn_s,
)
from .policy import FormerPolicy
from .policy import Policy as PolicyOfBefore
from .search.event_loop import PriorityScheduler, Rule
from .view import Knowledge, ViewWriter

POOLED = "the servers are taken as one pool"

PLACEMENT = MethodOption(
    "best-fit",
    "Where there are servers: each job where it fills them best; on the fewest, or it waits; or the jobs "
    "that start together on the fewest that are proven possible.",
    choices=RULES,
)
SHORTEST_ROUND_S = 1.0
"""Shortest round in seconds; shorter ones would divide a trace of days into billions of rounds."""
QUEUES_FORM = "GPU-seconds that rise, such as 3250,7200, or none"
AT_LEAST = "; twice the longest restart at least"
BY = MethodOption("truth", "Remaining times are true, or estimated by users.", choices=("truth", "estimate"))


def plan_of(instance: SchedulingInstance, schedule: Schedule) -> list[Segment]:
    """Convert a schedule to a plan: one `Segment` (job, start, end, servers, …) per run of a job."""
    names, menus, on = instance.table().names, instance.menus(), schedule.servers
    row = menus.requested[schedule.job] if schedule.row is None else schedule.row
    columns = (column.tolist() for column in (schedule.job, schedule.start_s, schedule.end_s, row))
    with garbage_collector_disabled():
        # Validating what was computed here would take longer than computing it.
        return [
            Segment.model_construct(
                job=names[job],
                start_s=start,
                end_s=end,
                configuration=menus.labels[row],
                servers=dict(on[job, start]) if on else {},
            )
            for job, start, end, row in zip(*columns, strict=True)
        ]


def event_loop_supports(instance: SchedulingInstance) -> bool:
    """Return whether the compiled event loop supports an instance: no servers, and no work lost."""
    return not instance.servers and not loses_work(instance)


def loses_work(instance: SchedulingInstance) -> bool:
    """Return whether jobs of an instance can lose work (since their last checkpoint) when evicted."""
    if instance.preemption == "none" and instance.evict != "restart":
        return False  # then no job may be evicted
    return bool(instance.events) and checkpoint_interval_s(instance) > 0


class PolicySolver(Solver[SchedulingFormulation]):
    """Solver that simulates one scheduling policy on the trace, and returns its schedule without a bound.

    Parameters
    ----------
    what
        One-line description, to which the policy's knowledge is appended.
    knows
        What the policy may read, with the default settings.
    make
        Returns the policy for an instance and settings.
    rule
        Returns the rule of the compiled event loop that makes the same schedules: the former way of a
        `RemainingTimePolicy`.
    """

    kinds = ("scheduling",)

    def __init__(
        self,
        name: str,
        what: str,
        knows: Knowledge,
        make: Callable[[SchedulingInstance, Fields], Policy | PolicyOfBefore],
        options: Mapping[str, MethodOption] | None = None,
        rule: Callable[[PriorityScheduler], Rule] | None = None,
    ) -> None:
        self.name, self.what, self.knows = name, f"{what}; knows {knows.value}", knows
        self._make, self._rule = make, rule
        # Of the instance, not the class.
        self.method_options = {**(options or {}), "placement": PLACEMENT}  # type: ignore[misc]

    def check_options(self, options: SolveOptions) -> None:
        """Raise an error for unsupported options, and for limits of queues that are not ascending numbers."""
        super().check_options(options)
        if "queues" in self.method_options:
            limits_of(self.setting(options, "queues"))

    def solve(self, formulation: SchedulingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Simulate the policy on the instance's trace; return its schedule as a plan, without a bound."""
        instance = formulation.instance
        settings = {key: self.setting(options, key) for key in self.method_options}
        with clock.enforced():
            try:
                policy = self.policy(instance, settings, options, clock)
                schedule = simulate(instance, policy, settings.get("placement"), self._rule)
            except (EvictionError, StuckError) as error:
                return Outcome(message=f"{self.name}: {error}")
            except OutOfTimeError:
                return Outcome(
                    limit="time", message=f"{self.name}: the time was too short to simulate all jobs"
                )
        pooled = instance.servers and not schedule.servers
        if pooled and spreading_slows_jobs(instance):
            return Outcome(message=f"{self.name}: {POOLED}, but jobs are slower on several of them")
        message = joined(policy.summary(), POOLED if pooled else None)
        return Outcome(plan_of(instance, schedule), message=message)

    def policy(
        self, instance: SchedulingInstance, settings: Fields, options: SolveOptions, clock: Clock
    ) -> Policy:
        """Return a new policy object for one solve, made from the instance and the options."""
        del options, clock
        policy = self._make(instance, settings)
        return policy if isinstance(policy, Policy) else FormerPolicy(policy)


def simulate(
    instance: SchedulingInstance,
    policy: Policy,
    placement: str | None = None,
    rule: Callable[[PriorityScheduler], Rule] | None = None,
) -> Schedule:
    """Return the schedule of a policy, by the compiled event loop where that gives the same segments.

    Parameters
    ----------
    rule
        Returns the rule of the loop; None for that of the policy, if it is a `RemainingTimePolicy`.
    """
    if event_loop_supports(instance):
        if rule is not None:
            scheduler = PriorityScheduler(instance)
            return scheduler.schedule(rule(scheduler))
        if isinstance(policy, RemainingTimePolicy) and policy.is_rule:
            return PriorityScheduler(instance).schedule(rule_of(instance, policy))
    return Engine(instance, policy, placement).run()


def rule_of(instance: SchedulingInstance, policy: RemainingTimePolicy) -> Rule:
    """Return the rule of the compiled event loop that orders jobs as a policy does."""
    writer = ViewWriter(instance, np.argsort(instance.table().arrival_s, kind="stable"), policy.knows)
    jobs: Ints = np.arange(len(writer.work))
    writer.uncover(slice(0, len(jobs)))
    policy.begin(writer.view)
    multiplier = policy.multiplier(writer.view, jobs)
    return Rule(multiplier, policy.power, policy.keep, preempts=policy.preempts, blocks=policy.blocks)


def spreading_slows_jobs(instance: SchedulingInstance) -> bool:
    """Return whether some job of an instance is slower when it is spread over several servers."""
    spreading = instance.table().spreading
    return spreading is not None and bool((spreading.profile >= 0).any())


def limits_of(text: str) -> tuple[float, ...]:
    """Parse the limits of multilevel queues, ascending GPU-seconds, from the text of an option.

    Raises
    ------
    OptionError
        If they are not ascending numbers.
    """
    if text == "none":
        return ()
    try:
        limits = tuple(float(part) for part in text.split(","))
        if not all(0 < a < b < float("inf") for a, b in pairwise((1e-300, *limits))):
            raise ValueError
    except ValueError:
        raise OptionError(f"option 'queues' is {text!r}; write {QUEUES_FORM}") from None
    return limits


def _las(instance: SchedulingInstance, settings: Mapping[str, Any]) -> Policy:
    limits = limits_of(settings["queues"])
    return MultilevelQueues(limits) if limits else LeastAttained(twice_the_restart_s(instance))


def round_of(instance: SchedulingInstance, seconds: float) -> float:
    """Return the length of a round in seconds, raised to at least twice the longest restart."""
    return max(seconds, SHORTEST_ROUND_S, twice_the_restart_s(instance))


def twice_the_restart_s(instance: SchedulingInstance) -> float:
    """Return twice the longest restart time of an instance, in whole seconds (rounded up)."""
    return float(np.ceil(2 * restarts_s(instance).max()))


OPTIMUS = {
    "interval_s": MethodOption(600.0, "How often it decides, in seconds.", least=1.0),
    "admission": MethodOption(
        "arrival",
        "Who is served first where not all can be; shortest: the least time × share left.",
        choices=("arrival", "shortest"),
    ),
    "reacts": MethodOption(False, "Whether it decides at arrivals and ends too."),
    "aim": MethodOption(
        "times",
        "Small remaining times, or large speeds over a power of them.",
        choices=("times", "speeds"),
    ),
    "power": MethodOption(0.25, "Of remaining times, where the aim is speeds.", least=0.0),
}


TRAINING_SHARE = 0.5
"""Share of a time limit that may be spent on training."""


class LearnedPolicy(PolicySolver):
    """The policy DL², whose network is trained anew on generated traces for every solve; needs PyTorch."""

    def __init__(self) -> None:
        super().__init__(
            "dl2",
            "a network adds workers to jobs, step after step (DL²)",
            DL2.knows,
            lambda *_: Optimus(1.0),  # never used
            {
                "interval_s": OPTIMUS["interval_s"],
                "incumbent": MethodOption(
                    "optimus", "The policy that it imitates at first.", choices=tuple(INCUMBENTS)
                ),
                "traces": MethodOption(4, "On how many made-up traces it imitates.", least=1),
                "passes": MethodOption(8, "How often it goes through what it saw there.", least=1),
                "episodes": MethodOption(20, "Made-up traces on which it learns from rewards.", least=0),
                "training_s": MethodOption(
                    60.0,
                    "Seconds after which learning ends; half of the time limit if that is less.",
                    least=0.0,
                ),
            },
        )

    def unavailable(self) -> str | None:
        """Return how to install PyTorch, None if it is installed."""
        return missing_package_text("torch", "PyTorch", "'clusterplan[rl]'")

    def policy(
        self, instance: SchedulingInstance, settings: Fields, options: SolveOptions, clock: Clock
    ) -> Policy:
        """Return the policy DL² with a network trained on generated traces; the instance is not used."""
        del instance
        left_s = clock.remaining_s
        check_time_to_load_torch(left_s)
        from .policies.dl2_training import Actor, Trainer

        most_s = (
            settings["training_s"] if left_s is None else min(settings["training_s"], TRAINING_SHARE * left_s)
        )
        last_s = clock.elapsed_s + most_s
        seed, interval_s = options.seed or 0, settings["interval_s"]
        incumbent = INCUMBENTS[settings["incumbent"]]
        with seeded_torch(seed, options.threads):
            trainer = Trainer(
                interval_s, seed, lambda: incumbent(interval_s), lambda: clock.elapsed_s > last_s
            )
            trainer.train(settings["traces"], settings["passes"], settings["episodes"])
        return DL2(interval_s, Actor(trainer.best), learned=trainer.curve.text())


def _solver(
    name: str,
    what: str,
    policy: type[Policy],
    options: Mapping[str, MethodOption] | None = None,
    arguments: Callable[[SchedulingInstance, Mapping[str, Any]], Sequence[Any]] | None = None,
) -> PolicySolver:
    """Return the solver of a class of policies.

    Parameters
    ----------
    arguments
        Returns the arguments of the class for an instance and settings; None where these are the settings, in
        the order of the options.
    """
    own = options or {}

    def make(instance: SchedulingInstance, settings: Mapping[str, Any]) -> Policy:
        return policy(*(arguments(instance, settings) if arguments else [settings[key] for key in own]))

    return PolicySolver(name, what, policy.knows, make, options)


def _round_or_lease(instance: SchedulingInstance, settings: Mapping[str, Any]) -> list[Any]:
    """Return the length of a round, that of a lease if there are leases, and the other settings."""
    rest = [value for key, value in settings.items() if key not in ("round_s", "placement")]
    return [round_of(instance, instance.lease_s or settings["round_s"]), *rest]


def _by_remaining(name: str, what: str, policy: type[Shortest]) -> PolicySolver:
    """Return the solver for a policy that orders jobs by their remaining times, true or estimated."""
    return _solver(name, what, policy, {"by": BY}, lambda _, settings: [settings["by"] == "estimate"])


OPTIMUS_EXACT = _solver(
    "optimus-exact", "as optimus, with the best configurations together, proven", OptimusExact, OPTIMUS
)

POLICIES: tuple[PolicySolver, ...] = (
    _solver("fifo", "first come, first served", FirstCome),
    _solver("fifo-backfill", "EASY backfilling", Backfill),
    _solver("yarn-cs", "queues of tenants with guaranteed shares", TenantQueues, arguments=lambda *_: [True]),
    _solver(
        "fair",
        "all jobs in turn, a round each",
        RoundRobin,
        {
            "round_s": MethodOption(
                3600.0, f"Seconds of a round, where there is no lease{AT_LEAST}.", least=1.0
            )
        },
        _round_or_lease,
    ),
    _solver("drf", "dominant resource fairness among tenants", TenantQueues, arguments=lambda *_: [False]),
    _by_remaining("sjf", "shortest job first, without preemption", Shortest),
    _by_remaining("srtf", "shortest remaining time first", ShortestRemaining),
    _by_remaining("srsf", "shortest remaining time × GPUs first", ShortestService),
    PolicySolver(
        "las",
        "least attained GPU-time first (Tiresias)",
        MultilevelQueues.knows,
        _las,
        {
            "queues": MethodOption(
                "3250,7200",
                "Service in GPU-seconds at which a job falls from the first queue to the second, and so on; "
                "none: no queues, and who has had least is compared once a lease.",
                form=QUEUES_FORM,
            ),
        },
    ),
    _solver("gittins", "highest Gittins index first (Tiresias)", Gittins),
    _solver(
        "gandiva-timeslice",
        "jobs take turns where they want more than there is (Gandiva)",
        TimeSlice,
        {
            "round_s": MethodOption(
                0.0,
                f"Seconds of a turn; 0: 60, or as many minutes as make 8,000 turns of a trace{AT_LEAST}.",
                least=0.0,
            )
        },
        lambda instance, settings: [
            round_of(instance, settings["round_s"] or turn_s(float(np.ptp(instance.table().arrival_s))))
        ],
    ),
    _solver(
        "themis",
        "leases to the worst finish-time fairness (Themis)",
        Themis,
        {
            "round_s": MethodOption(
                1200.0, f"Seconds of a lease, where the instance has none{AT_LEAST}.", least=1.0
            ),
            "fairness": MethodOption(0.8, "f: what is free goes to the worst 1 − f of the jobs.", least=0.0),
        },
        _round_or_lease,
    ),
    _solver(
        "max-min",
        "fair shares of normalised throughput (Gavel)",
        MaxMin,
        {"round_s": MethodOption(360.0, f"Seconds of a round{AT_LEAST}.", least=1.0)},
        lambda instance, settings: [round_of(instance, settings["round_s"])],
    ),
    _solver("optimus", "configurations by marginal gains, every interval (Optimus)", Optimus, OPTIMUS),
)
"""The policies, in the order in which they are listed."""
