"""The rules between fields of a job: one job and columns of jobs are judged by the same expression."""

from __future__ import annotations

import itertools

import numpy as np

from clusterplan.instances.allocation.rules import job_rules
from clusterplan.instances.common.rules import broken

FLAGS = (False, True)


def test_columns_break_the_rules_that_single_jobs_break() -> None:
    """A job is optional if and only if it has a time; a current variant is one of its own."""
    cases = list(itertools.product(FLAGS, repeat=4))
    expected = [optional != unplaced or (runs and not known) for optional, unplaced, runs, known in cases]
    assert [any(flag for _, flag, _ in job_rules(*case)) for case in cases] == expected
    assert broken(job_rules(*np.array(cases).T)).tolist() == expected
