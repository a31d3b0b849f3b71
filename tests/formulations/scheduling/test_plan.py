"""Segments in columns."""

from __future__ import annotations

from clusterplan.formulations.scheduling.plan import Segment, SegmentTable


def table(*rows: tuple[str, float, float, dict[str, int]]) -> SegmentTable:
    """Return segments of jobs a and b."""
    plan = [Segment(job=job, start_s=b, end_s=e, servers=servers) for job, b, e, servers in rows]
    return SegmentTable.of(plan, {"a": 0, "b": 1})


def test_segments_without_a_pause_are_one_run() -> None:
    """Unless the job moves to other servers."""
    found = table(("b", 5, 6, {}), ("a", 2, 3, {}), ("a", 0, 2, {}), ("a", 4, 5, {}))
    of, length, end = found.runs
    assert end.tolist() == [3, 5, 6]
    assert of.tolist() == [0, 0, 1]
    assert length.tolist() == [3, 1, 1]
    moved = table(("a", 0, 2, {"x": 1}), ("a", 2, 3, {"y": 1}), ("a", 3, 4, {"y": 1}))
    assert moved.runs[1].tolist() == [2, 2]


def test_ends_and_starts_of_jobs() -> None:
    """Infinite for a job without segments; those of jobs that nobody knows are left out."""
    found = table(("a", 1, 2, {}), ("a", 5, 7, {}), ("who", 0, 9, {}))
    assert found.completion_s.tolist() == [7, float("-inf")]
    assert found.first_start_s.tolist() == [1, float("inf")]
    assert found.running_s.tolist() == [3, 0]
