"""The rules between the fields of a variant, each written once, for one job and for columns of jobs alike.

A rule function takes values of one job, or arrays with an entry for each job, and returns rules. Python's
`&`, `|`, `^`, `<` and `==` mean the same for truth values and numbers as for arrays of them, so the
condition of a rule is one expression for both. What a single field may hold stands in its type.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .arrays import Flags
from .fields import Complaint

Rule = tuple[str, Any, str]
"""Path of the field, whether the rule is broken (one truth value or an array), and what is wrong."""


def range_rules(least: Any, most: Any) -> list[Rule]:
    """Return the rules of a range of tasks; words for {least} and {most} are to be filled in."""
    return [("max", most < least, "is {most}, below min {least}; max must be at least min")]


def theta_rules(theta: Sequence[Any]) -> list[Rule]:
    """Return the rules of non-negative coefficients θ."""
    what = "all coefficients are 0, which means infinite speed; at least one must be positive"
    return [("theta", sum(theta) == 0, what)]


def variant_rules(
    model: tuple[Any, Any, Any], workers: Any, least_workers: Any, ps: Any, least_ps: Any
) -> list[Rule]:
    """Return the rules of a variant; the word for {model} is to be filled in.

    Parameters
    ----------
    model
        Whether the speed is a table, `ring_allreduce`, and one of the models with parameter servers.
    workers, ps
        Whether the range is given.
    least_workers, least_ps
        Its lower end; any positive number where it is not given.
    """
    measured, ring, served = model
    formula = ring | served
    listed = "a table lists its configurations; leave this range out"
    no_workers = "is missing; {model} needs a range such as {{min: 1, max: 16}}"
    no_ps = "is missing; {model} needs a range such as {{min: 1, max: 8}}"
    return [
        ("workers", measured & workers, listed),
        ("ps", measured & ps, listed),
        ("workers", formula & (workers ^ True), no_workers),
        ("workers.min", formula & (least_workers < 1), "is 0; a job that runs has at least 1 worker"),
        ("ps", ring & ps, "ring_allreduce has no parameter servers; leave this range out"),
        ("ps", served & (ps ^ True), no_ps),
        ("ps.min", served & (least_ps < 1), "is 0; {model} needs at least 1 parameter server"),
    ]


def complaints(rules: Iterable[Rule], **words: Any) -> list[Complaint]:
    """Return which rules one job, or a part of it, breaks."""
    return [(path, what.format(**words)) for path, broken, what in rules if broken]


def broken(rules: Iterable[Rule]) -> Flags:
    """Return which jobs break a rule, of columns."""
    found: Flags = np.logical_or.reduce([flags for _, flags, _ in rules])
    return found
