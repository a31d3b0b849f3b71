"""Fast reading of large tables of jobs: columns are checked as a whole, without an object for each row.

The allowed values of a cell are those of the field types of `Job`, `Variant`, `Range` and the speed models;
the rules between fields are `job_rules`. A check may suspect a valid row, but never accepts an invalid one.
Suspect rows are validated one by one as in small tables, which gives the error messages; if one of them
turns out to be valid, the whole table is read row by row.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel

from ..common.arrays import Flags, Floats, Ints
from ..common.errors import MAX_FAULTS, Fault, InstanceError
from ..common.faults import validated
from ..common.fields import Name, marks_of, unknown_names
from ..common.speed import FORMULAS, PsSync, Range, SpeedRow, broken, range_rules, theta_rules, variant_rules
from ..files.columns import Columns
from ..files.reading import MAX_CELLS
from .instance import AllocationInstance
from .job import Configuration, Job, Variant, job_rules
from .job_table import MAX_THETA, MODELS, TABLE, JobTable, offsets

NO_MODEL = -2
COLUMNS_OF_A_VARIANT = 20
"""Arrays that are made for each variant, even without such columns; two more for each resource."""


class JobColumns:
    """The parsed columns of a table of jobs, and which rows may be invalid.

    Attributes
    ----------
    wrong
        Which rows may break a rule, shape (J,); includes every row that breaks one.
    resources
        The resources of the document.
    unknown
        Demands for other resources: number of the variant, key, resource, and the rows that have one.
    """

    def __init__(self, columns: Columns, resources: tuple[str, ...]) -> None:
        self.wrong: Flags = np.zeros(len(columns), dtype=bool)
        self._columns = columns
        self.resources = resources
        self.unknown: list[tuple[int, str, str, Ints]] = []
        self._unread = set(columns.names)
        self._codes: dict[str, int] = {}
        self._under = _by_prefix(columns.names)
        self._read_job()
        self._variants = [self._read_variant(v) for v in range(self._listed("variants"))]
        self._check_variants()
        for name in self._unread:
            self.wrong |= columns.given(name)

    def __len__(self) -> int:
        return len(self._columns)

    @classmethod
    def too_wide(cls, columns: Columns, resources: int) -> bool:
        """Return whether the columns of all variants would exceed a memory limit, as in a hostile table."""
        variants = len({name.split(".")[1] for name in columns.names if name.startswith("variants.")})
        width = len(columns.names) + variants * (COLUMNS_OF_A_VARIANT + 2 * resources)
        return len(columns) * width > MAX_CELLS

    # Cells

    def _given(self, name: str) -> Flags:
        """Return a mask of the rows with a value in a column, or in any column under a dotted name."""
        given = np.zeros(len(self), dtype=bool)
        for column in self._under.get(name, [name] if name in self._unread else []):
            given |= self._columns.given(column)
        return given

    def _listed(self, name: str) -> int:
        """Return how many numbered sets of columns name.0, name.1, … the table has."""
        return next(count for count in itertools.count() if f"{name}.{count}" not in self._under)

    def _take(self, name: str) -> bool:
        """Return whether the table has a column, and mark it as read."""
        present = name in self._unread
        self._unread.discard(name)
        return present

    def _number(
        self, name: str, model: type[BaseModel], field: str = "", needed: Flags | bool = False
    ) -> tuple[Floats, Flags]:
        """Return a column of numbers with the field's default for empty cells, and which cells are not empty.

        Parameters
        ----------
        model, field
            Where the type of the cells is declared; by default the field is the last part of the name.
        needed
            The rows that must have a cell.
        """
        allowed = _allowed(model, field or name.rsplit(".", 1)[-1])
        if not self._take(name):
            self.wrong |= needed
            return np.full(len(self), allowed.default), np.zeros(len(self), dtype=bool)
        given = self._columns.given(name)
        values = self._columns.whole_numbers(name) if allowed.whole else self._columns.numbers(name)
        fine = given & (values >= allowed.least) & (values <= allowed.most)
        self.wrong |= (given & ~fine) | (needed & ~given)
        return np.where(fine, values, allowed.default), given

    def _words(self, name: str) -> tuple[Ints, list[str], Flags]:
        if not self._take(name):
            return np.full(len(self), -1), [], np.zeros(len(self), dtype=bool)
        codes, words = self._columns.texts(name)
        return codes, words, self._columns.given(name)

    def _choice(self, name: str, codes_of: Mapping[str, int], default: int) -> Ints:
        """Return a column of few allowed words as integer codes; `default` for an empty cell."""
        codes, words, given = self._words(name)
        # An empty cell has the index -1, which is the last entry.
        coded = np.array([*(codes_of.get(str(word), NO_MODEL) for word in words), NO_MODEL])[codes]
        self.wrong |= given & (coded == NO_MODEL)
        return np.where(given, coded, default)

    def _names(self, name: str) -> tuple[Ints, list[str]]:
        """Return a column of required names as indices into a list of them; −1 for an invalid name."""
        codes, names, _ = self._words(name)
        # A cell without a name has the index -1, which is the last entry.
        good = np.array([*_are_names(names), False])
        return np.where(good[codes], codes, -1), names

    def _shared_names(self, name: str) -> Ints:
        """Return a column of names as codes common to all columns; −1 for an empty or invalid cell."""
        codes, names = self._names(name)
        shared = [self._codes.setdefault(word, len(self._codes)) for word in names]
        return np.where(codes < 0, -1, np.array([*shared, -1])[codes])

    # Jobs

    def _read_job(self) -> None:
        self._name, self._name_list = self._names("name")
        self.wrong |= self._name < 0
        self._running = self._given("current")
        self._now = self._shared_names("current.variant")
        deadline, due = self._number("deadline_s", Job)
        unplaced, self._has_unplaced = self._number("unplaced_s", Job)
        workers, _ = self._number("current.workers", Configuration, needed=self._running)
        # Under the names that a `JobTable` gives them.
        self._jobs: dict[str, Any] = {
            "remaining_steps": self._number("remaining_steps", Job, needed=True)[0],
            "weight": self._number("weight", Job)[0],
            "beginning": self._choice("stage", {"running": 0, "beginning": 1}, 0) == 1,
            "deadline_s": np.where(due, deadline, np.inf),
            "unplaced_s": unplaced,
            "restart_s": self._number("restart_s", Job)[0],
            "current_ps": _whole(self._number("current.ps", Configuration)[0]),
            "current_workers": _whole(workers),
        }
        optional = np.zeros(len(self))
        if self._take("optional"):
            given = self._columns.given("optional")
            optional = np.where(given, self._columns.flags("optional"), 0)
            self.wrong |= np.isnan(optional)
        self._optional = optional == 1

    def _check_variants(self) -> None:
        """Check that variants are contiguous and have different names, and that the current one exists."""
        count = max(1, len(self._variants))
        self._present = np.zeros((len(self), count), dtype=bool)
        # An absent variant has a unique negative code in place of its name.
        names = np.tile(-1 - np.arange(count), (len(self), 1))
        for v, variant in enumerate(self._variants):
            self._present[:, v] = variant["present"]
            names[:, v] = np.where(variant["name"] >= 0, variant["name"], names[:, v])
        self.wrong |= ~self._present[:, 0] | (self._present[:, 1:] & ~self._present[:, :-1]).any(axis=1)
        matches = names == self._now[:, None]
        self._now_at = matches.argmax(axis=1)
        known = (self._now >= 0) & matches.any(axis=1)
        self.wrong |= broken(job_rules(self._optional, self._has_unplaced, self._running, known))
        self.wrong |= _repeats(names)

    # Variants

    def _read_variant(self, v: int) -> dict[str, Any]:
        """Return the columns of variant number v of all jobs; only jobs that have it are checked."""
        at = f"variants.{v}"
        present = self._given(at)
        columns: dict[str, Any] = {"present": present, "name": self._shared_names(f"{at}.name")}
        codes = {name: code for code, name in enumerate(MODELS)} | {"table": TABLE}
        model = columns["model"] = self._choice(f"{at}.speed.model", codes, NO_MODEL)
        self.wrong |= present & ((columns["name"] < 0) | (model == NO_MODEL))
        ranges = {key: self._range(f"{at}.{key}") for key in ("workers", "ps")}
        for key, (given, low, high) in ranges.items():
            columns[f"min_{key}"], columns[f"max_{key}"] = _whole(given * low), _whole(given * high)
        self.wrong |= broken(variant_rules(_model_masks(model), *ranges["workers"][:2], *ranges["ps"][:2]))
        for key, needed in (("worker_demand", True), ("ps_demand", False)):
            columns[key] = self._demand(v, key)
            if needed:
                self.wrong |= present & ~self._given(f"{at}.{key}")
        columns |= self._formula(f"{at}.speed", model, present)
        columns["rows"] = self._measured(f"{at}.speed.rows", (model == TABLE) & present)
        return columns

    def _range(self, at: str) -> tuple[Flags, Floats, Floats]:
        """Return a mask of the rows that give a range of tasks, and its minimum and maximum."""
        given = self._given(at)
        low, _ = self._number(f"{at}.min", Range)
        high, _ = self._number(f"{at}.max", Range, needed=given)
        self.wrong |= given & broken(range_rules(low, high))
        return given, low, high

    def _demand(self, v: int, key: str) -> Floats:
        """Return the demand of one task of variant v for each resource, shape (J, R)."""
        at = f"variants.{v}.{key}"
        amounts = np.zeros((len(self), len(self.resources)))
        places = {resource: r for r, resource in enumerate(self.resources)}
        for column in self._under.get(at, []):
            resource = column.removeprefix(f"{at}.")
            if "." in resource or resource.isdigit() or not _is_name(resource):
                continue  # rows know whether this is a fault
            amount, given = self._number(column, Variant, key)
            if resource in places:
                amounts[:, places[resource]] = amount
            elif given.any():
                self.unknown.append((v, key, resource, np.flatnonzero(given)))
        return amounts

    def _formula(self, at: str, model: Ints, present: Flags) -> dict[str, Floats]:
        counts = np.array([*(FORMULAS[name][0] for name in MODELS), 0, 0])[model]
        # Coefficients that a model does not have are 0, so that one array holds those of all models.
        theta = np.zeros((len(self), MAX_THETA))
        for k in range(MAX_THETA):
            theta[:, k], given = self._number(f"{at}.theta.{k}", PsSync, "theta")
            self.wrong |= present & (given != (k < counts))
        self.wrong |= present & (model >= 0) & broken(theta_rules(list(theta.T)))
        batch, given = self._number(f"{at}.batch", PsSync)
        batched = (model >= 0) & (model != MODELS.index("ps_async"))
        self.wrong |= present & (given != batched)
        return {"theta": theta, "batch": batch}

    def _measured(self, at: str, wanted: Flags) -> list[tuple[Flags, Floats, Floats, Floats]]:
        """Return (mask, parameter servers, workers, speed) of each measured configuration k of the jobs."""
        rows = []
        before, keys = wanted, []
        for k in range(self._listed(at)):
            row = self._given(f"{at}.{k}")
            ps, _ = self._number(f"{at}.{k}.ps", SpeedRow)
            workers, _ = self._number(f"{at}.{k}.workers", SpeedRow, needed=row)
            speed, _ = self._number(f"{at}.{k}.steps_per_s", SpeedRow, needed=row)
            self.wrong |= row & ~before
            rows.append((row, ps, workers, speed))
            # The pair as one number; an absent row has a unique negative one.
            keys.append(np.where(row, _whole(workers) * 2**31 + _whole(ps), -1 - k))
            before = row
        self.wrong |= wanted & ~(rows[0][0] if rows else np.zeros(len(self), dtype=bool))
        if len(keys) > 1:
            self.wrong |= _repeats(np.column_stack(keys))
        return rows

    # The table

    def table(self) -> JobTable:
        """Return the jobs as a `JobTable`; only if no row is invalid."""
        first = offsets(self._present.sum(axis=1))
        ranges = ("min_workers", "max_workers", "min_ps", "max_ps")
        others = ("worker_demand", "ps_demand", "model", "theta", "batch")
        return JobTable(
            resources=self.resources,
            names=np.array(self._name_list, dtype=object)[self._name].tolist(),
            **self._jobs,
            current_variant=np.where(self._running, first[:-1] + self._now_at, -1),
            first_variant=first,
            variant_names=np.array(list(self._codes), dtype=object)[self._of_variants("name")].tolist(),
            **{key: self._of_variants(key) for key in (*ranges, *others)},
            **self._rows(),
        )

    def _of_variants(self, key: str) -> Any:
        """Return one column of the variants of all jobs, ordered by job."""
        return np.stack([variant[key] for variant in self._variants], axis=1)[self._present]

    def _rows(self) -> dict[str, Any]:
        """Return the columns of the measured configurations of a `JobTable`."""
        counts = np.zeros(self._present.shape, dtype=np.int64)
        parts: list[Floats] = []
        for v, variant in enumerate(self._variants):
            for given, ps, workers, speed in variant["rows"]:
                j = np.flatnonzero(given)
                counts[j, v] += 1
                parts.append(np.stack([ps[j], workers[j], np.full(len(j), v), j, speed[j]]))
        ps, workers, variants, jobs, speed = np.concatenate([np.zeros((5, 0)), *parts], axis=1)
        # The last key counts first: by job, then variant, workers and parameter servers.
        order = np.lexsort((ps, workers, variants, jobs))
        return {
            "first_row": offsets(counts[self._present]),
            "row_ps": _whole(ps[order]),
            "row_workers": _whole(workers[order]),
            "row_steps_per_s": speed[order],
        }


def _model_masks(model: Ints) -> tuple[Flags, Flags, Flags]:
    """Return masks of the jobs whose speed is a table, ring all-reduce, or another formula."""
    ring = model == MODELS.index("ring_allreduce")
    return model == TABLE, ring, (model >= 0) & ~ring


def _repeats(keys: Ints) -> Flags:
    """Return a mask of the rows of an array of keys, shape (J, K), that contain a key twice."""
    ordered = np.sort(keys, axis=1)
    repeats: Flags = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    return repeats


class _Allowed(NamedTuple):
    """The range of numbers that a field allows, and the value of an empty cell: default, NaN, or 0."""

    least: float
    most: float
    whole: bool
    default: float


@cache
def _allowed(model: type[BaseModel], name: str) -> _Allowed:
    field = model.model_fields[name]
    marks = list(marks_of(field))
    least = [mark.ge for mark in marks if hasattr(mark, "ge")]
    # The smallest double above an open limit makes it a closed one.
    least += [np.nextafter(mark.gt, np.inf) for mark in marks if hasattr(mark, "gt")]
    most = min(mark.le for mark in marks if hasattr(mark, "le"))
    default = np.nan if field.default is None else field.default
    default = default if isinstance(default, int | float) else 0.0
    return _Allowed(float(max(least)), float(most), int in marks, float(default))


LONGEST_NAME: int = next(mark.max_length for mark in marks_of(Name) if hasattr(mark, "max_length"))


def _by_prefix(names: Iterable[str]) -> dict[str, list[str]]:
    """Return dotted prefix → column names under it."""
    under: dict[str, list[str]] = {}
    for name in names:
        for dot in re.finditer(r"\.", name):
            under.setdefault(name[: dot.start()], []).append(name)
    return under


def _are_names(texts: Sequence[str]) -> list[bool]:
    """Return for each text whether it is a valid name."""
    if "".join(texts).isprintable() and all(map(str.strip, texts)):
        return [length <= LONGEST_NAME for length in map(len, texts)]
    return list(map(_is_name, texts))


def _is_name(text: str) -> bool:
    return 0 < len(text) <= LONGEST_NAME and text.isprintable() and bool(text.strip())


def _whole(values: Floats) -> Ints:
    return values.astype(np.int64)


HEAD = 1_000
"""Rows at the start of a table that are checked before the others."""
CHUNK = 256
MAX_SUSPECTS = 20_000
"""Suspect rows that are validated one by one before the whole table is read row by row."""
_MEASUREMENTS = re.compile(r"loss(\..*)?|variants\.[0-9]+\.speed\.measurements")


def read_allocation(columns: Columns, data: Mapping[str, Any], source: str) -> AllocationInstance | None:
    """Return the instance whose jobs are a table in columns, or None if it has to be read row by row.

    Parameters
    ----------
    columns
        The table of jobs.
    data
        The rest of the document.
    source
        The name of the document in error messages.

    Returns
    -------
    instance
        None if the table has to be read row by row, for instance because measurements are to be fitted.

    Raises
    ------
    InstanceError
        If anything is wrong; of faulty jobs, only the first hundred are named.
    """
    measured = [name for name in columns.names if _MEASUREMENTS.fullmatch(name)]
    if measured and any(columns.given(name).any() for name in measured):
        return None
    resources = data.get("resources")
    known = tuple(map(str, resources)) if isinstance(resources, Mapping) else ()
    # A large table that starts wrong is refused before the rest of it is read.
    head = columns.head(HEAD)
    if not JobColumns.too_wide(head, len(known)):
        suspects = np.flatnonzero(JobColumns(head, known).wrong)
        _refuse_faulty(head, suspects, data, source, others=len(head) == HEAD)
    if JobColumns.too_wide(columns, len(known)):
        return None
    jobs = JobColumns(columns, known)
    suspects = np.flatnonzero(jobs.wrong)
    if len(suspects):
        # If all suspects turn out to be fine, a check was too strict: all rows are read as objects.
        _refuse_faulty(columns, suspects, data, source)
        return None
    faults = _unknown_resources(jobs, source) if isinstance(resources, Mapping) else []
    try:
        instance = validated(AllocationInstance, {**data, "jobs": jobs.table()}, source)
    except InstanceError as error:
        raise InstanceError([*error.faults, *faults], error.more, error.stopped) from None
    if faults:
        raise InstanceError(faults)
    return instance


def _refuse_faulty(
    columns: Columns, suspects: Ints, data: Mapping[str, Any], source: str, others: bool = False
) -> None:
    """Raise the faults of the first invalid rows among the suspects, if there are any.

    Parameters
    ----------
    others
        Whether there are more rows, which have not been checked.
    """
    faulty: dict[int, dict[str, Any]] = {}
    for start in range(0, min(len(suspects), MAX_SUSPECTS), CHUNK):
        chunk = suspects[start : start + CHUNK]
        for index, row in zip(chunk.tolist(), columns.rows(chunk), strict=True):
            if len(faulty) < MAX_FAULTS and not _accepted(row, source):
                faulty[index] = row
        if len(faulty) == MAX_FAULTS:
            break
    if not faulty:
        return
    indices = list(faulty)
    try:
        validated(AllocationInstance, {**data, "jobs": list(faulty.values())}, source)
    except InstanceError as error:
        faults = [Fault(source, _renumbered(fault.path, indices), fault.what) for fault in error.faults]
        left = int((suspects > indices[-1]).sum()) if len(faulty) == MAX_FAULTS else 0
        raise InstanceError(faults, error.more + left, others or error.stopped) from None


def _accepted(row: dict[str, Any], source: str) -> bool:
    try:
        validated(Job, row, source)
    except InstanceError:
        return False
    return True


def _renumbered(path: str, indices: list[int]) -> str:
    """Return the path of a fault with the index of its job in the whole table."""
    return re.sub(r"^jobs\[([0-9]+)\]", lambda match: f"jobs[{indices[int(match[1])]}]", path)


def _unknown_resources(jobs: JobColumns, source: str) -> list[Fault]:
    """Return the faults of demands for unknown resources, of the first hundred jobs that have one."""
    first = sorted({j for _, _, _, rows in jobs.unknown for j in rows[:MAX_FAULTS].tolist()})[:MAX_FAULTS]
    return [
        Fault(source, *complaint)
        for j in first
        for v, key, resource, rows in jobs.unknown
        if j in rows[:MAX_FAULTS]
        for complaint in unknown_names(
            [resource], jobs.resources, f"jobs[{j}].variants[{v}].{key}", "resource", "resources"
        )
    ]
