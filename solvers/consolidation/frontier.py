"""Frontier of moves: the fewest tasks to move, for each number of servers or racks to be freed.

What moves few tasks to free many units also frees fewer, so that moves rise with the units. The size of the
search is minus the number of units: the fewer units, the more servers stay in use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from ...formulations.common.frontier import Sizes
from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...instances.common.errors import OptionError, some
from ...instances.common.fields import Count, Many, Model
from ...instances.consolidation.instance import ConsolidationInstance, Release
from ..common.base import Clock
from ..common.result import AnyFrontier, ObjectiveRecord, Result, SolveOptions
from ..frontier import SizeSearch


def moves_of(result: Result) -> ObjectiveRecord:
    """Return the objective `migrations` of a result."""
    return next(record for record in result.objectives if record.name == "migrations")


class FreedPoint(Model):
    """A number of units to be freed, and the plan with the fewest moves that was found.

    Attributes
    ----------
    result
        The result of the solve, which is verified, exported and compared like any other.
    """

    result: Result

    @property
    def freed(self) -> int:
        """Number of servers or racks that the plan frees."""
        return round(self.result.objectives[0].value or 0.0)

    @property
    def occupied(self) -> int:
        """Minus the number of units freed, which rises along the frontier."""
        return -self.freed

    @property
    def migrations(self) -> int:
        """Number of tasks that the plan moves."""
        return round(moves_of(self.result).value or 0.0)

    @property
    def gap(self) -> float:
        """Relative gap between the moves and their certified bound."""
        return moves_of(self.result).certified_gap or 0.0

    @property
    def bound(self) -> int:
        """Number of moves below which no plan frees so many units, as our own check derives."""
        return round(moves_of(self.result).certified_bound or 0.0)


class MovesFrontier(AnyFrontier):
    """The result of a search over numbers of units to be freed; JSON and back without loss.

    Attributes
    ----------
    per
        Whether servers or racks are freed.
    least, most
        The fewest and the most units that are freed.
    status
        `complete`: the error is proven; `partial`: a limit stopped the search; `infeasible`: it is proven
        that so many units cannot be freed.
    error, certified_error
        ε: for every number of units from `least` to `most` there is a point that frees as many, and no plan
        that does moves fewer than 1 − ε times the point's tasks; as asked for, and as the bounds prove.
    points
        From the most units to the fewest.
    others
        Solved numbers that are no points, because a point with more units needs no more moves.
    furthest
        Result of a solve that freed fewer units than were wanted, whose bound says how many are possible.
    """

    slow: ClassVar[str] = "occupied"
    dear: ClassVar[str] = "migrations"
    titles: ClassVar[Mapping[str, str]] = {
        "freed": "freed",
        "tasks moved": "migrations",
        "no plan moves fewer than": "bound",
    }
    figures: ClassVar[tuple[str, ...]] = ("freed", "migrations", "bound")

    kind: Literal["consolidation"] = "consolidation"
    per: Literal["server", "rack"] = "server"
    least: Count
    most: Count
    points: Many[FreedPoint] = ()
    others: Many[FreedPoint] = ()
    furthest: Result | None = None

    @property
    def most_possible(self) -> int | None:
        """Number of units beyond which none can be freed, as our own check derives; None if not known."""
        records = () if self.furthest is None else self.furthest.objectives
        bound = records[0].certified_bound if records else None
        return None if bound is None else round(bound)

    def results(self) -> dict[str, Result]:
        """Return the result of each point by the name of its file."""
        return {f"freed-{point.freed}": point.result for point in self.points}


def with_units(
    instance: ConsolidationInstance, per: Literal["server", "rack"], count: int
) -> ConsolidationInstance:
    """Return the instance with a number of servers or racks to be freed; else as it says itself."""
    release = (instance.free or Release(count=1)).model_copy(update={"per": per, "count": count})
    return instance.replace(free=release.model_dump(mode="json"))


@dataclass
class _Search(SizeSearch):
    """Search over numbers of servers or racks; the plan of `furthest` frees the most that was found."""

    per: Literal["server", "rack"]
    furthest: Result | None = field(default=None, kw_only=True)

    def begin(self) -> None:
        """Free as many units as possible, at most all, then as few as wanted."""
        whole = self.result_of(self.grid.first)
        if self.is_solved(self.grid.first, whole):
            self.solved[self.grid.first] = whole
        else:
            self.furthest = whole
            most = (whole.objectives[0].value or 0.0) if whole.plan is not None else 0.0
            self.grid = Sizes(-most, self.grid.last)
        if self.grid.first <= self.grid.last:
            super().begin()
        elif self.clock.expired:
            self.limit = "time"

    def next_step(self) -> float | None:
        """Return the size to solve next, None where not even the fewest units can be freed."""
        return super().next_step() if self.grid.first <= self.grid.last else None

    def of_size(self, size: float) -> ConsolidationInstance:
        """Return the instance with a number of units to be freed."""
        return with_units(self.instance, self.per, -int(size))

    def record(self, result: Result) -> ObjectiveRecord:
        """Return the number of moves."""
        return moves_of(result)

    def is_solved(self, size: float, result: Result) -> bool:
        """Return whether a plan frees as many units as are wanted."""
        return result.plan is not None and (result.objectives[0].value or 0.0) >= -size

    def start(self, size: float) -> Result | None:
        """Return the known result of as many units, or of the next larger number: its plan frees more."""
        larger = [solved for solved in self.solved if solved <= size]
        return self.solved[max(larger)] if larger else self.furthest


def find_frontier(
    instance: ConsolidationInstance,
    options: SolveOptions,
    error: float,
    most_usd: float | None,
    *,
    per: Literal["server", "rack"] | None = None,
    least: float | None = None,
    most: float | None = None,
) -> MovesFrontier:
    """Return the frontier of moves against servers or racks freed, with its proven error ε.

    Parameters
    ----------
    error
        ε, as in `MovesFrontier`.
    per
        Whether servers or racks are freed; by default as the instance says, or servers.
    least, most
        The fewest and the most units; by default from 1 to all on which tasks run now.

    Raises
    ------
    OptionError
        If `migrations` is no objective, nothing can be freed, or a number is wrong.
    """
    if most_usd is not None:
        raise OptionError("--most-usd is for costs; of moves give the most servers that are freed, --to N")
    per = per or ("server" if instance.free is None else instance.free.per)
    first = ConsolidationFormulation(with_units(instance, per, 1))
    units = len(first.releasable)
    low, high = least or 1, units if most is None else most
    if not units:
        raise OptionError(
            f"there is nothing to free: on no {per} do tasks of the listed jobs run, and nothing else"
        )
    if "migrations" not in first.instance.objectives:
        names = some(list(first.instance.objectives), 8)
        raise OptionError(f"the objectives are {names}; give migrations among them, or leave them out")
    if not 1 <= low <= high <= units or low != int(low) or high != int(high):
        raise OptionError(f"--from {low:g} --to {high:g}: give whole numbers from 1 to {units}")
    search = _Search(instance, Sizes(-high, -low), options, error, Clock(options.time_limit_s), per)
    search.run()
    points, others = search.ranked()
    frontier = MovesFrontier(
        **search.facts(),
        per=per,
        least=int(low),
        most=int(max(low, -search.grid.first)),
        points=tuple(FreedPoint(result=search.solved[size]) for size in reversed(points)),
        others=tuple(FreedPoint(result=search.solved[size]) for size in others),
        furthest=search.furthest,
    )
    furthest, possible = search.furthest, frontier.most_possible
    if furthest is not None and furthest.status == "infeasible":
        return frontier.model_copy(update={"status": "infeasible", "diagnosis": furthest.diagnosis})
    if possible is not None and possible < low:
        return frontier.model_copy(update={"status": "infeasible"})
    return frontier
