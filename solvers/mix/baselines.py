"""What is usually done: simple rules for sharing and for serving, to compare with.

Of jobs: the best group first; Muri's rounds of matching (SIGCOMM'22, section 4.2), in which jobs are merged
to pairs and these to groups of four by matchings of the largest total progress; no job shares. Of requests:
one configuration for all; for each type the one that serves it at least cost. None of them proves a bound.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from ...formulations.common.objective import TOLERANCE
from ...formulations.mix.formulation import MixFormulation
from ...formulations.mix.program import Entries, MixProgram, Row, devices_of, progress_of
from ...formulations.mix.service import plan_of
from ...instances.common.errors import OptionError
from ...instances.mix.instance import Configuration, MixType
from ..backends.highs import branch_and_bound
from ..common.base import Clock, Outcome, Solver
from ..common.result import SolveOptions
from .relaxation import model_of

ROUNDS = 2


class _Rule(Solver[MixFormulation]):
    """Base of the rules, each for jobs or for requests."""

    kinds = ("mix",)
    serves = False

    def solve(self, formulation: MixFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Return the plan of the rule, if it keeps all constraints."""
        del options, clock
        if formulation.instance.serves != self.serves:
            other = "exact, one-configuration or cheapest-for-each-type"
            other = "exact, best-pair-first, matching-rounds or nobody-shares" if self.serves else other
            sort = "requests" if self.serves else "jobs"
            raise OptionError(f"solver {self.name!r} is for instances with types of {sort}; take {other}")
        plan = plan_of(formulation.instance, self.counts(formulation))
        broken = [] if plan is None else formulation.violations(plan)
        if plan is None or broken:
            why = str(broken[0]) if broken else "its copies cannot serve all requests"
            return Outcome(message=f"{self.name}: {why}")
        return Outcome(plan)

    @abstractmethod
    def counts(self, formulation: MixFormulation) -> Mapping[str, int]:
        """Return the copies of each configuration by name."""


Members = tuple[str, ...]
"""The types of the jobs of a group in order, each as often as it has jobs."""


def _members(one: Configuration) -> Members:
    return tuple(sorted(Counter(one.jobs).elements()))


def _filled(formulation: MixFormulation, groups: Mapping[Members, int]) -> dict[str, int]:
    """Return copies of configurations, as many of each as there is room for, by falling progress on a device.

    Parameters
    ----------
    groups
        How many groups of these members there may be on all models of device; of others there are none.
    """
    program, instance, left = formulation.program, formulation.instance, dict(groups)
    value = progress_of(instance) / devices_of(instance)
    room = np.where([row.sign > 0 for row in program.rows], program.limits, np.inf)
    copies: dict[str, int] = {}
    for k in np.argsort(-value, kind="stable").tolist():
        one = instance.configurations[k]
        own = slice(program.weights.start[k], program.weights.start[k + 1])
        rows, amounts = program.weights.index[own], program.weights.value[own]
        asked = amounts > 0
        most = min(left.get(_members(one), 0), program.most[k])
        fits = int(np.floor(room[rows][asked] / amounts[asked] + 1e-9).min(initial=most))
        if fits > 0:
            copies[one.name] = fits
            left[_members(one)] -= fits
            room[rows] -= fits * amounts
    return copies


class BestFirst(_Rule):
    """The group of the largest progress on a device first, in as many copies as there is room for."""

    name = "best-pair-first"
    what = "jobs: the group of most progress on a device first"

    def counts(self, formulation: MixFormulation) -> Mapping[str, int]:
        """Return the copies of each group."""
        program, instance = formulation.program, formulation.instance
        most = zip(instance.configurations, program.most.astype(int).tolist(), strict=True)
        return _filled(formulation, {_members(one): count for one, count in most})


class NobodyShares(_Rule):
    """As `best-pair-first`, with one job on a device."""

    name = "nobody-shares"
    what = "jobs: no job shares its devices"

    def counts(self, formulation: MixFormulation) -> Mapping[str, int]:
        """Return the copies of each job alone."""
        return _filled(formulation, {(one.name,): one.count or 0 for one in formulation.instance.types})


class MatchingRounds(_Rule):
    """Two rounds of matching (Muri): jobs to pairs, pairs to groups of four; then the best groups first."""

    name = "matching-rounds"
    what = "jobs: two rounds of matching (Muri), then the best groups first"

    def counts(self, formulation: MixFormulation) -> Mapping[str, int]:
        """Return the copies of each group."""
        best: dict[Members, float] = {}
        progress = progress_of(formulation.instance).tolist()
        for one, value in zip(formulation.instance.configurations, progress, strict=True):
            best[_members(one)] = max(value, best.get(_members(one), 0.0))
        groups: dict[Members, int] = {(one.name,): one.count or 0 for one in formulation.instance.types}
        for _ in range(ROUNDS):
            groups = _matched(groups, best)
        return _filled(formulation, groups)


def _matched(groups: Mapping[Members, int], best: Mapping[Members, float]) -> dict[Members, int]:
    """Return the groups after those of a matching of the largest total progress were merged, two and two.

    Groups with the same members are counted, so that it is a matching with capacities, found by HiGHS.
    """
    names = [members for members, count in groups.items() if count]
    pairs = [(tuple(sorted((*names[i], *names[j]))), i, j) for i in range(len(names)) for j in range(i + 1)]
    merged = [(members, Counter((i, j))) for members, i, j in pairs if members in best]
    merged += [(members, Counter((i,))) for i, members in enumerate(names)]
    program = MixProgram(
        -np.array([best.get(members, 0.0) for members, _ in merged]),
        Entries.from_rows([dict(taken) for _, taken in merged]),
        tuple(Row(",".join(members), groups[members]) for members in names),
        Entries.from_rows([{} for _ in merged]),
        np.zeros(0),
        np.full(len(merged), float(sum(groups.values()))),
    )
    counts, _, _ = branch_and_bound(model_of(program, whole=True), {}, Clock(), SolveOptions())
    found = Counter[Members]()
    for (members, _), count in zip(merged, [] if counts is None else counts, strict=counts is not None):
        found[members] += round(count)
    return dict(found)


class OneConfiguration(_Rule):
    """The one configuration that serves all requests at least cost."""

    name = "one-configuration"
    what = "requests: the one configuration that serves all at least cost"
    serves = True

    def counts(self, formulation: MixFormulation) -> Mapping[str, int]:
        """Return the copies of the configuration; none if no one serves all types."""
        return _cheapest(formulation, formulation.instance.types)


class CheapestForEachType(_Rule):
    """For each type of request the configuration that serves it at least cost, on copies of its own."""

    name = "cheapest-for-each-type"
    what = "requests: for each type the configuration of least cost"
    serves = True

    def counts(self, formulation: MixFormulation) -> Mapping[str, int]:
        """Return the copies of each configuration."""
        copies = Counter[str]()
        for one in formulation.instance.types:
            copies.update(_cheapest(formulation, [one]))
        return copies


def _cheapest(formulation: MixFormulation, types: Sequence[MixType]) -> dict[str, int]:
    """Return the copies of the configuration that serves these types at least cost, with fewest devices."""
    asked = {one.name: one.requests_per_s for one in types if one.requests_per_s}
    choices = []
    for index, one in enumerate(formulation.instance.configurations):
        if asked.keys() <= one.requests_per_s.keys():
            busy = math.fsum(rate / one.requests_per_s[name] for name, rate in asked.items())
            copies = math.ceil(busy * (1 - TOLERANCE))
            price = formulation.prices_usd_per_hour[one.hardware]
            choices.append((copies * one.devices * price, copies * one.devices, index, copies))
    if not choices:
        return {}
    *_, index, copies = min(choices)
    return {formulation.instance.configurations[index].name: copies}
