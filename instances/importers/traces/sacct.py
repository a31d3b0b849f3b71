"""Slurm's accounting as a trace: which jobs were submitted when, what they had, and how long they ran."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from ...common.fields import PositiveCount
from ...common.printable import some
from ...files.reading import fail, parse_document, read_text
from ...scheduling.instance import SchedulingInstance
from ..importer import Importer, ImportOptions, Option
from ..left_out import LeftOut, valid_entries
from ..node_restrictions import counted, numbered
from .gpu_trace import FREE, Origin, gpu_trace
from .sacct_job import JobOfAccounting, whole_jobs
from .sacct_records import entries_of_document, entries_of_table


class SacctOptions(ImportOptions):
    """Jobs of Slurm's accounting (sacct --json or --parsable2): a scheduling instance."""

    jobs: Annotated[Path, Option("What sacct --json or sacct --parsable2 prints.", argument="jobs")]
    gpus: Annotated[PositiveCount, Option("GPUs of the cluster.")]
    cpus: Annotated[
        PositiveCount | None, Option("CPUs of the cluster; without, jobs that ask for no GPU are left out.")
    ] = None
    arrival: Annotated[
        Literal["submit", "eligible"],
        Option("A job arrives when it was submitted, or when nothing but resources kept it from running."),
    ] = "submit"
    tenant: Annotated[
        Literal["account", "user", "partition"], Option("Whose a job is: of what the tenants are.")
    ] = "account"
    first: Annotated[PositiveCount | None, Option("Only so many jobs, by arrival.")] = None


@Importer
def import_sacct(options: SacctOptions) -> SchedulingInstance:
    """Return the scheduling instance of the jobs of Slurm's accounting."""
    source, invalid = str(options.jobs), LeftOut("job")
    text = read_text(options.jobs, errors="replace")  # names of jobs may be in any encoding
    entries = (
        entries_of_document(_document(text, source), source)
        if text.lstrip().startswith(("{", "["))
        else entries_of_table(text, source)
    )
    valid = list(valid_entries(JobOfAccounting, entries, source, invalid))
    once = list({job.run: job for job in valid}.values())
    listed = whole_jobs(once)
    why = {
        "listed twice": len(valid) - len(once),
        "not run, or not ended": 0,
        "no GPUs asked for": 0,
        "more asked for than there is": 0,
    }
    ran = _sorted_out(listed, options, why)
    if not ran:
        raise fail(source, _nothing_ran(why, invalid))
    ran = sorted(ran, key=lambda job: _arrival_s(job, options))[: options.first]
    begin = _arrival_s(ran[0], options)
    names = numbered((f"job-{job.id}" for job in ran), "{} ({})")
    jobs = [
        _row(name, job, _arrival_s(job, options) - begin, options)
        for name, job in zip(names, ran, strict=True)
    ]
    cluster = {"gpu": options.gpus} | ({} if options.cpus is None else {"cpu": options.cpus})
    return gpu_trace(
        f"slurm-{options.jobs.name.split('.')[0]}",
        f"{options.jobs.name}, as sacct prints it",
        {"resources": cluster},
        jobs,
        [*_assumptions(ran, len(listed), options), *_left_out(why), *invalid.sentences()],
        Origin(source, [job.place for job in ran]),
        (FREE,),
    )


def _document(text: str, source: str) -> dict[str, Any]:
    data = parse_document(text, source, ".json")
    if not isinstance(data, dict):
        raise fail(source, "is not a mapping; give what sacct --json or sacct --parsable2 prints")
    return data


def _arrival_s(job: JobOfAccounting, options: SacctOptions) -> float:
    assert job.submit_s is not None
    if options.arrival == "eligible" and job.eligible_s is not None:
        return max(job.submit_s, job.eligible_s)
    return job.submit_s


def _nothing_ran(why: dict[str, int], invalid: LeftOut) -> str:
    out = [*_left_out(why), *invalid.sentences()]
    if why["no GPUs asked for"]:
        out.append("Slurm lists GPUs where AccountingStorageTRES names gres/gpu.")
    return " ".join([f"has no job that ran on GPUs{':' if out else ''}", *out])


def _sorted_out(
    listed: Sequence[JobOfAccounting], options: SacctOptions, why: dict[str, int]
) -> list[JobOfAccounting]:
    """Return the jobs that ran and fit, and count the others."""
    _, not_run, nothing, too_much = why
    found = []
    for job in listed:
        if not job.is_over or not job.elapsed_s or job.submit_s is None:
            why[not_run] += 1
        elif not job.gpus and (options.cpus is None or not job.cpus):
            why[nothing] += 1
        elif job.gpus > options.gpus or (options.cpus is not None and job.cpus > options.cpus):
            why[too_much] += 1
        else:
            found.append(job)
    return found


def _left_out(why: dict[str, int]) -> Iterator[str]:
    for reason, count in why.items():
        if count:
            yield f"{counted(count, 'job is', 'jobs are')} left out: {reason}."


def _merged(ran: Sequence[JobOfAccounting]) -> Iterator[str]:
    """Say of which jobs several entries are one, or one is several."""
    parts = sum(job.heterogeneous is not None for job in ran)
    if parts:
        yield f"Parts of a heterogeneous job run at the same time, as one job; there are {parts:,} of these."
    again = len(ran) - len({job.id for job in ran})
    if again:
        yield f"{counted(again, 'run is', 'runs are')} of jobs that ran before; each run counts as a job."
    types = set().union(*(job.types for job in ran))
    if len(types) > 1:
        yield f"GPUs of all types count alike: {some(sorted(types))}."


def _row(name: str, job: JobOfAccounting, arrival_s: float, options: SacctOptions) -> dict[str, Any]:
    demand = {"gpu": job.gpus} | ({} if options.cpus is None else {"cpu": job.cpus})
    return {
        "name": name,
        "arrival_s": arrival_s,
        "demand": {resource: amount for resource, amount in demand.items() if amount},
        "duration_s": job.elapsed_s,
        "estimate_s": job.limit_s or None,
        "tenant": getattr(job, options.tenant) or None,
    }


def _assumptions(ran: Sequence[JobOfAccounting], listed: int, options: SacctOptions) -> Iterable[str]:
    yield f"The cluster is chosen, not the source's: {options.gpus:,} GPUs in one pool."
    yield (
        f"{len(ran):,} of {listed:,} jobs; time 0 is the first arrival. A job runs as long as it did, "
        "whatever it shared and however it ended, and all its tasks run at the same time."
    )
    yield f"The tenant of a job is its {options.tenant}; its time limit is what its user estimated."
    yield "Times are as sacct printed them; without a time zone they may be an hour off when clocks change."
    yield from _merged(ran)
    if options.cpus is None:
        yield "CPU and memory are not asked for."
