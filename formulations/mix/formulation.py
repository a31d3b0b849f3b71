"""Mix: what runs together on which devices, and in how many copies.

Sets
    types i of jobs or of requests; models of device g; configurations k, of which g(k) is the model
Data
    w_k devices, p_g price [USD/h], G_g devices that there are
    of jobs: n_i count, ω_i weight, a_ki jobs of type i in a group, s_ki progress of each
    of requests: λ_i rate [1/s], μ_ki rate of a replica that serves only type i [1/s]
Variables
    y_k ∈ ℤ≥0 copies of configuration k; of requests, r_ki ≥ 0 requests/s of type i that its copies serve
Objectives, one after the other
    of jobs: maximise Σ_k y_k Σ_i ω_i a_ki s_ki, the progress; then the least s_ki of all groups with y_k > 0
    of requests: minimise Σ_k p_g(k) w_k y_k, the cost; then Σ_k w_k y_k, the devices
Constraints
    Σ_{k: g(k) = g} w_k y_k ≤ G_g; Σ_k w_k y_k ≤ the devices; Σ_k p_g(k) w_k y_k ≤ the budget
    of jobs: Σ_k a_ki y_k ≤ n_i, or = n_i if all must run; s_ki ≥ the least progress that is asked for
    of requests: Σ_k r_ki ≥ λ_i and Σ_i r_ki / μ_ki ≤ y_k, since replicas share their time between types

Gavel (OSDI'20) measures pairs of jobs that share a device; Muri (SIGCOMM'22) interleaves up to four.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ...instances.common.base import ProblemKind
from ...instances.common.errors import OutOfTimeError, TooLargeError
from ...instances.mix.instance import BUDGET, DEVICES, Configuration, MixInstance
from ..common.formulation import Formulation
from ..common.objective import TOLERANCE, Bounds, Diagnosis, Objective, Violation, within
from .certificate import MixCertificate, read_certificate
from .check.tree_bounds import certified_bounds
from .plan import Copies, Plan
from .program import MixProgram, least_progress_of, program_of

CLOSE = 1e-6
"""Relative error of a bound in floats."""
IDLE = 1e-12
"""Largest rate, as a part of all requests of a type, that counts as none."""


class MixFormulation(Formulation[MixInstance, Copies]):
    """The mathematics of a mix."""

    kind: ClassVar[ProblemKind] = "mix"
    entry = Copies

    @cached_property
    def configurations(self) -> dict[str, Configuration]:
        """The configurations by name."""
        return {one.name: one for one in self.instance.configurations}

    @cached_property
    def prices_usd_per_hour(self) -> dict[str, float]:
        """The price of one device of each model; a missing one counts as 0."""
        return {each.name: each.price_usd_per_hour or 0.0 for each in self.instance.hardware}

    @cached_property
    def program(self) -> MixProgram:
        """The integer programme with the first objective, in floats."""
        return program_of(self.instance).as_floats()

    @cached_property
    def objectives(self) -> tuple[Objective, ...]:
        """Progress, then least progress; or cost, then devices."""
        if self.instance.serves:
            return Objective("cost", "min", "USD/h"), Objective("devices", "min", "devices")
        return Objective("progress", "max", "jobs"), Objective("least_progress", "max", "share")

    def copies(self, counts: Sequence[int], shares: Sequence[float]) -> Plan:
        """Return the plan with so many copies of each configuration.

        Parameters
        ----------
        counts, shares
            y, shape (n,), and x in the order of the rates of the programme. Nothing is served beyond what is
            asked for.
        """
        types, rates = self.instance.types, self.program.rates
        served = np.array(shares, dtype=float) * rates.value
        asked = np.array([one.requests_per_s or 0.0 for one in types])
        in_all = np.bincount(rates.column, served, minlength=len(types))
        served *= np.minimum(1.0, asked / np.maximum(in_all, 1e-300))[rates.column]
        of_types: list[dict[str, float]] = [{} for _ in counts]
        for k, i, rate in zip(
            rates.configuration.tolist(), rates.column.tolist(), served.tolist(), strict=True
        ):
            if rate > IDLE * asked[i]:
                of_types[k][types[i].name] = rate
        return [
            Copies(configuration=one.name, count=count, requests_per_s=own if self.instance.serves else None)
            for one, count, own in zip(self.instance.configurations, counts, of_types, strict=True)
            if count
        ]

    def devices(self, plan: Plan) -> Counter[str]:
        """Return the devices of each model that a plan takes."""
        used = Counter[str]()
        for entry in plan:
            one = self.configurations[entry.configuration]
            used[one.hardware] += one.devices * entry.count
        return used

    def usd_per_hour(self, plan: Plan) -> float:
        """Return what the devices of a plan cost in an hour."""
        return math.fsum(count * self.prices_usd_per_hour[name] for name, count in self.devices(plan).items())

    def running(self, plan: Plan) -> Counter[str]:
        """Return how many jobs of each type run in a plan."""
        jobs = Counter[str]()
        for entry in plan:
            for name, count in self.configurations[entry.configuration].jobs.items():
                jobs[name] += count * entry.count
        return jobs

    def served(self, plan: Plan) -> dict[str, float]:
        """Return the requests of each type that a plan serves in a second."""
        names = [one.name for one in self.instance.types]
        return {
            name: math.fsum((entry.requests_per_s or {}).get(name, 0.0) for entry in plan) for name in names
        }

    def violations(self, plan: Plan) -> list[Violation]:
        """Return every constraint that the plan breaks."""
        names = Counter(entry.configuration for entry in plan)
        found = [
            Violation("configuration", f"there is no {name!r}" if n == 1 else f"{name!r} is listed {n} times")
            for name, n in names.items()
            if n > 1 or name not in self.configurations
        ]
        if found:
            return found
        devices = self.devices(plan)
        # Exactly, as bounds are derived: a sum of floats may hide what is beyond a limit.
        cost = sum(count * Fraction(self.prices_usd_per_hour[name]) for name, count in devices.items())
        used = {**self.running(plan), **devices, DEVICES: devices.total(), BUDGET: cost}
        for row, limit in zip(self.program.rows, self.program.limits.tolist(), strict=True):
            if row.sign * used.get(row.name, 0) > limit:
                most = "at least" if row.sign < 0 else "at most"
                what = (
                    f"the plan has {float(used.get(row.name, 0)):,g}; {most} {abs(row.limit):,g} are allowed"
                )
                found.append(Violation(row.name, what))
        return [
            *found,
            *itertools.chain.from_iterable(map(self._entry_violations, plan)),
            *self._unserved(plan),
        ]

    def _entry_violations(self, entry: Copies) -> Iterator[Violation]:
        one, given, floor = (
            self.configurations[entry.configuration],
            entry.requests_per_s,
            self.instance.least_progress,
        )
        if floor is not None and least_progress_of(one) < floor:
            yield Violation(
                "least_progress", f"is {least_progress_of(one):g} in {one.name!r}; {floor:g} is asked for"
            )
        wrong = [name for name in given or () if name not in one.requests_per_s]
        if wrong or (given is None) == self.instance.serves:
            yield Violation("requests_per_s", f"of {one.name!r} are those that it does not serve: {wrong}")
            return
        busy = sum(rate / one.requests_per_s[name] for name, rate in (given or {}).items())
        if not within(busy, entry.count):
            yield Violation(one.name, f"would be busy on {busy:.10g} copies; there are {entry.count:,}")

    def _unserved(self, plan: Plan) -> Iterator[Violation]:
        served = self.served(plan)
        for one in self.instance.types:
            asked = one.requests_per_s or 0.0
            if served[one.name] < asked * (1 - TOLERANCE):
                yield Violation(one.name, f"{served[one.name]:.10g} requests/s are served; {asked:g} come")

    def evaluate(self, plan: Plan) -> tuple[float, ...]:
        """Return progress and least progress, or cost [USD/h] and devices."""
        if self.instance.serves:
            return self.usd_per_hour(plan), float(self.devices(plan).total())
        weight = {one.name: one.weight for one in self.instance.types}
        chosen = [(self.configurations[entry.configuration], entry.count) for entry in plan]
        progress = math.fsum(
            copies * weight[name] * count * one.progress[name]
            for one, copies in chosen
            for name, count in one.jobs.items()
        )
        return progress, min((least_progress_of(one) for one, _ in chosen), default=0.0)

    @cached_property
    def live(self) -> list[Configuration]:
        """The configurations of which a plan may have copies."""
        return [
            one for one, most in zip(self.instance.configurations, self.program.most, strict=True) if most > 0
        ]

    def elementary_bounds(self) -> Bounds:
        """Return what jobs or requests make or cost at best, each type by itself."""
        if self.instance.serves:
            usd = [one.devices * self.prices_usd_per_hour[one.hardware] for one in self.live]
            return self._least_per_type(usd), self._least_per_type([one.devices for one in self.live])
        best = dict[str, float]()
        for one in self.live:
            best |= {name: max(share, best.get(name, 0.0)) for name, share in one.progress.items()}
        progress = [one.weight * (one.count or 0) * best.get(one.name, 0.0) for one in self.instance.types]
        return math.fsum(progress), max(map(least_progress_of, self.live), default=0.0)

    def _least_per_type(self, amounts: Sequence[float]) -> float:
        """Return the sum over types of the least amount for a request, times the requests."""
        least = dict[str, float]()
        for amount, one in zip(amounts, self.live, strict=True):
            for name, rate in one.requests_per_s.items():
                least[name] = min(amount / rate, least.get(name, math.inf))
        bound = float(self.program.demand @ [least.get(one.name, 0.0) for one in self.instance.types])
        # Of figures beyond what floats can hold nothing is said.
        return bound if math.isfinite(bound) else 0.0

    def read(self, certificate: Any) -> MixCertificate | str:
        """Return a certificate in the types of a mix, or its first format error as text."""
        program = self.program
        prices, totals = len(program.demand) + len(program.rows), len(program.devices)
        counted = self.instance.serves and self.instance.devices is None
        return read_certificate(certificate, len(program.cost), totals, (prices, prices + counted))

    def certified_bounds(self, certificate: Any, values: Sequence[float] | None = None) -> Bounds:
        """Return the tighter of the bounds that counting and the trees of a certificate prove."""
        read = None if certificate is None else self.read(certificate)
        bounds = self.elementary_bounds()
        if not isinstance(read, MixCertificate):
            return bounds
        try:
            proven = certified_bounds(self.instance, read, values)
        except OutOfTimeError:
            raise
        except TooLargeError:  # no method writes such a certificate
            return bounds
        return tuple(o.tighter(a, b) for o, a, b in zip(self.objectives, bounds, proven, strict=True))

    def prices(self, certificate: Any, plan: Plan) -> dict[str, float] | None:
        """Return what one more job, request/s, device or USD/h is worth, in the unit of the first objective.

        Requests have the cost of one more in a second, as a first estimate, all others the gain. None if the
        prices prove less than counting does: then they are not those of a relaxation.
        """
        del plan
        read = self.read(certificate)
        if isinstance(read, str):
            return None
        program, counted = self.program, self.elementary_bounds()[0] or 0.0
        bound = program.bound(np.array(read.first.prices), np.zeros(len(program.most)), program.most)
        counted = counted if self.instance.serves else -counted
        if bound < counted - CLOSE * abs(counted):
            return None
        prices: dict[str, float] = {}
        names = [(one.name, 1) for one in self.instance.types] if self.instance.serves else []
        names += [(row.name, row.sign) for row in self.program.rows]
        for (name, sign), price in zip(names, read.first.prices, strict=True):
            prices[name] = prices.get(name, 0.0) + sign * price
        return prices

    def advice(self, prices: Mapping[str, float], value: float) -> str | None:
        """Return what one more device of the model that is worth most would bring."""
        del value
        names = [each.name for each in self.instance.hardware if each.limit is not None]
        best = max(names, key=lambda name: prices.get(name, 0.0), default="")
        worth = prices.get(best, 0.0)
        if worth <= 0:
            return None
        if not self.instance.serves:
            return (
                f"one more {best} would raise the progress by at most about {worth:.3g}, if groups could be "
                f"had in parts; 'what-if limit={best}:+1' tells it for whole ones"
            )
        rates = {one.name: one.requests_per_s or 0.0 for one in self.instance.types}
        cost = math.fsum(rate * prices[name] for name, rate in rates.items())
        more = worth * math.fsum(rates.values()) / cost if cost else 0.0
        also = f", or serve {more:.3g} requests/s more at the same cost" if more else ""
        return (
            f"one more {best} would save at most about {worth:.3g} USD/h{also}, if machines could be had in "
            f"parts; 'what-if limit={best}:+1' tells it for whole ones"
        )

    def elementary_infeasibility(self) -> Diagnosis | None:
        """Diagnose types that have to be served or to run, and that no configuration has."""
        must_run, able = self.instance.must_run, {name for one in self.live for name in one.members}
        needed = [one.name for one in self.instance.types if one.requests_per_s or (must_run and one.count)]
        missing = [name for name in needed if name not in able]
        if not missing:
            return None
        given = {name for one in self.instance.configurations for name in one.members}
        unknown = [name for name in missing if name not in given]
        excluded = [name for name in missing if name in given]
        reasons = [f"{name}: no configuration has it" for name in unknown]
        limits = "the limits" if self.instance.serves else "the limits and counts"
        reasons += [f"{name}: no configuration that has it keeps {limits}" for name in excluded]
        remedies = ["give configurations with " + ", ".join(map(repr, unknown))] if unknown else []
        remedies += [f"raise {limits}"] if excluded else []
        return Diagnosis(reasons=tuple(reasons), remedies=tuple(remedies))

    def finish(self, plan: Plan) -> Sequence[Copies]:
        """Return the plan in the order of the instance."""
        order = {name: index for index, name in enumerate(self.configurations)}
        return tuple(sorted(plan, key=lambda entry: order[entry.configuration]))
