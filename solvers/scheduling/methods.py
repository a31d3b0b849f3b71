"""Policies as solvers: each simulates the trace, and returns its segments as a plan; none proves anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...formulations.scheduling.formulation import SchedulingFormulation
from ...formulations.scheduling.plan import Segment
from ...instances.common.errors import OptionError
from ...instances.scheduling.instance import SchedulingInstance
from ..common.base import Clock, MethodOption, Outcome, Solver
from ..common.options import SolveOptions
from . import muri
from .engine import Engine, EvictionError, Schedule
from .policies.first_come import Backfill, FirstCome
from .policies.gandiva import TimeSlice
from .policies.gittins import Gittins
from .policies.least_attained import LeastAttained, Queues
from .policies.max_min import MaxMin
from .policies.optimus import Optimus
from .policies.optimus_exact import Allocate, OptimusExact
from .policies.round_robin import RoundRobin
from .policies.shortest import Shortest, ShortestRemaining, ShortestService
from .policies.tenants import TenantQueues
from .policies.themis import Themis
from .policy import Policy
from .round_policy import RoundPolicy
from .rounds import RoundEngine

POOLED = "the servers are taken as one pool"

SEMANTICS = MethodOption("standard", "muri: as Muri's simulator counts time", choices=("standard", "muri"))
BY = MethodOption("truth", "Remaining times are true, or estimated by users.", choices=("truth", "estimate"))


def plan_of(instance: SchedulingInstance, schedule: Schedule) -> list[Segment]:
    """Return a schedule as a plan."""
    names, menus = instance.table().names, instance.menus()
    row = menus.requested[schedule.job] if schedule.row is None else schedule.row
    columns = (column.tolist() for column in (schedule.job, schedule.start_s, schedule.end_s, row))
    # Validating what was computed here would take longer than computing it.
    return [
        Segment.model_construct(
            job=names[job], start_s=start, end_s=end, configuration=menus.labels[row], servers={}
        )
        for job, start, end, row in zip(*columns, strict=True)
    ]


class PolicySolver(Solver[SchedulingFormulation]):
    """A policy by its name.

    Parameters
    ----------
    what
        One line for people, with what it knows.
    make
        Returns the policy of an instance for its settings.
    """

    kinds = ("scheduling",)

    def __init__(
        self,
        name: str,
        what: str,
        make: Callable[[SchedulingInstance, dict[str, Any]], Policy | RoundPolicy],
        options: Mapping[str, MethodOption] | None = None,
    ) -> None:
        self.name, self.what = name, what
        self._make = make
        self._options = dict(options or {})

    @property
    def method_options(self) -> Mapping[str, MethodOption]:  # type: ignore[override]
        """Its named settings."""
        return self._options

    def check_options(self, options: SolveOptions) -> None:
        """Refuse what it would ignore, and limits of queues that are no numbers."""
        super().check_options(options)
        if "queues" in self._options:
            limits_of(self.setting(options, "queues"))

    def solve(self, formulation: SchedulingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Return the schedule of the policy."""
        instance = formulation.instance
        settings = {key: self.setting(options, key) for key in self._options}
        said = [POOLED] if instance.servers else []
        with clock.enforced():
            try:
                if settings.get("semantics") == "muri":
                    schedule = muri.simulate(instance, self.name)
                else:
                    policy = self._make(instance, settings)
                    schedule = simulate(instance, policy)
                    said += [policy.summary() or ""] if isinstance(policy, RoundPolicy) else []
            except EvictionError as error:
                return Outcome(message=f"{self.name}: {error}")
        return Outcome(plan_of(instance, schedule), message="; ".join(filter(None, said)) or None)


def simulate(instance: SchedulingInstance, policy: Policy | RoundPolicy) -> Schedule:
    """Return the schedule of a policy, by the engine that it needs.

    Raises
    ------
    EvictionError
        If a job that must not be interrupted loses its place.
    PolicyError
        If the policy leaves jobs waiting for ever, or chooses what cannot run.
    """
    if isinstance(policy, RoundPolicy):
        return RoundEngine(instance, policy).run()
    return Engine(instance, policy).run()


def limits_of(text: str) -> tuple[float, ...]:
    """Return the limits of queues from their option.

    Raises
    ------
    OptionError
        If they are not numbers that rise.
    """
    if text == "none":
        return ()
    try:
        limits = tuple(float(part) for part in text.split(","))
        if not all(0 < a < b < float("inf") for a, b in zip((1e-300, *limits), limits, strict=False)):
            raise ValueError
    except ValueError:
        raise OptionError(
            f"option 'queues' is {text!r}; write GPU-seconds that rise, such as 3250,7200, or none"
        ) from None
    return limits


def _las(_: SchedulingInstance, settings: Mapping[str, Any]) -> Policy:
    limits = limits_of(settings["queues"])
    return Queues(limits, settings["promote"]) if limits else LeastAttained()


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


def optimus_exact(allocate: Allocate) -> PolicySolver:
    """Return Optimus with proven allocations.

    Parameters
    ----------
    allocate
        The exact method of allocation, which the registry knows.
    """
    return PolicySolver(
        "optimus-exact",
        "as optimus, with the best configurations together, proven; knows what is left",
        lambda _, settings: OptimusExact(allocate, settings.pop("interval_s"), **settings),
        OPTIMUS,
    )


POLICIES: tuple[PolicySolver, ...] = (
    PolicySolver("fifo", "first come, first served; knows nothing", lambda *_: FirstCome()),
    PolicySolver("fifo-backfill", "EASY backfilling; knows users' estimates", lambda *_: Backfill()),
    PolicySolver(
        "yarn-cs",
        "queues of tenants with guaranteed shares; knows nothing",
        lambda *_: TenantQueues(guaranteed=True),
    ),
    PolicySolver(
        "fair",
        "all jobs in turn, a round each; knows nothing",
        lambda instance, settings: RoundRobin(instance.lease_s or settings["round_s"]),
        {"round_s": MethodOption(3600.0, "Seconds of a round, where there is no lease.", least=1.0)},
    ),
    PolicySolver(
        "drf",
        "dominant resource fairness among tenants; knows nothing",
        lambda *_: TenantQueues(guaranteed=False),
    ),
    PolicySolver(
        "sjf",
        "shortest job first, without preemption; knows durations",
        lambda _, settings: Shortest(settings["by"] == "estimate"),
        {"by": BY},
    ),
    PolicySolver(
        "srtf",
        "shortest remaining time first; knows remaining times",
        lambda _, settings: ShortestRemaining(settings["by"] == "estimate"),
        {"by": BY, "semantics": SEMANTICS},
    ),
    PolicySolver(
        "srsf",
        "shortest remaining time × GPUs first; knows remaining times",
        lambda _, settings: ShortestService(settings["by"] == "estimate"),
        {"by": BY, "semantics": SEMANTICS},
    ),
    PolicySolver(
        "las",
        "least attained GPU-time first (Tiresias); knows nothing",
        _las,
        {
            "queues": MethodOption("3250,7200", "Limits of the queues in GPU-seconds, or none."),
            "promote": MethodOption(
                0.0, "Back to the first queue after waiting so many times the time run; 0: never.", least=0.0
            ),
            "semantics": SEMANTICS,
        },
    ),
    PolicySolver(
        "gittins", "highest Gittins index first (Tiresias); knows jobs that have ended", lambda *_: Gittins()
    ),
    PolicySolver(
        "gandiva-timeslice",
        "jobs take turns where they want more than there is (Gandiva); knows nothing",
        lambda _, settings: TimeSlice(settings["round_s"]),
        {"round_s": MethodOption(60.0, "Seconds of a turn.", least=1.0)},
    ),
    PolicySolver(
        "themis",
        "leases to the worst finish-time fairness (Themis); knows what is left",
        lambda instance, settings: Themis(instance.lease_s or settings["round_s"], settings["fairness"]),
        {
            "round_s": MethodOption(1200.0, "Seconds of a lease, where the instance has none.", least=1.0),
            "fairness": MethodOption(0.8, "f: what is free goes to the worst 1 − f of the jobs.", least=0.0),
        },
    ),
    PolicySolver(
        "max-min",
        "fair shares of normalised throughput (Gavel); knows speeds",
        lambda _, settings: MaxMin(settings["round_s"]),
        {"round_s": MethodOption(360.0, "Seconds of a round.", least=1.0)},
    ),
    PolicySolver(
        "optimus",
        "configurations by marginal gains, every interval (Optimus); knows what is left",
        lambda _, settings: Optimus(settings.pop("interval_s"), **settings),
        OPTIMUS,
    ),
)
"""The policies, in the order in which they are listed."""
