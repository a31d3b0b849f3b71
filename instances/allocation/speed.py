"""Measurements in place of a speed: what a document of allocation may say."""

from __future__ import annotations

from typing import Annotated, Literal

from ..common.fields import Flag, Instead, Model, Name, Positive
from ..common.speed import Speed


class MeasuredSpeed(Model):
    """Measurements in place of θ; the loader fits them before validation (`instances.measurements`).

    Attributes
    ----------
    model
        What to fit; `auto` takes the model with the smallest leave-one-out error.
    batch
        Global batch M of the job, and of measurements that do not name theirs.
    measurements
        Path of a CSV file with the columns workers and steps_per_s, and ps and batch where they matter,
        relative to the document.
    batch_per_gpu
        In place of `batch`: what each worker has in all measurements and in the job, whose step it then is.
    allow_rank_deficient
        Accept coefficients that the measurements leave undetermined.
    """

    model: Literal["auto", "ps_sync", "ps_async", "ring_allreduce"] = "auto"
    batch: Positive | None = None
    batch_per_gpu: Positive | None = None
    measurements: Name
    allow_rank_deficient: Flag = False


SpeedModel = Annotated[Speed, Instead(MeasuredSpeed.model_json_schema)]
