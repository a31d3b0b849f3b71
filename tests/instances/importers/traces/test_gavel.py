"""Gavel's traces and measured speeds."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from sample_documents import faults, is_kept

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.instances.importers.traces.gavel import (
    import_gavel,
    import_gavel_consolidation,
    import_gavel_trace,
)
from clusterplan.planner.api import solve


def files(folder: Path) -> tuple[Path, Path]:
    """Write a speed table, and a trace of a job that it knows and one that it does not."""
    (folder / "s.json").write_text(json.dumps({"v100": {"('A', 2)": {"null": 4.0}}}))
    known, other = "A c d -n 1 100 2 3 -1 60", "B c d -n 1 9 1 1 -1 0"
    (folder / "t.trace").write_text("".join("\t".join(line.split()) + "\n" for line in (known, other)))
    return folder / "s.json", folder / "t.trace"


def test_a_duration_is_steps_over_speed(tmp_path: Path) -> None:
    """Jobs without a measured speed are left out, and it is said."""
    found = import_gavel_trace(*files(tmp_path), "v100", 8)
    (job,) = found.jobs
    assert (job.tasks, job.arrival_s, job.duration_s, job.weight, job.model) == (2, 60, 25, 3, "A")
    assert any("1 jobs are left out" in line for line in found.assumptions)


def test_a_type_that_is_not_there(tmp_path: Path) -> None:
    """Those that are there are named."""
    with pytest.raises(InstanceError, match="gpu_type: unknown GPU type; allowed: v100"):
        import_gavel_trace(*files(tmp_path), "h100", 8)


def test_a_trace_without_measured_speeds(tmp_path: Path) -> None:
    """There is no job whose duration is known."""
    speeds, trace = files(tmp_path)
    trace.write_text(trace.read_text().replace("A\t", "C\t"))
    with pytest.raises(InstanceError, match="has no speed of its jobs on v100 with as many GPUs as they ask"):
        import_gavel_trace(speeds, trace, "v100", 8)


def test_the_real_trace(shared_data: Path) -> None:
    """607 jobs, of which 103 have no measured speed."""
    folder = shared_data / "gavel"
    files = (folder / "simulation_throughputs.json", folder / "msr-seed0-e13805.trace")
    assert len(import_gavel_trace(*files, "v100", 64).jobs) == 504


THROUGHPUTS = {
    "v100": {
        "('A3C', 1)": {"null": 2.0},
        "('LM', 2)": {"null": 4.0},
        "('LM', 4)": {"null": 8.0},
        "('Net', 2)": {"null": 2.0},
        "('Zero', 2)": {"null": 0.0},
    },
    "v100_unconsolidated": {
        "('A3C', 1)": {"null": 2.0},
        "('LM', 2)": {"null": 1.0},
        "('LM', 4)": {"null": 4.0},
        "('Net', 2)": {"null": 2.5},
        "('Zero', 2)": {"null": 1.0},
    },
    "k80": {"('A3C', 1)": {"null": 1.0}},
}


def line(model: str, gpus: int, priority: str = "1") -> str:
    return "\t".join([model, "c", ".", "--steps", "1", "100", str(gpus), priority, "-1.0", "0"])


def test_speeds_on_servers(tmp_path: Path) -> None:
    """Together on one server, if it is large enough, and apart on several, as far as there are any."""
    (tmp_path / "s.json").write_text(json.dumps(THROUGHPUTS))
    (tmp_path / "t.trace").write_text("\n".join(line(model, 1) for model in ("A3C", "LM", "Zero")))
    paths = tmp_path / "s.json", tmp_path / "t.trace"
    instance = import_gavel(*paths, {"v100": 6, "k80": 2}, gpus_per_server=2)
    names = ["v100-0", "v100-1", "v100-2", "k80-0"]
    assert [(n, dict(s.capacity)) for n, s in instance.expanded_servers.items()] == [
        (name, {name.split("-")[0]: 2}) for name in names
    ]
    a3c, lm, zero = (
        {v.name: [(r.workers, r.servers, r.steps_per_s) for r in v.speed.rows] for v in job.variants}
        for job in instance.jobs
    )
    assert a3c == {"v100": [(1, 1, 2.0)], "k80": [(1, 1, 1.0)]}
    assert lm == {"v100": [(2, 1, 4.0), (2, 2, 1.0), (4, 2, 4.0), (4, 3, 4.0)]}
    assert zero == {"v100": [(2, 2, 1.0)]}
    assert is_kept(instance)
    (fault,) = faults(lambda: import_gavel(*paths, {"v100": 5}, gpus_per_server=2))
    assert "capacity.v100: is no multiple of 2, the GPUs of each server" in fault


TRACE = (line("A3C", 1), line("LM", 2), line("LM", 4), line("Net", 2), line("Zero", 2), line("New", 8))


def small(folder: Path, trace: tuple[str, ...] = TRACE, **options: Any) -> ConsolidationInstance:
    (folder / "speeds.json").write_text(json.dumps(options.pop("throughputs", THROUGHPUTS)))
    (folder / "small.trace").write_text("\n".join(trace))
    chosen = {"gpu_type": "v100", "servers": 4, "gpus_per_server": 2, **options}
    return import_gavel_consolidation(folder / "speeds.json", folder / "small.trace", **chosen)


def real(shared_data: Path, trace: str = "max_min_fairness.trace", **options: Any) -> ConsolidationInstance:
    folder = shared_data / "gavel"
    chosen = {"gpu_type": "v100", "servers": 20, "gpus_per_server": 8, **options}
    return import_gavel_consolidation(folder / "simulation_throughputs.json", folder / trace, **chosen)


def test_real_trace(shared_data: Path) -> None:
    """The 96 jobs ask 169 GPUs; each of several GPUs has the measured ratio of its speeds."""
    instance = real(shared_data)
    assert len(instance.jobs) == 96
    assert sum(job.worth for job in instance.jobs) == 169
    assert instance.objectives == ("value", "slowdown", "servers")
    raw = json.loads((shared_data / "gavel" / "simulation_throughputs.json").read_text())
    for job in instance.jobs:
        key = f"('{job.name.split(' ', 1)[1]}', {job.tasks})"
        ratio = raw["v100_unconsolidated"][key]["null"] / raw["v100"][key]["null"]
        assert job.relative_speed(1) == 1
        assert job.relative_speed(2) == job.relative_speed(7) == pytest.approx(ratio)
    assert is_kept(instance)


def test_eight_entries_are_faster_spread(shared_data: Path, tmp_path: Path) -> None:
    """A trace with one job for each entry of the V100's table has eight negative slowdowns."""
    table = shared_data / "gavel" / "simulation_throughputs.json"
    keys = [ast.literal_eval(key) for key in json.loads(table.read_text())["v100"]]
    trace = tmp_path / "all.trace"
    trace.write_text("\n".join(line(model, gpus) for model, gpus in keys))
    instance = import_gavel_consolidation(table, trace, "v100", 10, 8)
    assert sum(job.relative_speed(2) > 1 for job in instance.jobs) == 8
    assert "8 jobs were measured faster when spread; their slowdown is negative." in instance.assumptions


def test_jobs_without_measured_speeds(shared_data: Path) -> None:
    """In this trace 103 jobs have a model or number of GPUs that the table lacks; they stay in."""
    instance = real(shared_data, "msr-seed0-e13805.trace")
    assert len(instance.jobs) == 607
    assert "103 jobs stay in without measured speeds" in " ".join(instance.assumptions)


def test_the_plan_spreads_what_gains_by_it(tmp_path: Path) -> None:
    """Slowdown keeps the job together that loses by being spread, and spreads the one that gains."""
    instance = small(tmp_path, (line("LM", 2), line("Net", 2)), servers=2)
    result = solve(instance)  # two servers of two GPUs: both jobs together lose 0, both spread 1.5 - 0.5
    assert [record.value for record in result.objectives[:2]] == [4, 0]
    alone = solve(small(tmp_path, (line("Net", 2),), servers=2))
    assert alone.objectives[1].value == pytest.approx(-0.5)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"gpu_type": "k80"}, "options: gpu_type: 'k80' has not both consolidated and unconsolidated speeds"),
        ({"gpu_type": "h100"}, "allowed: v100"),
        ({"gpu_type": "v100_unconsolidated"}, "allowed: v100"),
        ({"servers": 0}, "options: servers: is 0, but must be at least 1"),
        ({"gpus_per_server": -1}, "options: gpus_per_server: is -1, but must be at least 1"),
        ({"first": 0}, "options: first: is 0, but must be at least 1"),
        ({"trace": ("x",)}, "small.trace: line 1: has 1 columns"),
        ({"trace": (line("LM", 2 * 10**9),)}, "line 1: gpus: is 2000000000, but must be at most 1e+09"),
        ({"throughputs": []}, "speeds.json: is not a mapping of GPU types"),
        (
            {"throughputs": {"v100": {}, "v100_unconsolidated": {"('LM', 2)": {}}}},
            "v100_unconsolidated.('LM', 2): has no 'null'",
        ),
    ],
)
def test_bad_options_and_files(tmp_path: Path, options: dict[str, Any], expected: str) -> None:
    """A wrong option or file is one line with what is allowed."""
    (fault,) = faults(lambda: small(tmp_path, **options))
    assert expected in fault
