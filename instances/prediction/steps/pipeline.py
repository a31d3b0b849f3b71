"""Pipelines: the seconds in which microbatches go through stages, with the bubble at both ends."""

from __future__ import annotations

from collections.abc import Sequence

from ...common.errors import OptionError


def pipeline_s(stages_s: Sequence[float], microbatches: int) -> float:
    """Return the seconds of forward and backward passes that a flush ends: (m − 1)·max_k t_k + Σ_k t_k.

    The first microbatch passes all stages, and each of the others leaves the slowest stage one slot later
    (GPipe, Huang et al. 2019; the same for 1F1B of PipeDream-Flush, Narayanan et al. 2021, section 2.2).

    Parameters
    ----------
    stages_s
        Seconds of one microbatch, forward and backward, on each stage.
    microbatches
        How many there are in a step.

    Raises
    ------
    OptionError
        If there is no stage, no microbatch or a negative time.
    """
    if not stages_s or microbatches < 1 or min(stages_s) < 0:
        given = f"{len(stages_s)} stages and {microbatches} microbatches"
        raise OptionError(f"{given}: needs 1 or more of each, and times from 0 on")
    return (microbatches - 1) * max(stages_s) + sum(stages_s)


def bubble_share(stages: int, microbatches: int) -> float:
    """Return the share of a step that equal stages wait: (p − 1)/(m + p − 1) (GPipe)."""
    return 1.0 - microbatches / pipeline_s([1.0] * stages, microbatches)
