"""Measurements in place of fitted figures: what a document may say, and how it is resolved on loading.

A variant's speed may name measurements instead of coefficients, a job a measured loss instead of its
remaining steps. Both are fitted when the document is loaded, so that the instance, its hash and every
result know the figures only; how they came about stands in the instance's `assumptions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ..common.errors import ClusterplanError, Fault, Faults, InstanceError
from ..common.faults import validated
from ..common.fields import Cell, Model, Name, Positive, PositiveShare, PositiveTaskCount, require
from ..common.printable import shown
from ..files.references import Folder
from .speed import MeasuredSpeed

if TYPE_CHECKING:
    from .fits import LossFit, SpeedFit


MOST_WORKERS = 100_000


class MeasuredLoss(Model):
    """A measured loss in place of a job's remaining steps; see `fits.loss` for the rule.

    Attributes
    ----------
    measurements
        Path of a CSV file with the columns step and loss, relative to the document.
    steps_per_epoch
        Steps of one pass over the data.
    delta, patience
        Converged is a loss that falls by less than `delta` of its maximum in `patience` epochs in a row.
    """

    measurements: Name
    steps_per_epoch: Positive
    delta: PositiveShare = 0.01
    patience: PositiveTaskCount = 3


def or_measured_loss(schema: dict[str, Any]) -> None:
    """Make the JSON Schema of a job accept a measured loss in place of the remaining steps."""
    schema["properties"]["loss"] = MeasuredLoss.model_json_schema()
    require(or_field=("remaining_steps", "loss"))(schema)


def with_fits(data: dict[str, Any], source: str, folder: Folder) -> dict[str, Any]:
    """Return the document of an allocation instance with every measurement replaced by its fit.

    Parameters
    ----------
    data
        The document; it is not changed.
    source
        What faults call it.
    folder
        Where the measurements lie.

    Raises
    ------
    InstanceError
        If measurements cannot be read or fitted.
    """
    jobs = data.get("jobs")
    if not isinstance(jobs, list):
        return data
    fitting = _Fitting(source, folder)
    resolved = []
    for index, job in enumerate(jobs):
        resolved.append(fitting.job(job, f"jobs[{index}]"))
        if fitting.faults.stop():
            break
    fitting.faults.refuse()
    assumptions = data.get("assumptions", [])
    if not fitting.notes or not isinstance(assumptions, list | tuple):
        return {**data, "jobs": resolved}
    return {**data, "assumptions": [*assumptions, *fitting.notes], "jobs": resolved}


SpecT = TypeVar("SpecT", MeasuredSpeed, MeasuredLoss)


class _Fitting:
    """The fits of one document; a file that several jobs name is fitted once."""

    def __init__(self, source: str, folder: Folder) -> None:
        self.source = source
        self.folder = folder
        self.faults = Faults()
        self.notes: list[str] = []
        self._known: dict[MeasuredSpeed | MeasuredLoss, Any] = {}

    def job(self, job: Any, where: str) -> Any:
        """Return a job with plain figures; what is no mapping is left for the validation to refuse."""
        if not isinstance(job, Mapping):
            return job
        variants = job.get("variants")
        if isinstance(variants, list):
            parts = [
                self._variant(variant, f"{where}.variants[{index}]", _called(job, variant))
                for index, variant in enumerate(variants)
            ]
            if any(new is not old for new, old in zip(parts, variants, strict=True)):
                job = {**job, "variants": parts}
        return self._with_loss(job, f"{where}.loss") if "loss" in job else job

    def _variant(self, variant: Any, where: str, called: str) -> Any:
        speed = variant.get("speed") if isinstance(variant, Mapping) else None
        if not isinstance(speed, Mapping) or "measurements" not in speed:
            return variant
        where = f"{where}.speed"
        if "theta" in speed:
            self._refuse(where, "has both theta and measurements; give one of them")
            return variant
        fit = self._fit(MeasuredSpeed, speed, where)
        if fit is None:
            return variant
        if fit.instant_alone and _least_workers(variant) < 2:
            what = "takes no time with 1 worker (θ0 = θ1 = 0); measure with 1 worker, or set workers.min to 2"
            self._refuse(where, what)
            return variant
        self.notes.append(
            f"{called}: speed ({fit.model}) fitted to {speed['measurements']}, {fit.points} points with "
            f"{fit.range.words()}, MAPE {100 * fit.mape:.1f} %, leave-one-out error "
            f"{100 * fit.leave_one_out:.1f} %."
            + "".join(f" {warning}" for warning in (*fit.warnings, *_beyond(variant, fit)))
        )
        if not fit.is_listed:
            return {**variant, "speed": fit.fields()}
        others = {key: value for key, value in variant.items() if key != "workers"}
        limits = variant.get("workers")
        ends = None if limits is None else _ends(limits)
        if limits is not None and ends is None:
            what = f"is {shown(limits)}; write a range such as {{min: 1, max: 8}}"
            self._refuse(f"{where.removesuffix('.speed')}.workers", what)
            return variant
        return {**others, "speed": fit.fields(ends)}

    def _with_loss(self, job: Mapping[str, Any], where: str) -> Mapping[str, Any]:
        if "remaining_steps" in job:
            self._refuse(where, "stands beside remaining_steps; give one of them")
            return job
        fit: LossFit | None = self._fit(MeasuredLoss, job["loss"], where)
        if fit is None:
            return job
        if fit.remaining_steps <= 0:
            what = f"has converged at step {fit.converged_step:,.10g}; leave the job out, or lower delta"
            self._refuse(where, what)
            return job
        low, high = (f"{end:,.10g}" for end in fit.interval)
        self.notes.append(
            f"{_called(job)}: remaining steps by {job['loss']['measurements']}, {fit.points} points of its "
            f"loss: {fit.remaining_steps:,.10g}, {100 * fit.confidence:g} % interval {low} to {high}, until "
            f"it falls by less than {100 * fit.delta:g} % of its maximum in each of {fit.patience} epochs."
            + "".join(f" {warning}" for warning in fit.warnings)
        )
        others = {key: value for key, value in job.items() if key != "loss"}
        return {**others, "remaining_steps": fit.remaining_steps}

    def _fit(self, model: type[SpecT], given: Any, where: str) -> Any:
        """Return the fit that a part of the document asks for, None if there is a fault."""
        from .fits import fit_loss, fit_speed

        try:
            spec = validated(model, given, self.source)
        except InstanceError as error:
            for fault in error.faults:
                self._refuse(f"{where}.{fault.path}" if fault.path else where, fault.what)
            return None
        if spec in self._known:
            return self._known[spec]
        source = f"{self.source}: {where}: {spec.measurements}"
        try:
            path = self.folder.file(spec.measurements, source)
            if isinstance(spec, MeasuredSpeed):
                rule = (spec.model, spec.batch, spec.allow_rank_deficient, source, spec.batch_per_gpu)
                self._known[spec] = fit_speed(path, *rule)
            else:
                self._known[spec] = fit_loss(
                    path, spec.steps_per_epoch, spec.delta, spec.patience, source=source
                )
        except InstanceError as error:
            self.faults.add_all(error)
            return None
        except ClusterplanError as error:
            self._refuse(where, str(error))
            return None
        return self._known[spec]

    def _refuse(self, where: str, what: str) -> None:
        self.faults.add(Fault(self.source, where, what))


def _least_workers(variant: Mapping[str, Any]) -> float:
    limits = variant.get("workers")
    least = limits.get("min", 1) if isinstance(limits, Mapping) else 1
    return float(least) if str(least).isdecimal() else 1.0


def _ends(limits: Any) -> tuple[int, int] | None:
    """Return the ends of a range of workers; None where it is none."""
    given = (limits.get("min", 1), limits.get("max")) if isinstance(limits, Mapping) else ()
    ends = [int(end) for end in given if isinstance(end, int) or (isinstance(end, Cell) and end.isdecimal())]
    return (ends[0], ends[1]) if len(ends) == 2 and 1 <= ends[0] <= ends[1] <= MOST_WORKERS else None


def _beyond(variant: Mapping[str, Any], fit: SpeedFit) -> list[str]:
    """Return a warning if the variant may run where nothing was measured."""
    for key, (low, high) in (("ps", fit.range.ps), ("workers", fit.range.workers)):
        limits = variant.get(key)
        ends = [limits.get("min", 1), limits.get("max")] if isinstance(limits, Mapping) else []
        if any(isinstance(end, int) and not low <= end <= high for end in ends):
            return [f"The range of {key} goes beyond what was measured; there the speed is extrapolated."]
    return []


def _called(job: Mapping[str, Any], variant: Any = None) -> str:
    text = f"Job {str(job.get('name'))[:200]!r}"
    return f"{text}, variant {str(variant.get('name'))[:200]!r}" if isinstance(variant, Mapping) else text
