"""Result documents: options of a solve, its plan, bounds and certificate, and the base of all frontiers.

Options are limits, gap, threads, seed, and named settings of the method. A result holds everything that is
needed to verify or repeat the solve. A frontier holds points and their proven approximation error.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    field_serializer,
    field_validator,
    model_validator,
)

from ...formulations.common.column_plan import ColumnPlan, plain_entries, row_blocks
from ...formulations.common.objective import TOLERANCE, Diagnosis, Sense
from ...formulations.registry import KINDS
from ...instances.common.base import ProblemKind, card, figure, percent
from ...instances.common.errors import ClusterplanError, InstanceError, OptionError, visible
from ...instances.common.faults import validated
from ...instances.common.fields import (
    Count,
    Fields,
    Many,
    ManyNamed,
    Model,
    NonNegative,
    Positive,
    PositiveCount,
    validated_in_batches,
)

if TYPE_CHECKING:
    import pandas as pd


DEFAULT_GAP = 1e-6


def _plain_entries(plan: Any) -> Any:
    """Return the entries of a plan as plain dictionaries."""
    return plain_entries(plan) if isinstance(plan, list | tuple) else plan


def _unless_columns(plan: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """Return a plan in columns as it is; any other one is validated."""
    return plan if isinstance(plan, ColumnPlan) else handler(plan)


class SolveOptions(Model):
    """Limits and settings of one solve; a field that is None leaves the solver's own default.

    A method that cannot honour a field that is set refuses it with an `OptionError`.

    Attributes
    ----------
    time_limit_s
        Wall-clock seconds, for building and solving together.
    gap
        Relative gap at which a plan counts as optimal; below 1, for at 1 anything would.
    threads
        Most threads that may be used.
    seed
        Of everything random; the same seed and as many threads give the same answer.
    memory_limit_gib
        Most memory that the backend may take.
    warm_start
        A plan to start from: that of a result, or the same as plain data. A whole result gives its plan, and
        its certificate and cuts as `warm_prices`.
    warm_prices
        Dual prices to begin with: the certificate of an earlier result, and under `cuts` the price vectors of
        its cutting planes where they were kept. A hint, which a method may ignore.
    warm_start_sha256
        Hash of the plan to start from, by which a result names it.
    keep_cuts
        Whether the result keeps the cutting planes of a price search, for the next solve. Methods without
        such a search have none.
    method_options, backend_options
        Named settings of the method, and of the library it calls, as that library names them.
    """

    time_limit_s: Positive | None = None
    gap: Annotated[NonNegative, Field(lt=1)] = DEFAULT_GAP
    threads: PositiveCount | None = None
    seed: Count | None = None
    memory_limit_gib: Positive | None = None
    warm_start: Annotated[
        Many[Fields] | None, BeforeValidator(_plain_entries), WrapValidator(_unless_columns)
    ] = None
    warm_prices: Fields | None = None
    warm_start_sha256: str | None = None
    keep_cuts: bool | None = None
    method_options: Fields = {}
    backend_options: Fields = {}

    @model_validator(mode="before")
    @classmethod
    def _from_result(cls, data: Any) -> Any:
        given = data.get("warm_start") if isinstance(data, dict) else None
        if given is None or not isinstance(given, Result):
            return data
        if given.plan is None:
            raise ValueError("the result to start from has no plan; give one of a solve that found a plan")
        return {"warm_prices": given.warm_prices, **data, "warm_start": given.plan}

    @property
    def recorded(self) -> Self:
        """The options as a result records them, with the hash of the earlier plan and without its prices."""
        digest = self.warm_start_sha256 if self.warm_start is None else plan_hash(self.warm_start)
        return self.model_copy(update={"warm_start": None, "warm_prices": None, "warm_start_sha256": digest})

    def starting_from(self, plan: Iterable[Model] | None) -> Self:
        """Return the options with a plan, given as its entries, to start from; None for no plan."""
        entries = plan if plan is None or isinstance(plan, ColumnPlan) else _plain_entries(tuple(plan))
        return self.model_copy(update={"warm_start": entries})


def parse_options(data: Fields) -> SolveOptions:
    """Return solve options from plain data.

    Raises
    ------
    OptionError
        If a field is unknown or has a value that is not allowed.
    """
    try:
        return validated(SolveOptions, data, "options")
    except InstanceError as error:
        raise OptionError(str(error)) from None


Status = Literal["optimal", "feasible", "infeasible", "unknown", "error"]
Limit = Literal["none", "time", "node", "memory", "interrupt"]


def plan_hash(plan: Sequence[Model | Fields]) -> str:
    """Return the SHA-256 hash of a plan's canonical JSON."""
    digest = hashlib.sha256(b"[")
    for rows in row_blocks(len(plan)):
        entries = plain_entries(plan, rows)
        text = json.dumps(entries, sort_keys=True, separators=(",", ":"), allow_nan=False)
        digest.update(f"{',' if rows.start else ''}{text[1:-1]}".encode())
    digest.update(b"]")
    return digest.hexdigest()


def _inlined_schema(schema: Any, definitions: Any = None) -> Any:
    """Return a JSON Schema with all references replaced by their definitions."""
    if isinstance(schema, list):
        return [_inlined_schema(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    known = schema.get("$defs", definitions)
    if "$ref" in schema:
        return _inlined_schema(known[schema["$ref"].rsplit("/", 1)[1]], known)
    return {key: _inlined_schema(part, known) for key, part in schema.items() if key != "$defs"}


class _PlanSchema:
    """Adds the entry types of the plans of all kinds to the JSON Schema, on request only."""

    def __get_pydantic_json_schema__(self, *_: object) -> Fields:
        plans = [
            {"type": "array", "items": _inlined_schema(kind.formulation.entry.model_json_schema())}
            for kind in KINDS.values()
        ]
        return {"anyOf": [*plans, {"type": "null"}]}


def _checked_kind(kind: str) -> str:
    if kind not in KINDS:
        raise ValueError(f"allowed: {', '.join(KINDS)}")
    return kind


_SUMMARY_COLUMNS = ("objective", "value", "bound", "gap", "certified bound")
"""Column titles of a summary's objectives."""


class SolveError(ClusterplanError):
    """Raised by `Result.raise_for_status` if the result has no plan."""


class ObjectiveRecord(Model):
    """What is known about one objective.

    Attributes
    ----------
    value
        Of the returned plan, recomputed from the plan alone.
    bound
        A limit on the optimum, given the earlier objectives, that the method proved.
    certified_bound
        A limit that our own checker derives without trusting a solver.
    gap, certified_gap
        ``|value − bound| / |value|``; 0 if equal, None if unknown or only the value is 0.
    proven
        Whether the gap is at most the requested one and all earlier objectives are proven.
    """

    name: str
    sense: Sense
    unit: str
    value: float | None = None
    bound: float | None = None
    gap: float | None = None
    certified_bound: float | None = None
    certified_gap: float | None = None
    proven: bool = False


def deciding_record(records: Sequence[ObjectiveRecord]) -> ObjectiveRecord | None:
    """Return the first objective that is not proven, else the last; None if there are no records."""
    record = None
    for record in records:
        if not record.proven:
            break
    return record


def is_certified(record: ObjectiveRecord, gap: float) -> bool:
    """Return whether the independent check proves that the gap is at most the requested one."""
    return record.certified_gap is not None and record.certified_gap <= max(gap, TOLERANCE)


def first_uncertified(records: Sequence[ObjectiveRecord], gap: float) -> ObjectiveRecord | None:
    """Return the first objective whose gap is not certified by the check; None if all are."""
    for record in records:
        if not is_certified(record, gap):
            return record
    return None


def status_with_limit(words: str, status: str, limit: str) -> str:
    """Return the status text with the limit that stopped the solve; an optimum needs none."""
    return words if limit == "none" or status == "optimal" else f"{words} ({limit} limit)"


def status_text(status: str, limit: str, only_claimed: bool) -> str:
    """Return the status as text, with a mark for claimed optima and the limit that stopped the solve."""
    return status_with_limit("optimal, as claimed" if only_claimed else status, status, limit)


class Result(Model):
    """What a solver found; JSON and back without loss.

    Attributes
    ----------
    instance, kind, instance_sha256
        What was solved: name, kind, and hash of the resolved canonical document.
    instance_options
        Fields of the instance that options of `solve` set, as it was solved.
    solver, backend
        The method, and the library with its version that did the work, if any.
    status
        `optimal` only if the bound proves it.
    limit
        What stopped the method, `none` if it ended by itself.
    objective, bound, gap, certified_bound, certified_gap
        Of the first objective that is not proven, else of the last; all are in `objectives`.
    prices
        Worth of one more unit of each resource, where the method knows it.
    certificate
        What lets `verify` re-derive the bound, where there is one.
    cuts
        Price of each resource in each cutting plane of a price search, where they were to be kept.
    plan
        One entry for each job or stage; none if no plan was found.
    plan_sha256
        Hash of the plan, so that a plan altered later is told from the one that was verified.
    runtime_s, build_s
        Wall-clock seconds of the whole solve, and of building the model in it.
    trace
        (seconds, objective, bound) as the solve went on.
    message, diagnosis
        Anything else worth saying, and why there is no plan.
    """

    instance: str
    kind: Annotated[
        ProblemKind, AfterValidator(_checked_kind), WithJsonSchema({"type": "string", "enum": [*KINDS.names]})
    ]
    instance_sha256: str
    instance_options: Annotated[Fields, Field(max_length=100)] = {}
    solver: str
    backend: str | None = None
    status: Status
    limit: Limit = "none"
    objective: float | None = None
    bound: float | None = None
    gap: float | None = None
    certified_bound: float | None = None
    certified_gap: float | None = None
    objectives: Annotated[tuple[ObjectiveRecord, ...], Field(max_length=16), validated_in_batches(16)] = ()
    prices: Annotated[dict[str, float], validated_in_batches(10_000)] | None = None
    certificate: Fields | None = None
    cuts: Many[dict[str, float]] | None = None
    plan: Annotated[
        tuple[SerializeAsAny[Model], ...] | None, WrapValidator(_unless_columns), _PlanSchema()
    ] = None
    plan_sha256: str | None = None
    runtime_s: Annotated[float, Field(ge=0)] = 0.0
    build_s: Annotated[float, Field(ge=0)] = 0.0
    seed: int | None = None
    options: SolveOptions = SolveOptions()
    versions: Annotated[dict[str, str], validated_in_batches(1_000)] = {}
    trace: Many[tuple[float, float | None, float | None]] = ()
    message: str | None = None
    diagnosis: Diagnosis | None = None

    @field_validator("plan", mode="before")
    @classmethod
    def _typed_plan(cls, value: Any, info: ValidationInfo) -> Any:
        kind = info.data.get("kind")
        return value if value is None or kind is None else KINDS[kind].formulation.parse_plan(value)

    @field_serializer("plan", mode="wrap")
    def _plain_plan(self, plan: Any, handler: SerializerFunctionWrapHandler) -> Any:
        return plan.plain() if isinstance(plan, ColumnPlan) else handler(plan)

    @property
    def warm_prices(self) -> Fields | None:
        """Certificate and cuts, for a later solve to begin with; None if there are neither."""
        cuts = {} if self.cuts is None else {"cuts": self.cuts}
        return {**(self.certificate or {}), **cuts} or None

    @property
    def deciding(self) -> ObjectiveRecord | None:
        """The record of the first objective that is not proven, else of the last one."""
        return deciding_record(self.objectives)

    @property
    def only_claimed(self) -> bool:
        """Whether the status `optimal` rests on a bound that the check does not certify."""
        return self.status == "optimal" and first_uncertified(self.objectives, self.options.gap) is not None

    @property
    def status_text(self) -> str:
        """The status as text, with a mark for claimed optima and the limit that stopped the solve."""
        return status_text(self.status, self.limit, self.only_claimed)

    def to_json(self) -> str:
        """Return the result as one line of JSON."""
        return self.model_dump_json()

    def raise_for_status(self) -> Result:
        """Return the result, or raise `SolveError` if it has no plan.

        Raises
        ------
        SolveError
            If it has no plan; the message holds the reasons.
        """
        if self.plan is None:
            reasons = (
                "; ".join(self.diagnosis.reasons) if self.diagnosis else self.message or "no plan was found"
            )
            raise SolveError(f"{self.instance}: {self.status}: {reasons}")
        return self

    def __str__(self) -> str:
        """Return a summary: a line for the status, each objective and each remark."""
        first, *remarks = self._remarks()
        lines = [f"{self.instance}: {first}"]
        for name, *figures in self._figures():
            labelled = zip(_SUMMARY_COLUMNS[2:], figures[1:], strict=True)
            lines.append(f"  {name}: {figures[0]}; " + ", ".join(f"{label} {f}" for label, f in labelled))
        return visible("\n".join([*lines, *(f"  {remark}" for remark in remarks if remark)]))

    def _repr_html_(self) -> str:
        """Return the summary as HTML for notebooks."""
        return card(self.instance, self._remarks(), _SUMMARY_COLUMNS, self._figures())

    def _remarks(self) -> list[str]:
        lines = [f"{self.status_text}; {self.solver} in {self.runtime_s:.2f} s", self.message or ""]
        return [*lines, *(self.diagnosis.reasons if self.diagnosis else ())]

    def _figures(self) -> list[tuple[str, ...]]:
        """Return name, value, bound, gap and certified bound of each objective."""
        return [
            (
                f"{r.name} [{r.unit}]" if r.unit != r.name else r.name,
                figure(r.value),
                figure(r.bound),
                percent(r.gap),
                figure(r.certified_bound),
            )
            for r in self.objectives
        ]

    def to_frame(self) -> pd.DataFrame:
        """Return the plan as a table with one row for each entry."""
        import pandas as pd

        return pd.DataFrame([entry.model_dump() for entry in self.plan or ()])


class AnyFrontier(Model):
    """What a search for a frontier found; JSON and back without loss.

    Attributes
    ----------
    status
        `complete`: the error is proven; `partial`: a limit stopped the search; `infeasible`: no plan at all.
    error, certified_error
        ε that was asked for, and the one that our own check derives without trusting a solver; None if it
        derives none.
    points
        From the best in one aim to the best in the other.
    slow, dear
        Fields of a point: what rises along the points, and what falls.
    called, titles
        What the points are, and the columns of the table that a notebook shows, with the field of each.
    figures
        Fields of a point that are columns of the data frame.
    """

    slow: ClassVar[str]
    dear: ClassVar[str]
    called: ClassVar[str] = "points"
    titles: ClassVar[Mapping[str, str]]
    figures: ClassVar[tuple[str, ...]]

    instance: str
    kind: str
    instance_sha256: str
    status: Literal["complete", "partial", "infeasible"]
    limit: Limit = "none"
    error: Annotated[float, Field(ge=0, lt=1)]
    certified_error: float | None = None
    points: Many[Any] = ()
    runtime_s: Annotated[float, Field(ge=0)] = 0.0
    options: SolveOptions = SolveOptions()
    versions: ManyNamed[str, str] = {}
    diagnosis: Diagnosis | None = None

    def to_json(self) -> str:
        """Return the frontier as one line of JSON."""
        return self.model_dump_json()

    def _repr_html_(self) -> str:
        """Return the table of points as HTML for notebooks."""
        proven = percent(self.certified_error)
        lines = [f"frontier of {len(self.points)} {self.called}, {self.status}; certified error {proven}"]
        cells = ([getattr(point, name) for name in self.titles.values()] for point in self.points)
        rows = [[cell if isinstance(cell, str) else figure(cell) for cell in row] for row in cells]
        return card(self.instance, lines, [*self.titles], rows)

    def results(self) -> dict[str, Result]:
        """Return the results of the points by the name of a file, where points have results of their own."""
        return {}

    def _frame_row(self, point: Any) -> Fields:
        """Return the cells of a point in the data frame, by the name of their column."""
        return {name: getattr(point, name) for name in self.figures}

    def to_frame(self) -> pd.DataFrame:
        """Return the frontier as a table with one row for each point, without their plans."""
        import pandas as pd

        rows = [self._frame_row(point) for point in self.points]
        return pd.DataFrame(rows, columns=[*rows[0]] if rows else [*self.figures])
