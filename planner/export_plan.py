"""Export of plans for those who carry them out: JSON, Slurm options, Kubernetes node affinity.

Only a plan that passes `verify` is written. Names come from untrusted documents: they are quoted where the
format can quote them, and refused where it cannot hold them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..instances.common.base import Instance
from ..instances.common.errors import OptionError
from ..instances.files.reading import fail
from ..solvers.common.result import Result
from .output.thinning import some
from .registry import KINDS, formats
from .reports.text import listed
from .verification.findings import Verification
from .verification.stored import is_frontier, of_instance, parse_result, verify_stored

NAMED = 6
"""So many jobs are named that are left out for the same reason."""
HEAD = ("instance", "kind", "instance_sha256", "plan_sha256", "status")
"""What stands at the head of a plan as JSON."""


def verified_result(
    instance: Instance, stored: list[dict[str, Any]], source: str
) -> tuple[Result | None, Verification]:
    """Return the stored result of an instance and its verification; no result if the verification fails.

    Raises
    ------
    InstanceError
        If there is not exactly one result of the instance.
    """
    found = of_instance(instance, stored)
    if len(found) != 1:
        raise fail(source, f"has {len(found)} results of the instance; give a file with one")
    if is_frontier(found[0]):
        raise fail(source, "is a frontier, which has many plans; give the result of one solve")
    verification = verify_stored(instance, found[0], source)
    if not verification.ok:
        return None, verification
    return parse_result(found[0], source), verification


def export_plan(
    instance: Instance,
    result: Result,
    format: str,
    every: bool = False,
    checked: Verification | None = None,
) -> str:
    """Return a verified plan as text.

    Parameters
    ----------
    instance, result
        What was solved, and its result with a plan.
    format
        `json`, or one of the forms that the kind has.
    every
        Where jobs run already, other forms than `json` hold those to start and to move; with this every job
        that is placed.
    checked
        What the check of the result found; what is only claimed is said where the form has a place for it.

    Raises
    ------
    InstanceError
        If the format cannot hold a name.
    OptionError
        If the result has no plan, or the format is not for its kind.
    """
    if result.plan is None:
        raise OptionError(f"{result.instance}: the result has no plan to export; it is {result.status}")
    if format == "json":
        head = {name: getattr(result, name) for name in HEAD}
        data = {**head, **KINDS[instance.kind].as_data(instance, result.plan), **_claims(checked)}
        return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    kind = KINDS[instance.kind]
    if format not in kind.formats:
        able = " and ".join(name for name, other in KINDS.items() if format in other.formats)
        if not able:
            raise OptionError(f"no format {format!r}; there are: {', '.join(formats())}")
        raise OptionError(
            f"--format {format} is for plans of {able}; a plan of {result.kind} is exported as json"
        )
    written = kind.formats[format]
    entries = result.plan if written.whole else kind.to_carry_out(result.plan, every)
    lines = list(written.lines(instance, entries))
    if checked is not None and written.comment is not None:
        lines = [*(f"{written.comment}ONLY CLAIMED: {_plain(line)}" for line in checked.claimed), *lines]
    return "".join(line + "\n" for line in lines)


def _plain(text: str) -> str:
    """Return text without line breaks and control characters, which are written as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _claims(checked: Verification | None) -> dict[str, Any]:
    return {} if checked is None else {"complete": checked.complete, "claimed": list(checked.claimed)}


def notes(instance: Instance, result: Result, format: str, every: bool = False) -> Iterator[str]:
    """Yield notes beside the text of a plan: jobs that run on, stop, move, are left out or do not fit."""
    kind, plan = KINDS[instance.kind], result.plan or ()
    yield from kind.actions(instance, plan)
    written = kind.formats.get(format)
    if written is not None:
        yield from written.notes(instance, plan if written.whole else kind.to_carry_out(plan, every))
    by_reason: dict[str, list[str]] = {}
    for job, reason in kind.left_out(plan):
        by_reason.setdefault(reason, []).append(job)
    out = [f"not placed: {_jobs(jobs)}: {reason}" for reason, jobs in by_reason.items()]
    yield from some(out, "not placed: jobs for {:,} more reasons; the result says which")


def _jobs(names: list[str]) -> str:
    """Return a few names, with their number where there are several."""
    return names[0] if len(names) == 1 else f"{len(names):,} jobs ({listed(names, NAMED)})"
