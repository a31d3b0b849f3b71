"""Training jobs of allocation: variants with ranges of tasks and speeds, given as figures or as measurements.

The rules between the fields of a job are written once, for one job and for columns of jobs alike.

A variant's speed may name measurements instead of coefficients, a job a measured loss instead of its
remaining steps. Both are fitted when the document is loaded, so that the instance, its hash and every
result hold only the fitted figures; the instance's `assumptions` say how they were fitted.

Measured throughput may be a table with a row for each job and number of GPUs, as benchmarks print it. A
step is one sample then, so that `remaining_samples` are the remaining steps, and samples per second the
speed. Only the numbers of GPUs that were measured are offered, and on so many servers as they were measured
on, if the rows name servers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field

from ..common.errors import ClusterplanError, Fault, Faults, InstanceError, shown, some
from ..common.faults import validated
from ..common.fields import (
    Cell,
    Checked,
    Complaint,
    Count,
    Fields,
    Flag,
    Model,
    Name,
    NonNegative,
    Positive,
    PositiveShare,
    PositiveTaskCount,
    SchemaAlternative,
    entries,
    repeated,
    require,
    validated_in_batches,
)
from ..common.speed import FormulaModel, Rule, complaints
from ..common.speed import SpeedRow as AnySpeedRow
from ..common.speed import SpeedTable as AnySpeedTable
from ..common.speed import Variant as AnyVariant
from ..common.workload import Workload
from ..references import Folder

if TYPE_CHECKING:
    from .fits import LossFit, SpeedFit


def job_rules(optional: Any, unplaced: Any, runs: Any, known: Any) -> list[Rule]:
    """Return the rules between the fields of a job; messages have the placeholders {variant} and {variants}.

    Parameters
    ----------
    optional, unplaced
        Whether the job is optional, and whether `unplaced_s` is given.
    runs, known
        Whether it has a current configuration, and whether one of its variants has that name.
    """
    missing = "is missing; an optional job needs the time it counts with"
    surplus = "is set, but the job is not optional; set optional: true"
    unknown = "no variant is called {variant!r}; the variants are: {variants}"
    return [
        ("unplaced_s", optional & (unplaced ^ True), missing),
        ("unplaced_s", (optional ^ True) & unplaced, surplus),
        ("current.variant", runs & (known ^ True), unknown),
    ]


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


class SpeedRow(AnySpeedRow):
    """One measured configuration.

    Attributes
    ----------
    servers
        On how many servers its tasks ran, where the instance has servers; None: the speed is the same on any
        number.
    """

    servers: PositiveTaskCount | None = None


class SpeedTable(AnySpeedTable):
    """Measured speeds; a configuration that is not listed does not exist."""

    rows: Annotated[tuple[SpeedRow, ...], *entries(100_000, least=1)]

    def _complaints(self) -> Iterator[Complaint]:
        listed = ((row.ps, row.workers, row.servers) for row in self.rows)
        twice = "ps={value[0]}, workers={value[1]} is listed twice; each configuration stands once"
        return repeated(listed, "rows", "", twice)


SpeedModel = Annotated[
    FormulaModel | SpeedTable,
    Field(discriminator="model"),
    SchemaAlternative(MeasuredSpeed.model_json_schema),
]


MAX_WORKERS = 100_000


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
    """Extend the JSON Schema of a job: a measured loss curve may replace the remaining steps."""
    schema["properties"]["loss"] = MeasuredLoss.model_json_schema()
    require(or_field=("remaining_steps", "loss"))(schema)


def with_fits(data: Fields, source: str, folder: Folder) -> Fields:
    """Return the document of an allocation instance with every measurement replaced by its fit.

    Parameters
    ----------
    data
        The document; it is not changed.
    source
        Its name in error messages.
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


class _Fitting:
    """Fits the measurements that one document names; a file that several jobs name is fitted once."""

    def __init__(self, source: str, folder: Folder) -> None:
        self.source = source
        self.folder = folder
        self.faults = Faults()
        self.notes: list[str] = []
        self._known: dict[MeasuredSpeed | MeasuredLoss, Any] = {}

    def job(self, job: Any, where: str) -> Any:
        """Return a job with its measurements replaced by fits; non-mappings are left to the validation."""
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
        least = str((*_limits(variant, "workers"), 1)[0])
        if fit.instant_alone and not (least.isdecimal() and float(least) >= 2):
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
        ends = _ends(variant)
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

    def _fit(self, model: type[MeasuredSpeed | MeasuredLoss], given: Any, where: str) -> Any:
        """Return the fit to the measurements of a speed or a loss, None if these are faulty."""
        from .fits import fit_loss, fit_speed

        try:
            spec = validated(model, given, self.source)
        except InstanceError as error:
            self.faults.add_all(error, where)
            return None
        source = f"{self.source}: {where}: {spec.measurements}"
        try:
            if spec in self._known:
                return self._known[spec]
            path = self.folder.file(spec.measurements, source)
            if isinstance(spec, MeasuredSpeed):
                rule = (spec.model, spec.batch, spec.allow_rank_deficient, source, spec.batch_per_gpu)
                self._known[spec] = fit_speed(path, *rule)
            else:
                rest = (spec.steps_per_epoch, spec.delta, spec.patience)
                self._known[spec] = fit_loss(path, *rest, source=source)
        except InstanceError as error:
            self.faults.add_all(error)
        except ClusterplanError as error:
            self._refuse(where, str(error))
        return self._known.get(spec)

    def _refuse(self, where: str, what: str) -> None:
        self.faults.add(Fault(self.source, where, what))


def _limits(variant: Mapping[str, Any], key: str) -> list[Any]:
    """Return minimum and maximum of a range of tasks as they are given; an empty list if there is none."""
    limits = variant.get(key)
    return [limits.get("min", 1), limits.get("max")] if isinstance(limits, Mapping) else []


def _ends(variant: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return minimum and maximum of the numbers of workers; None if there is no valid range."""
    ends = [
        int(end)
        for end in _limits(variant, "workers")
        if isinstance(end, int) or (isinstance(end, Cell) and end.isdecimal())
    ]
    return (ends[0], ends[1]) if len(ends) == 2 and 1 <= ends[0] <= ends[1] <= MAX_WORKERS else None


def _beyond(variant: Mapping[str, Any], fit: SpeedFit) -> list[str]:
    """Return a warning if a variant's range of workers or parameter servers exceeds the measured one."""
    for key, (low, high) in (("ps", fit.range.ps), ("workers", fit.range.workers)):
        if any(isinstance(end, int) and not low <= end <= high for end in _limits(variant, key)):
            return [f"The range of {key} goes beyond what was measured; there the speed is extrapolated."]
    return []


def _called(job: Mapping[str, Any], variant: Any = None) -> str:
    text = f"Job {str(job.get('name'))[:200]!r}"
    return f"{text}, variant {str(variant.get('name'))[:200]!r}" if isinstance(variant, Mapping) else text


OF_A_JOB = ("remaining_samples", "weight", "deadline_s", "optional", "unplaced_s", "restart_s")
HOUR_S = 3600.0


UNKNOWN_WORK = "remaining_samples is not given: an hour of work on the fewest GPUs measured"
FALLING_SPEED = "samples_per_s falls with every GPU that is added; is it a time in place of a speed?"
UNCERTAIN_ASSUMPTIONS = (UNKNOWN_WORK, FALLING_SPEED)
"""First words of the assumptions that affect the plan and may be far from the truth."""


class ThroughputRow(Model):
    """One measurement.

    Attributes
    ----------
    gpu_model
        The resource that each GPU is one of; by default `gpu`.
    servers
        On how many servers the GPUs were, where the instance has servers.
    remaining_samples
        What is still to be trained; by default an hour of work on the fewest GPUs that were measured.
    """

    job: Name
    gpus: PositiveTaskCount
    samples_per_s: Positive
    gpu_model: Name = "gpu"
    servers: PositiveTaskCount | None = None
    remaining_samples: Positive | None = None
    weight: NonNegative | None = None
    deadline_s: Positive | None = None
    optional: Flag | None = None
    unplaced_s: NonNegative | None = None
    restart_s: NonNegative | None = None


def is_throughput(rows: Any) -> bool:
    """Return whether a list of jobs is a table of measured throughput."""
    first = rows[0] if isinstance(rows, Sequence) and not isinstance(rows, str) and rows else None
    return isinstance(first, Mapping) and "name" not in first and ("job" in first or "samples_per_s" in first)


def with_throughput(data: Fields, source: str) -> Fields:
    """Return a document with its table of measured throughput, if it has one, replaced by jobs.

    Raises
    ------
    InstanceError
        If a row is wrong, one configuration occurs twice, or rows of one job contradict each other.
    """
    if not is_throughput(data.get("jobs")):
        return data
    by_job: dict[str, list[tuple[int, ThroughputRow]]] = defaultdict(list)
    faults = Faults()
    for index, row in enumerate(data["jobs"]):
        try:
            read = validated(ThroughputRow, row, source)
        except InstanceError as error:
            faults.add_all(error, f"jobs[{index}]")
            if faults.stop():
                break
        else:
            by_job[read.job].append((index, read))
    for rows in by_job.values():
        for index, key, what in _contradictions(rows):
            faults.add(Fault(source, f"jobs[{index}].{key}", what))
    faults.refuse()
    measured = {name: [row for _, row in rows] for name, rows in by_job.items()}
    assumptions = [*(data.get("assumptions") or ()), *_notes(measured)]
    return {**data, "jobs": [_job(*each) for each in measured.items()], "assumptions": assumptions}


def _contradictions(rows: list[tuple[int, ThroughputRow]]) -> Iterator[tuple[int, str, str]]:
    """Yield contradictions between measurements of one job, as (row index, column, message)."""
    seen = set[tuple[str, int, int | None]]()
    first = rows[0][1]
    for index, row in rows:
        if (row.gpu_model, row.gpus, row.servers) in seen:
            what = f"is {row.gpus} a second time for job {row.job!r}; each number of GPUs stands once"
            yield index, "gpus", what + f" on {row.servers} servers" * (row.servers is not None)
        seen.add((row.gpu_model, row.gpus, row.servers))
        for key in OF_A_JOB:
            one, other = getattr(first, key), getattr(row, key)
            if one != other:
                what = f"is {other}, but {one} in the first row of job {row.job!r}; it is the same in all"
                yield index, key, what


def _job(name: str, rows: list[ThroughputRow]) -> Fields:
    """Return a job with a variant for each GPU model, as a document has it."""
    fewest = min(rows, key=lambda row: row.gpus)
    own = {key: value for key in OF_A_JOB[1:] if (value := getattr(fewest, key)) is not None}
    models = dict.fromkeys(row.gpu_model for row in rows)
    return {
        "name": name,
        "remaining_steps": fewest.remaining_samples or HOUR_S * fewest.samples_per_s,
        **own,
        "variants": [
            {
                "name": model,
                "worker_demand": {model: 1},
                "speed": {
                    "model": "table",
                    "rows": [
                        {"workers": row.gpus, "steps_per_s": row.samples_per_s, "servers": row.servers}
                        for row in rows
                        if row.gpu_model == model
                    ],
                },
            }
            for model in models
        ],
    }


def _notes(by_job: Mapping[str, list[ThroughputRow]]) -> list[str]:
    """Return assumptions about remaining work, and warnings about throughputs that look like times."""
    notes = ["A step is one sample; only the numbers of GPUs that were measured are offered."]
    assumed = [name for name, rows in by_job.items() if rows[0].remaining_samples is None]
    if assumed:
        notes.append(f"{UNKNOWN_WORK} ({some(assumed)}).")
    falling = [name for name, rows in by_job.items() if _falls(rows)]
    if falling:
        notes.append(f"{FALLING_SPEED} ({some(falling)})")
    return notes


def _falls(rows: list[ThroughputRow]) -> bool:
    """Return whether throughput falls with the number of GPUs throughout.

    That is, between all pairs of measurements on the same GPU model and number of servers, if there are any.
    """
    pairs = [
        (one, other)
        for one in rows
        for other in rows
        if (one.gpu_model, one.servers) == (other.gpu_model, other.servers) and one.gpus < other.gpus
    ]
    return bool(pairs) and all(one.samples_per_s > other.samples_per_s for one, other in pairs)


class Variant(AnyVariant):
    """One way to run a job, for instance on one GPU model; a plan picks one variant."""

    speed: SpeedModel


class Tasks(Model):
    """The tasks of a job on one server."""

    ps: Count = 0
    workers: Count = 0


Placement = Annotated[dict[Name, Tasks], validated_in_batches(100_000)]
"""Server → tasks of a job."""


class Configuration(Checked):
    """The configuration with which a job runs now.

    Attributes
    ----------
    placement
        Where its tasks are, in an instance with servers; None: on servers that nobody knows, so that the job
        pays its restart only where the numbers of tasks change.
    """

    variant: Name
    ps: Count = 0
    workers: Count
    placement: Placement | None = None

    def _complaints(self) -> Iterator[Complaint]:
        for key in ("ps", "workers"):
            placed = sum(getattr(tasks, key) for tasks in (self.placement or {}).values())
            if self.placement is not None and placed != getattr(self, key):
                yield "placement", f"has {placed} {key}, but the job has {getattr(self, key)}"


class Job(Checked):
    """A training job.

    Attributes
    ----------
    remaining_steps
        Q, the steps still to be made.
    weight
        ω, its weight in the total completion time.
    stage
        `beginning` tells the marginal-gain heuristic to trust the fitted speed a little less.
    deadline_s
        Configurations that take longer are not allowed; staying unplaced is not affected.
    optional, unplaced_s
        An optional job may stay unplaced and then counts with a completion time of `unplaced_s`.
    current, restart_s
        A plan that changes the current configuration, or its servers, pays `restart_s` seconds more.
    workload
        The object of a cluster manager that the job is; its parts are those of `workers` and `ps`.
    """

    model_config = ConfigDict(json_schema_extra=or_measured_loss)

    name: Name
    remaining_steps: Positive
    weight: NonNegative = 1.0
    stage: Literal["beginning", "running"] = "running"
    deadline_s: Positive | None = None
    optional: Flag = False
    unplaced_s: NonNegative | None = None
    current: Configuration | None = None
    restart_s: NonNegative = 0.0
    workload: Workload | None = None
    variants: Annotated[tuple[Variant, ...], *entries(1000, least=1)]

    def _complaints(self) -> list[Complaint]:
        names = [variant.name for variant in self.variants]
        now = None if self.current is None else self.current.variant
        rules = job_rules(self.optional, self.unplaced_s is not None, now is not None, now in names)
        broken = complaints(rules, variant=now, variants=", ".join(names))
        return [*repeated(names, "variants"), *broken]
