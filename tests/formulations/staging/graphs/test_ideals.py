"""Ideals of an order."""

from __future__ import annotations

from clusterplan.formulations.staging.graphs.ideals import ideals_of

DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3)]


def test_a_diamond_has_six_ideals() -> None:
    """By rising size, each with the blocks that may come next."""
    found = ideals_of(4, DIAMOND)
    assert found.complete
    assert found.sets == (0, 0b1, 0b11, 0b101, 0b111, 0b1111)
    links = [
        (index, int(found.block[e]), int(found.target[e]))
        for index in range(6)
        for e in range(found.start[index], found.start[index + 1])
    ]
    assert links == [(0, 0, 1), (1, 1, 2), (1, 2, 3), (2, 2, 4), (3, 1, 4), (4, 3, 5)]


def test_too_many_ideals_leave_those_of_one_order() -> None:
    """Ten blocks without order have 1024."""
    assert len(ideals_of(10, [])) == 1024
    few = ideals_of(10, [], most=1000)
    assert not few.complete
    assert few.sets == tuple((1 << size) - 1 for size in range(11))
    assert len(few.start) == len(few) + 1


def test_broad_orders_are_given_up_at_once() -> None:
    """Any set of blocks that may come next makes an ideal: of 2,000 without order there are 2^2000."""
    assert len(ideals_of(9, [], most=512)) == 512
    assert not ideals_of(2000, []).complete
