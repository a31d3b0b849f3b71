"""The incumbent of `exact`, and which bounds it may keep."""

from __future__ import annotations

from fractions import Fraction

from placements import three_jobs

from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.solvers.consolidation.progress import Progress, is_reached

OUT = [JobPlacement(job=name, placed=False) for name in "abc"]
ONE = [JobPlacement(job="a", servers={"n": 3}), *OUT[1:]]


def test_only_better_plans_are_kept() -> None:
    """A plan that breaks a constraint has no values; a worse one does not replace the incumbent."""
    progress = Progress(three_jobs())
    assert progress.offer(OUT) == (0.0, 0.0)
    assert progress.offer(ONE) == (3.0, 1.0)
    assert progress.offer(OUT) == (0.0, 0.0)
    assert progress.plan is ONE
    assert progress.offer([JobPlacement(job="a", servers={"n": 2}), *OUT[1:]]) is None


def test_what_is_proven_ends_at_the_first_gap() -> None:
    """Bounds behind it do not count; the tighter of two bounds does."""
    progress = Progress(three_jobs("value", "servers"))
    progress.offer(ONE)
    progress.bounds = [4.0, 1.0]
    assert progress.proven(0.0) == []
    progress.tighten([3.0])
    assert progress.bounds == [3.0, 1.0]
    assert progress.proven(0.0) == [3.0, 1.0]


def test_bounds_beyond_an_unproven_objective_are_forgotten() -> None:
    """The objective after it keeps its bound, the next one does not."""
    progress = Progress(three_jobs("value", "servers", "spread"))
    classes = progress.formulation.classes
    progress.bounds = [6.0, 1.0, 0.0]
    progress.forget_beyond(classes, {}, (3.0, 1.0, 0.0))
    assert progress.bounds == [6.0, 1.0]
    progress.bounds = [3.0, 1.0, 0.0]
    progress.forget_beyond(classes, {"value": Fraction(-4)}, (3.0, 1.0, 0.0))  # believed to be better
    assert progress.bounds == [3.0]
    progress.forget_beyond(classes, {}, None)
    assert progress.bounds == [3.0]


def test_counting_adds_bounds_that_are_reached() -> None:
    """Nothing placed has no servers, but not the best value."""
    progress = Progress(three_jobs("servers", "value"))
    progress.offer(OUT)
    progress.add_elementary()
    assert progress.bounds == [0.0]
    assert progress.certificate() is None
    assert is_reached(1.0, 1.0 - 1e-12)
    assert not is_reached(1.0, 0.999)
