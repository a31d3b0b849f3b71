"""What is usually done: simple rules for sharing and for serving, to compare with.

Of jobs: the best group first; Muri's rounds of matching (SIGCOMM'22, section 4.2), in which jobs are merged
to pairs and these to groups of four by matchings of the largest total progress; no job shares. Of requests:
one configuration for all; for each type the one that serves it at least cost. None of them proves a bound.
"""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ...formulations.common.objective import TOLERANCE
from ...formulations.mix.formulation import MixFormulation
from ...formulations.mix.plan import Copies, Plan
from ...instances.common.errors import OptionError
from ...instances.mix.instance import MAX_COPIES, Configuration, MixType
from ..backends.highs import Columns, branch_and_bound
from ..common.base import Clock, Outcome, Solver
from ..common.result import SolveOptions

ROUNDS = 2


class _Rule(Solver[MixFormulation]):
    """Base of the rules, each for jobs or for requests."""

    kinds = ("mix",)
    serves = False

    def solve(self, formulation: MixFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Return the plan of the rule, if it keeps all constraints."""
        del options, clock
        if formulation.instance.serves != self.serves:
            sort = "requests, and these are jobs" if self.serves else "jobs, and these are requests"
            raise OptionError(
                f"solver {self.name!r} is for types of {sort}; 'clusterplan solvers' lists others"
            )
        plan = self.plan(formulation)
        broken = formulation.violations(plan)
        return Outcome(message=f"{self.name}: {broken[0]}") if broken else Outcome(plan)

    @abstractmethod
    def plan(self, formulation: MixFormulation) -> Plan:
        """Return the plan of the rule, which may break constraints."""


Members = frozenset[tuple[str, int]]
"""The types of the jobs of a group, each with its number of jobs."""


def _members(one: Configuration) -> Members:
    return frozenset(one.jobs.items())


def _single_jobs(formulation: MixFormulation) -> dict[Members, int]:
    """Return the groups of one job, with their numbers."""
    return {frozenset({(one.name, 1)}): one.count or 0 for one in formulation.instance.types}


def _filled(formulation: MixFormulation, groups: Mapping[Members, int]) -> Plan:
    """Return copies of configurations, as many of each as there is room for, by falling progress on a device.

    Parameters
    ----------
    groups
        How many groups of these members there may be on all models of device; of others there are none.
    """
    program, left, copies = formulation.program, dict(groups), []
    configurations = formulation.instance.configurations
    first = np.searchsorted(program.weights.configuration, np.arange(len(configurations) + 1))
    room = np.where([row.sign > 0 for row in program.rows], program.limits, np.inf)
    rank = program.cost / [one.devices for one in configurations]
    for k in np.argsort(rank, kind="stable").tolist():
        own, one = slice(*first[k : k + 2]), configurations[k]
        rows, amounts = program.weights.column[own], program.weights.value[own]
        asked = amounts > 0
        most = min(left.get(_members(one), 0), program.most[k])
        count = int(np.floor(room[rows][asked] / amounts[asked] + 1e-9).min(initial=most))
        if count > 0:
            copies.append(Copies(configuration=one.name, count=count))
            left[_members(one)] -= count
            room[rows] -= count * amounts
    return copies


class BestFirst(_Rule):
    """The group of the largest progress on a device first, in as many copies as there is room for."""

    name = "best-pair-first"
    what = "jobs: the group of most progress on a device first"

    def plan(self, formulation: MixFormulation) -> Plan:
        """Return the copies of each group."""
        program, instance = formulation.program, formulation.instance
        return _filled(
            formulation,
            dict.fromkeys(map(_members, instance.configurations), int(program.most.max(initial=0))),
        )


class NobodyShares(_Rule):
    """As `best-pair-first`, with one job on a device."""

    name = "nobody-shares"
    what = "jobs: no job shares its devices"

    def plan(self, formulation: MixFormulation) -> Plan:
        """Return the copies of each job alone."""
        return _filled(formulation, _single_jobs(formulation))


class MatchingRounds(_Rule):
    """Up to two rounds of matching (Muri): jobs to pairs, pairs to groups of four; the best groups first."""

    name = "matching-rounds"
    what = "jobs: two rounds of matching (Muri), then the best groups first"

    def plan(self, formulation: MixFormulation) -> Plan:
        """Return the copies of each group."""
        best: dict[Members, float] = {}
        for one, cost in zip(formulation.instance.configurations, formulation.program.cost, strict=True):
            best[_members(one)] = max(-cost, best.get(_members(one), 0.0))
        groups = _single_jobs(formulation)
        plans = [_filled(formulation, groups)]
        for _ in range(ROUNDS):
            groups = _matched(groups, best)
            plans.append(_filled(formulation, groups))
        # Where there are devices enough, jobs that are merged make less progress.
        return max(plans, key=formulation.evaluate)


def _matched(groups: Mapping[Members, int], best: Mapping[Members, float]) -> dict[Members, int]:
    """Return the groups after those of a matching of the largest total progress were merged, two and two.

    Groups with the same members are counted, so that it is a matching with capacities, found by HiGHS.
    """
    names, pairs, columns = [*groups], list[tuple[Members, int, int]](), Columns()
    for i, j in itertools.combinations_with_replacement(range(len(names)), 2):
        merged = frozenset((Counter(dict(names[i])) + Counter(dict(names[j]))).items())
        if merged in best:
            pairs.append((merged, i, j))
            columns.add(-best[merged], [(i, 1.0), (j, 1.0)])
    least, most = np.full(len(names), -np.inf), np.array([*groups.values()], dtype=float)
    model = columns.program((least, most), [True] * len(pairs))
    counts = branch_and_bound(model, {}, Clock(), SolveOptions())[0] if pairs else None
    found = Counter(groups)
    for (merged, i, j), count in zip(pairs, np.zeros(len(pairs)) if counts is None else counts, strict=True):
        found[merged] += round(count)
        found[names[i]] -= round(count)
        found[names[j]] -= round(count)
    return dict(found)


class CheapestForEachType(_Rule):
    """For each type of request the configuration that serves it at least cost, on copies of its own."""

    name = "cheapest-for-each-type"
    what = "requests: for each type the configuration of least cost"
    serves = True

    def plan(self, formulation: MixFormulation) -> Plan:
        """Return copies for each set of types, with fewest devices where costs are equal."""
        counts, rates = Counter[str](), defaultdict[str, dict[str, float]](dict)
        price, types = formulation.prices_usd_per_hour, formulation.instance.types
        for own in self.sets([one for one in types if one.requests_per_s]):
            asked = {one.name: one.requests_per_s or 0.0 for one in own}
            able = [
                each for each in formulation.configurations.values() if asked.keys() <= each.members.keys()
            ]
            devices = [(_copies(each, asked) * each.devices, each) for each in able]
            if devices:
                taken, best = min(devices, key=lambda pair: (pair[0] * price[pair[1].hardware], pair[0]))
                counts[best.name] = min(counts[best.name] + taken // best.devices, MAX_COPIES)
                rates[best.name] |= asked
        return [Copies(configuration=name, count=n, requests_per_s=rates[name]) for name, n in counts.items()]

    def sets(self, types: Sequence[MixType]) -> Iterable[Sequence[MixType]]:
        """Return the types that are to be served by one configuration."""
        return [[one] for one in types]


class OneConfiguration(CheapestForEachType):
    """The one configuration that serves all requests at least cost."""

    name = "one-configuration"
    what = "requests: the one configuration that serves all at least cost"

    def sets(self, types: Sequence[MixType]) -> Iterable[Sequence[MixType]]:
        """Return all types as one set."""
        return [types]


def _copies(one: Configuration, asked: Mapping[str, float]) -> int:
    """Return how many copies of a configuration serve the requests of some types."""
    busy = sum(rate / one.requests_per_s[name] for name, rate in asked.items())
    return max(1, math.ceil(busy * (1 - TOLERANCE)))
