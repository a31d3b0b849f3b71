"""The command line: exit codes, what stands on stdout, and that no input ends in a traceback."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import Command, Done, run_here
from sample_documents import ALLOCATION, CONSOLIDATION, DOCUMENT, STAGING

import clusterplan
from clusterplan.planner.cli import solving
from clusterplan.planner.cli.progress import COMPILING
from clusterplan.solvers.common.result import Result


def allocation(**over: Any) -> dict[str, Any]:
    """Return the allocation document with other top-level fields."""
    return {**ALLOCATION, **over}


def consolidation(job: dict[str, Any], **over: Any) -> dict[str, Any]:
    """Return the consolidation document with another first job."""
    first = {**CONSOLIDATION["jobs"][0], **job}
    return {**CONSOLIDATION, "jobs": [first, CONSOLIDATION["jobs"][1]], **over}


def put(name: str, document: Any) -> str:
    """Write a document, or text, into the current folder; return its name."""
    text = document if isinstance(document, str) else yaml.safe_dump(document, allow_unicode=True)
    Path(name).write_text(text, encoding="utf-8")
    return name


# Exit codes


@pytest.mark.parametrize("kind", DOCUMENT)
def test_a_solved_instance_exits_0_with_a_verified_plan(run: Command, kind: str) -> None:
    """A table for people shows status, gap, the check and the plan."""
    answer = run("solve", put("d.yaml", DOCUMENT[kind]))
    assert answer.returncode == 0
    assert [line for line in answer.stderr.splitlines() if not line.startswith(COMPILING)] == []
    assert all(word in answer.stdout for word in ("optimal", "verified", " %"))


def test_a_heuristic_that_ends_normally_exits_0(run: Command) -> None:
    """A plan without proof is a success where the method ended by itself."""
    assert run("solve", put("d.yaml", CONSOLIDATION), "--solver", "best-fit").returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["solve"],
        ["sovle", "d.yaml"],
        ["solve", "d.yaml", "--bogus"],
        ["solve", "d.yaml", "--format", "xml"],
        ["solve", "d.yaml", "--time-limit", "soon"],
        ["solve", "d.yaml", "--time-limit", "-1"],
        ["solve", "d.yaml", "--time-limit", "nan"],
        ["solve", "d.yaml", "--gap", "-1"],
        ["solve", "d.yaml", "--threads", "0"],
        ["solve", "d.yaml", "--seed", "-1"],
        ["solve", "d.yaml", "--memory-limit", "0"],
        ["solve", "d.yaml", "--output", "missing/folder/x.json"],
        ["solve", "d.yaml", "--output", "."],
        ["solve", "d.yaml", "--set", "novalue"],
        ["solve", "d.yaml", "--set", "=1"],
        ["schema", "nothing"],
        ["export-model", "d.yaml", "--objective", "0"],
        ["export-model", "d.yaml", "--objective", "2"],
        ["verify", "d.yaml"],
        ["generate"],
        ["generate", "allocation"],
        ["generate", "allocation", "--jobs", "0"],
        ["generate", "allocation", "--jobs", "2", "--seed", "-1"],
        ["generate", "allocation", "--jobs", "2", "--tightness", "nan"],
        ["generate", "staging", "--layers", "2", "--types", "2", "--limits", "some"],
        ["generate", "staging", "--layers", "9999", "--types", "2"],
        ["generate", "staging", "--layers", "2", "--types", "2", "--seed", "-1"],
        ["generate", "consolidation", "--servers", "2", "--jobs", "2", "--load", "0"],
        ["generate", "consolidation", "--servers", "2", "--jobs", "2", "--load", "nan"],
        ["generate", "consolidation", "--servers", "2", "--jobs", "2", "--required-share", "2"],
        ["generate", "consolidation", "--servers", "2", "--jobs", "2", "--seed", "-1"],
        ["import", "gavel"],
    ],
)
def test_wrong_usage_exits_2(run: Command, arguments: list[str]) -> None:
    """An option or argument that cannot be used is a usage error, said in words, before any solving."""
    put("d.yaml", ALLOCATION)
    answer = run(*arguments)
    assert answer.returncode == 2
    assert answer.stdout == "" or "Usage:" in answer.stdout
    assert answer.stderr or not arguments or "Usage:" in answer.stdout


def test_a_bad_instance_exits_3_with_a_line_for_each_fault(run: Command) -> None:
    """Faults go to stderr, nothing to stdout."""
    bad = put("bad.yaml", allocation(foo=1, prices_usd_per_hour={"cpu": -1}))
    answer = run("solve", bad)
    assert (answer.returncode, answer.stdout) == (3, "")
    assert len(answer.stderr.splitlines()) == 2
    assert all(line.startswith("bad.yaml: ") for line in answer.stderr.splitlines())
    assert run("solve", "nope.yaml").stderr == "nope.yaml: there is no such file\n"
    assert run("solve", "example:nope").returncode == 3


def test_a_file_is_named_once_in_a_fault(run: Command) -> None:
    """The name of the file is the start of the line and not repeated."""
    for command in ("solve", "validate", "export-model"):
        answer = run(command, put("bad.yaml", allocation(foo=1)))
        assert answer.returncode == 3
        assert answer.stderr.count("bad.yaml") == 1


def test_an_allocation_job_larger_than_the_cluster_exits_4(run: Command) -> None:
    """The diagnosis names the job, the resource and how much is missing."""
    document = allocation(resources={"cpu": 10, "gpu": 4, "tpu": 1})
    document["jobs"] = [{**ALLOCATION["jobs"][1]}]
    document["jobs"][0]["variants"] = [{**ALLOCATION["jobs"][1]["variants"][0], "worker_demand": {"gpu": 9}}]
    answer = run("solve", put("d.yaml", document))
    assert answer.returncode == 4
    why = next(line for line in answer.stdout.splitlines() if line.startswith("why: "))
    assert all(word in why for word in ("'k'", "9 gpu", "5 more", "4 there are")), why
    assert "what would help: " in answer.stdout


def test_jobs_that_do_not_fit_together_exit_4(run: Command) -> None:
    """The diagnosis names the resource, what is missing, and the capacity that would do."""
    answer = run("solve", put("d.yaml", allocation(resources={"cpu": 10, "gpu": 1})), "--format", "json")
    assert answer.returncode == 4
    (result,) = answer.objects
    assert (result["status"], result["plan"], result["objective"]) == ("infeasible", None, None)
    assert "gpu" in result["diagnosis"]["reasons"][0]
    assert "1 more" in result["diagnosis"]["reasons"][0]
    assert "raise gpu to at least 2" in result["diagnosis"]["remedies"][0]


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ({"tasks": 99}, ("never fits", "8 of its 99")),
        ({"task_demand": {"gpu": 9}}, ("never fits", "9 gpu", "largest", "4")),
        ({"gpu_model": "h100"}, ("never fits", "'h100'")),
    ],
)
def test_a_consolidation_job_that_never_fits_is_unplaced_or_infeasible(
    run: Command, job: dict[str, Any], words: tuple[str, ...]
) -> None:
    """Such a job is left out with a reason and exit 0; with must_place no plan exists, exit 4."""
    answer = run("solve", put("d.yaml", consolidation(job)), "--format", "json")
    assert answer.returncode == 0
    entry = answer.objects[0]["plan"][0]
    assert not entry["placed"]
    assert all(word in entry["reason"] for word in words), entry
    answer = run("solve", put("d.yaml", consolidation({**job, "must_place": True})))
    assert answer.returncode == 4
    why = next(line for line in answer.stdout.splitlines() if line.startswith("why: "))
    assert all(word in why for word in ("'j'", *words)), why


def test_a_floor_that_cannot_be_reached_exits_4(run: Command) -> None:
    """The diagnosis names the layer and the highest floor that could be reached."""
    answer = run("solve", put("d.yaml", {**STAGING, "throughput_floor_samples_per_s": 1e6}))
    assert answer.returncode == 4
    assert "why: layer 'l0'" in answer.stdout
    assert "what would help: no floor above" in answer.stdout


def test_a_time_limit_with_a_plan_exits_5_and_without_one_6(run: Command) -> None:
    """A limit that strikes at once leaves the heuristic its first plan, and brute force none."""
    name = put("d.yaml", ALLOCATION)
    answer = run("solve", name, "--solver", "marginal-gain", "--time-limit", "1e-9", "--format", "json")
    assert answer.returncode == 5
    assert (answer.objects[0]["status"], answer.objects[0]["limit"]) == ("feasible", "time")
    answer = run("solve", name, "--solver", "brute-force", "--time-limit", "1e-9", "--format", "json")
    assert answer.returncode == 6
    assert (answer.objects[0]["status"], answer.objects[0]["plan"]) == ("unknown", None)


def test_an_interrupt_exits_130(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control-C ends the command with the code that shells expect."""

    def interrupted(*_: object) -> Result:
        raise KeyboardInterrupt

    monkeypatch.setattr(solving, "solve", interrupted)
    assert run("solve", put("d.yaml", ALLOCATION)).returncode == 130


@pytest.mark.usefixtures("run")
def test_an_internal_error_is_one_line_and_exits_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even a mistake of ours shows a traceback, unless one asks for it."""

    def broken(*_: object) -> Result:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(solving, "solve", broken)
    words = ("solve", put("d.yaml", ALLOCATION))
    done = run_here(*words)
    assert done.returncode == 1
    assert done.stderr.startswith("internal error: ZeroDivisionError: oops. Please report it")
    monkeypatch.setenv("CLUSTERPLAN_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        run_here(*words)


def test_of_several_files_the_worst_code_counts_and_the_good_are_solved(run: Command) -> None:
    """One bad file stops nothing; each result is printed, and the gravest code is the exit code."""
    good, bad = put("good.yaml", ALLOCATION), put("bad.yaml", allocation(foo=1))
    infeasible = put("infeasible.yaml", allocation(name="tight", resources={"cpu": 10, "gpu": 1}))
    answer = run("solve", bad, good, "nope.yaml", infeasible, good, "--format", "json")
    assert answer.returncode == 3
    assert [r["status"] for r in answer.objects] == ["optimal", "infeasible", "optimal"]
    assert [line.split(":")[0] for line in answer.stderr.splitlines()] == ["bad.yaml", "nope.yaml"]
    assert run("solve", good, infeasible).returncode == 4
    answer = run("solve", good, infeasible, "-q")
    assert "tight: why: gpu" in answer.stdout


# Output


@pytest.mark.parametrize("kind", DOCUMENT)
def test_json_is_one_object_for_each_instance(run: Command, kind: str) -> None:
    """Stdout holds nothing but results that read back as they were."""
    name = put("d.yaml", DOCUMENT[kind])
    answer = run("solve", name, name, "--format", "json", "-v")
    assert len(answer.objects) == 2
    for line in answer.stdout.splitlines():
        assert Result.model_validate_json(line).to_json() == line


def test_csv_has_a_header_and_escapes_formulas(run: Command) -> None:
    """A name that a spreadsheet would take for a formula is quoted; a comma or quote breaks no row."""
    names = ["=cmd|'/c calc'!A0", "+1", "-1", "@x", 'a,"b"']
    files = [put(f"{i}.yaml", allocation(name=name)) for i, name in enumerate(names)]
    answer = run("solve", *files, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(answer.stdout)))
    assert [row["instance"] for row in rows] == [f"'{name}" for name in names[:4]] + names[4:]
    assert all(row["status"] == "optimal" and float(row["gap"]) == 0 for row in rows)
    assert answer.stdout.splitlines()[0].startswith("instance,kind,solver,status,limit,")


@pytest.mark.parametrize("name", ["[bold]x[/bold]", "[/nonsense]", "[link=x]y", "\\[b]", "a:smile:b"])
def test_markup_in_names_is_printed_literally(run: Command, name: str) -> None:
    """A name is data: it is neither styled nor able to break the table."""
    document = allocation(name=name, jobs=[{**ALLOCATION["jobs"][0], "name": f"{name}j"}])
    first, second = put("d.yaml", document), put("e.yaml", ALLOCATION)
    answer = run("solve", first)
    assert answer.returncode == 0
    assert name in answer.stdout
    assert f"{name}j" in answer.stdout
    answer = run("solve", first, second)
    assert f"{name}: " in answer.stdout
    unplaced = put("f.yaml", consolidation({"name": name, "gpu_model": name}))
    assert answer.returncode == 0
    assert f"GPU model '{name}'" in run("solve", unplaced).stdout.replace("\\\\", "\\")


def test_control_characters_never_reach_the_terminal(run: Command) -> None:
    """A key with an escape sequence is shown without it."""
    answer = run("validate", put("d.yaml", allocation(**{"x\x1b[31mred": 1})))
    assert answer.returncode == 3
    assert "\x1b" not in answer.stderr


def test_output_file_holds_the_results_and_replaces_what_was_there(run: Command) -> None:
    """--output writes one JSON object a line, and prints none."""
    name = put("d.yaml", ALLOCATION)
    put("r.json", "old\n")
    answer = run("solve", name, name, "--output", "r.json")
    lines = Path("r.json").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["status"] for line in lines] == ["optimal", "optimal"]
    assert answer.stdout == ""
    assert answer.stderr.count("r.json: a: optimal") == 2
    assert run("verify", name, "r.json").returncode == 0


def test_quiet_and_verbose_change_stderr_only(run: Command) -> None:
    """What is on stdout does not depend on how much is said."""
    name = put("d.yaml", ALLOCATION)
    outs = [run("solve", name, "--format", "json", *flags) for flags in ([], ["-q"], ["-v"], ["-vv"])]
    assert len({json.dumps(answer.objects[0]["plan"]) for answer in outs}) == 1


# Options


def test_an_unknown_solver_is_named_with_a_guess(run: Command) -> None:
    """A misspelt solver exits 2, with the nearest name and all others."""
    answer = run("solve", put("d.yaml", ALLOCATION), "--solver", "milp:higs")
    assert answer.returncode == 2
    assert "did you mean 'milp:highs'?" in answer.stderr
    assert "marginal-gain" in answer.stderr
    answer = run("solve", "d.yaml", "--solver", "best-fit")
    assert answer.returncode == 2
    assert "no solver 'best-fit' for allocation" in answer.stderr


def test_a_method_refuses_what_it_cannot_honour(run: Command) -> None:
    """Options that would be ignored are usage errors that name solver and option."""
    name = put("d.yaml", ALLOCATION)
    heuristic = ["solve", name, "--solver", "marginal-gain"]
    answer = run(*heuristic, "--memory-limit", "1")
    assert answer.returncode == 2
    assert "'marginal-gain' does not support memory limit" in answer.stderr
    answer = run(*heuristic, "--set", "foo=1")
    assert answer.returncode == 2
    assert "no option 'foo'" in answer.stderr
    assert "stop_at_first_misfit" in answer.stderr
    assert run(*heuristic, "--set", "stop_at_first_misfit=5").returncode == 2
    assert run(*heuristic, "--set", "stop_at_first_misfit=true").returncode == 0
    answer = run(
        *heuristic,
        "--set",
        "stop_at_first_misfit=false",
        "--set",
        "stop_at_first_misfit=true",
        "--format=json",
    )
    assert answer.objects[0]["options"]["method_options"] == {"stop_at_first_misfit": True}


@pytest.mark.parametrize(
    "value", ["[", "{", "*x", "!!python/name:os.system", "!!bool abc", "!!timestamp x", "&", "9" * 5000]
)
def test_set_takes_any_text(run: Command, value: str) -> None:
    """A value that is no YAML is text, and no text ends in an internal error."""
    heuristic = ["--solver", "marginal-gain", "--set", f"stop_at_first_misfit={value}"]
    assert run("solve", put("d.yaml", ALLOCATION), *heuristic).returncode == 2


def test_time_limit_0_means_none_and_60_is_the_default(run: Command) -> None:
    """Zero seconds switch the limit off."""
    name = put("d.yaml", ALLOCATION)
    for arguments, expected in (([], 60.0), (["--time-limit", "0"], None), (["--time-limit", "7"], 7.0)):
        answer = run("solve", name, "--format", "json", *arguments)
        assert answer.returncode == 0
        assert answer.objects[0]["options"]["time_limit_s"] == expected


def test_a_configuration_gives_options_and_the_command_line_wins(run: Command) -> None:
    """--config names solver and options; what is given on the command line counts more."""
    name = put("d.yaml", ALLOCATION)
    put(
        "c.yaml",
        {"solver": "marginal-gain", "gap": 0.5, "seed": 3, "method_options": {"stop_at_first_misfit": True}},
    )
    (result,) = run("solve", name, "--config", "c.yaml", "--gap", "0.25", "--format", "json").objects
    assert result["solver"] == "marginal-gain"
    assert (result["options"]["gap"], result["options"]["seed"]) == (0.25, 3)
    assert result["options"]["method_options"] == {"stop_at_first_misfit": True}
    put("c.yaml", {"solver": "marginal-gain"})
    (result,) = run(
        "solve", name, "--config", "c.yaml", "--solver", "brute-force", "--format", "json"
    ).objects
    assert result["solver"] == "brute-force"
    put("c.json", json.dumps({"time_limit_s": 0}))
    (result,) = run("solve", name, "--config", "c.json", "--format", "json").objects
    assert result["options"]["time_limit_s"] is None


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("time_limit: 5\n", "did you mean 'time_limit_s'?"),
        ("bogus: 1\n", "bogus"),
        ("gap: -1\n", "gap"),
        ("gap: .nan\n", "gap"),
        ("time_limit_s: soon\n", "time_limit_s"),
        ("- 1\n", "mapping"),
        ("solver: 5\n", "solver"),
        ("solver: [auto]\n", "solver"),
        ("method_options: 5\n", "method_options"),
        ("method_options: {stop_at_first_misfit: 5}\n", "stop_at_first_misfit"),
        ("warm_start: 5\n", "warm_start"),
    ],
)
@pytest.mark.parametrize("setting", [[], ["--set", "a=1"]])
def test_a_wrong_configuration_exits_2(run: Command, text: str, word: str, setting: list[str]) -> None:
    """Whatever the configuration holds, what is wrong is said in words."""
    put("d.yaml", ALLOCATION)
    put("c.yaml", text)
    answer = run("solve", "d.yaml", "--config", "c.yaml", *setting)
    assert answer.returncode == 2
    assert word in answer.stderr or "'a'" in answer.stderr
    assert answer.stdout == ""


def test_a_configuration_that_cannot_be_read_is_one_line(run: Command) -> None:
    """A missing, empty or broken file is named."""
    put("d.yaml", ALLOCATION)
    put("empty.yaml", "")
    put("broken.yaml", "a: [\n")
    for name in ("nope.yaml", "empty.yaml", "broken.yaml", "."):
        answer = run("solve", "d.yaml", "--config", name)
        assert answer.returncode in (2, 3)
        assert answer.stderr.startswith(f"{name}: ")
        assert len(answer.stderr.splitlines()) == 1


# Other commands


def test_validate_counts_what_is_there(run: Command) -> None:
    """A valid file is summed up on stdout; a bad one is a line on stderr."""
    files = [put(f"{kind}.yaml", document) for kind, document in DOCUMENT.items()]
    answer = run("validate", *files, put("bad.yaml", allocation(foo=1)))
    assert answer.returncode == 3
    assert len(answer.stdout.splitlines()) == len(DOCUMENT)
    assert "2 jobs" in answer.stdout
    assert answer.stderr.startswith("bad.yaml: foo: unknown key; ")
    assert run("validate", *files, "example:optimus-testbed").returncode == 0


@pytest.mark.parametrize("kind", ["allocation", "staging", "consolidation", "catalogue", "result"])
def test_schema_prints_a_json_schema(run: Command, kind: str) -> None:
    """The schema is a single JSON document."""
    answer = run("schema", kind)
    assert answer.returncode == 0
    schema = json.loads(answer.stdout)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False


def test_solvers_are_listed(run: Command) -> None:
    """JSON has one object for each solver, CSV a row, and the table names all of them."""
    rows = run("solvers", "--format", "json").objects
    names = {row["solver"] for row in rows}
    assert {
        "auto",
        "milp:cbc",
        "milp:highs",
        "cp-sat",
        "marginal-gain",
        "greedy",
        "best-fit",
        "brute-force",
    } <= names
    assert all({"kinds", "proves", "available", "what", "options"} <= set(row) for row in rows)
    heuristic = next(row for row in rows if row["solver"] == "marginal-gain")
    assert set(heuristic["options"]) == {"stop_at_first_misfit"}
    assert not heuristic["proves"]
    listed = csv.reader(io.StringIO(run("solvers", "--format", "csv").stdout))
    assert {row[0] for row in listed} == {"solver", *names}
    table = run("solvers").stdout
    assert all(name in table for name in names)


def test_a_solver_is_listed_with_its_options(run: Command) -> None:
    """Each with its default, what may be given, and in which unit."""
    said = " ".join(run("solvers", "las").stdout.split())
    assert "GPU-seconds that rise," in said
    assert "queues" in said
    assert "best-fit or consolidate or exact" in said
    assert "there are no options of its own" in run("solvers", "best-fit").stdout
    assert [row["solver"] for row in run("solvers", "las", "--format", "json").objects] == ["las"]
    wrong = run("solvers", "lsa")
    assert wrong.returncode == 2
    assert "no solver 'lsa'; did you mean 'las'" in wrong.stderr


GENERATE = {
    "allocation": ["--jobs", "3", "--resources", "2", "--optional-share", "0.5"],
    "staging": ["--layers", "4", "--types", "2", "--limits", "tight", "--memory", "--transfers"],
    "consolidation": ["--servers", "3", "--jobs", "5", "--load", "1.5"],
}


@pytest.mark.parametrize("kind", GENERATE)
def test_generate_is_reproducible(run: Command, kind: str) -> None:
    """The same seed gives the same valid document, another seed another one."""
    first, second = (run("generate", kind, *GENERATE[kind], "--seed", "7") for _ in range(2))
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout == second.stdout
    assert run("generate", kind, *GENERATE[kind], "--seed", "8").stdout != first.stdout
    assert run("validate", put("g.yaml", first.stdout)).returncode == 0
    saved = run("generate", kind, *GENERATE[kind], "--seed", "7", "--output", "h.json")
    assert (saved.returncode, saved.stdout) == (0, "")
    assert "assumed: " in saved.stderr
    assert clusterplan.load("h.json").sha256() == clusterplan.load("g.yaml").sha256()


def optimum_of_file(path: str) -> float:
    """Return the optimum that HiGHS finds in a model file, in the sense that the file gives it."""
    import highspy

    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    assert solver.readModel(path) == highspy.HighsStatus.kOk
    solver.run()
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return float(solver.getInfo().objective_function_value)


@pytest.mark.parametrize("form", ["mps", "lp"])
@pytest.mark.parametrize("kind", ["allocation", "staging"])
def test_an_exported_model_has_the_optimum_of_the_instance(run: Command, kind: str, form: str) -> None:
    """Another solver that reads the file finds what `solve` finds."""
    name = put("d.yaml", DOCUMENT[kind])
    answer = run("export-model", name, "--format", form)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert run("export-model", name, "--format", form, "--output", f"m.{form}").stdout == ""
    assert Path(f"m.{form}").read_text(encoding="utf-8") == answer.stdout
    best = clusterplan.solve(clusterplan.load(name)).objective
    assert optimum_of_file(f"m.{form}") == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("form", ["mps", "lp"])
def test_an_exported_maximum_is_not_read_as_a_minimum(run: Command, form: str) -> None:
    """Solvers skip a comment that says `Maximize`; the file has to say it in a way that they read."""
    run("export-model", put("d.yaml", CONSOLIDATION), "--format", form, "--output", f"m.{form}")
    assert abs(optimum_of_file(f"m.{form}")) == pytest.approx(4)


@pytest.mark.parametrize("form", ["mps", "lp"])
def test_exported_models_survive_any_name(run: Command, form: str) -> None:
    """Names with spaces, brackets and letters beyond ASCII make files that solvers read."""
    document = allocation(name="my plän [x] = 1 ≤ 2", resources={"c p u": 10, "gpü": 4})
    job = json.loads(json.dumps(ALLOCATION["jobs"][1]).replace('"gpu"', '"gpü"'))
    document["jobs"] = [{**job, "name": "jöb – α"}, {**job, "name": "x y\\z"}]
    answer = run("export-model", put("d.yaml", document), "--format", form, "--output", f"m.{form}")
    assert answer.returncode == 0
    assert Path(f"m.{form}").read_text(encoding="utf-8").isascii()
    assert optimum_of_file(f"m.{form}") == pytest.approx(80)


@pytest.mark.parametrize("form", ["mps", "lp"])
def test_exported_models_keep_every_digit(run: Command, form: str) -> None:
    """Two demands of 15 decimals that fill a capacity exactly still fit in the file that is written."""
    variant = ALLOCATION["jobs"][1]["variants"][0]
    speed = {"model": "table", "rows": [{"workers": 1, "steps_per_s": 2}]}
    document = allocation(resources={"cpu": 1.029541231769497})
    document["jobs"] = [
        {
            "name": f"job-{amount}",
            "remaining_steps": 100,
            "variants": [{**variant, "worker_demand": {"cpu": amount}, "speed": speed}],
        }
        for amount in (0.562235846240962, 0.467305385528535)
    ]
    run("export-model", put("d.yaml", document), "--format", form, "--output", f"m.{form}")
    assert clusterplan.solve(clusterplan.load("d.yaml"), "brute-force").objective == 100
    assert optimum_of_file(f"m.{form}") == pytest.approx(100)


def test_an_exported_model_can_have_each_objective(run: Command) -> None:
    """--objective counts from 1; a number that there is not is refused with how many there are."""
    name = put("d.yaml", CONSOLIDATION)
    texts = {run("export-model", name, "--objective", n, "--format", "lp").stdout for n in (1, 2, 3)}
    assert len(texts) == 3
    answer = run("export-model", name, "--objective", "4")
    assert answer.returncode == 2
    assert "3" in answer.stderr


# verify


@pytest.fixture
def solved(run: Command) -> dict[str, dict[str, Any]]:
    """Return a result of each kind, with its instance in KIND.yaml."""
    return {
        kind: run("solve", put(f"{kind}.yaml", document), "--format", "json").objects[0]
        for kind, document in DOCUMENT.items()
    }


def checked(run: Command, kind: str, result: Any) -> Done:
    """Run verify on a result that is written to a file first."""
    put("r.json", result if isinstance(result, str) else json.dumps(result))
    return run("verify", f"{kind}.yaml", "r.json")


def test_untouched_results_are_verified(run: Command, solved: dict[str, dict[str, Any]]) -> None:
    """What solve printed passes, also several in one file and indented by hand."""
    for kind, result in solved.items():
        answer = checked(run, kind, result)
        assert answer.returncode == 0
        assert ": verified" in answer.stdout
        assert "confirmed: every constraint holds" in answer.stdout
        assert checked(run, kind, json.dumps(result, indent=2) + json.dumps(result)).returncode == 0
        (data,) = run("verify", f"{kind}.yaml", "r.json", "--format", "json").objects[:1]
        assert data["ok"] is True


ALTERED: list[tuple[str, tuple[Any, ...], Any, str]] = [
    ("allocation", (0, "workers"), 0, "range of workers"),
    ("allocation", (0, "workers"), -1, "plan[0].workers: is -1"),
    ("allocation", (0, "workers"), "2", "plan[0].workers: is '2', which is not a whole number"),
    ("allocation", (0, "workers"), 2.5, "plan[0].workers: is 2.5, which is not a whole number"),
    ("allocation", (0, "workers"), True, "plan[0].workers: is True, which is not a whole number"),
    ("allocation", (0, "workers"), None, "plan[0].workers: is None"),
    ("allocation", (0, "workers"), 99, "range of workers"),
    ("allocation", (0, "workers"), 10**30, "plan[0].workers: is 1000"),
    ("allocation", (0, "workers"), 3, "capacity of gpu"),
    ("allocation", (0, "ps"), 0, "range of ps"),
    ("allocation", (0, "ps"), 1, "its entry says"),
    ("allocation", (1, "workers"), 1, "its entry says"),
    ("allocation", (0, "completion_s"), 1.0, "its entry says 1 s"),
    ("allocation", (1, "workers"), 7, "configuration: "),
    ("allocation", (0, "variant"), "t", "variant: "),
    ("allocation", (0, "job"), "zz", "'zz' is not in the instance"),
    ("allocation", (0, "job"), "k", "listed twice"),
    ("allocation", (0, "placed"), False, "not optional"),
    ("allocation", (0, "extra"), 1, "plan[0].extra: unknown key"),
    ("allocation", (0,), 5, "plan[0]: is 5"),
    ("staging", (0, "units"), 0, "plan[0].units: is 0"),
    ("staging", (0, "units"), -1, "plan[0].units: is -1"),
    ("staging", (0, "units"), "1", "plan[0].units: is '1', which is not a whole number"),
    ("staging", (0, "units"), 99, "limit of "),
    ("staging", (1, "units"), 2, "value is stored as"),
    ("staging", (0, "units"), 1, "throughput floor"),
    ("staging", (0, "type"), "B", "maximal runs"),
    ("staging", (0, "type"), "Z", "there is no type 'Z'"),
    ("staging", (0, "last_layer"), 1, "layers: stage 1"),
    ("staging", (1, "last_layer"), 7, "layers: the plan covers 8 layers of 2"),
    ("staging", (0, "first_layer"), 1, "should begin at layer 0"),
    ("consolidation", (0, "servers"), {"n-0": 0}, "plan[0].servers.n-0: is 0"),
    ("consolidation", (0, "servers"), {"n-0": -2}, "plan[0].servers.n-0: is -2"),
    (
        "consolidation",
        (0, "servers"),
        {"n-0": "2"},
        "plan[0].servers.n-0: is '2', which is not a whole number",
    ),
    ("consolidation", (0, "servers"), {"n-0": 9}, "all or nothing: job 'j' has 9 of 2"),
    ("consolidation", (0, "servers"), {"n-0": 1, "n-1": 1}, "(servers).value is stored as 1"),
    ("consolidation", (0, "servers"), {"n-9": 2}, "there is no server 'n-9'"),
    ("consolidation", (0, "servers"), {}, "all or nothing: job 'j' has 0 of 2"),
    ("consolidation", (1, "groups"), {"w": {"n-0": 1}}, "all or nothing: job 'p' has 1 of 2 w"),
    ("consolidation", (1, "groups"), None, "groups: job 'p' must list groups"),
]


@pytest.mark.parametrize(("kind", "where", "value", "word"), ALTERED)
def test_an_altered_plan_exits_7_and_names_what_is_wrong(
    run: Command, solved: dict[str, dict[str, Any]], kind: str, where: tuple[Any, ...], value: Any, word: str
) -> None:
    """A changed task, server or unit count breaks a named constraint or disagrees with a named figure."""
    result = solved[kind]
    here = result["plan"]
    for step in where[:-1]:
        here = here[step]
    here[where[-1]] = value
    answer = checked(run, kind, result)
    assert answer.returncode == 7
    assert "VERIFICATION FAILED" in answer.stdout
    assert word in answer.stdout, answer.stdout


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("objective", 1, "objective is stored as 1"),
        ("bound", 1, "bound is stored as 1"),
        ("bound", None, "bound is stored as unknown"),
        ("gap", 0.5, "gap is stored as 0.5"),
        ("certified_bound", 1, "certified_bound is stored as 1"),
        ("objective", "NaN", "objective"),
        ("status", "feasible", "status is stored as feasible"),
        ("status", "infeasible", "status is stored as infeasible"),
        ("status", "perfect", "status: is 'perfect'"),
        ("instance", "b", "instance is stored as 'b'"),
        ("instance_sha256", "0" * 64, "instance_sha256 does not agree"),
        ("instance_sha256", 5, "instance_sha256: is 5"),
        ("plan_sha256", None, "plan_sha256"),
        ("plan", [], "is missing"),
        ("plan", None, "without a plan"),
        ("plan", {}, "plan: is not a list"),
        ("plan", "x", "plan: is not a list"),
        ("objectives", [], "objectives has 0 records"),
        ("runtime_s", -1, "runtime_s: is -1"),
        ("zzz", 1, "zzz: unknown key"),
        ("kind", "staging", "kind"),
    ],
)
def test_an_altered_figure_exits_7_and_is_named(
    run: Command, solved: dict[str, dict[str, Any]], field: str, value: Any, word: str
) -> None:
    """No stored figure can be changed without being noticed."""
    answer = checked(run, "allocation", {**solved["allocation"], field: value})
    assert answer.returncode == 7
    assert word in answer.stdout, answer.stdout


@pytest.mark.parametrize("field", ["prices", "certificate"])
def test_what_is_not_checked_is_not_passed_over_in_silence(
    run: Command, solved: dict[str, dict[str, Any]], field: str
) -> None:
    """A certificate that proves nothing is refused; prices that it does not give are only claimed."""
    answer = checked(run, "allocation", {**solved["allocation"], field: {"cpu": 12345.0}})
    assert answer.returncode == (8 if field == "prices" else 7)
    assert f"ONLY CLAIMED: the {field}" in answer.stdout or f"wrong: {field}" in answer.stdout


def test_results_of_another_instance_are_refused(run: Command, solved: dict[str, dict[str, Any]]) -> None:
    """A result belongs to the instance that was solved, with every figure of it."""
    other = put("other.yaml", allocation(resources={"cpu": 11, "gpu": 4}))
    put("r.json", json.dumps(solved["allocation"]))
    answer = run("verify", other, "r.json")
    assert answer.returncode == 7
    assert "instance_sha256 does not agree" in answer.stdout
    answer = run("verify", "staging.yaml", "r.json")
    assert answer.returncode == 7
    assert "kind allocation" in answer.stdout


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "5",
        "hello",
        "NaN",
        '{"a": 1}',
        "[" * 100_000,
        '{"kind": ["a"], "instance_sha256": "x"}',
        '{"kind": {}, "instance_sha256": "x"}',
        '{"kind": "zz", "instance_sha256": "x"}',
        "9" * 5000,
    ],
)
def test_a_file_that_holds_no_result_exits_3(run: Command, text: str) -> None:
    """Anything that is no result is refused in one line that names the file."""
    put("allocation.yaml", ALLOCATION)
    answer = checked(run, "allocation", text)
    assert (answer.returncode, answer.stdout) == (3, "")
    assert answer.stderr.startswith("r.json: ")
    assert len(answer.stderr.splitlines()) == 1


def test_verify_names_files_that_cannot_be_read(run: Command) -> None:
    """A missing result, a folder and a bad instance exit 3."""
    put("d.yaml", ALLOCATION)
    put("bad.yaml", allocation(foo=1))
    for arguments in (
        ["d.yaml", "nope.json"],
        ["d.yaml", "."],
        ["bad.yaml", "d.yaml"],
        ["nope.yaml", "d.yaml"],
    ):
        assert run("verify", *arguments).returncode == 3


def test_an_infeasible_result_is_confirmed(run: Command) -> None:
    """That no plan exists is derived again where counting shows it; it cannot be called solved."""
    name = put("d.yaml", allocation(resources={"cpu": 10, "gpu": 1}))
    (result,) = run("solve", name, "--format", "json").objects
    put("r.json", json.dumps(result))
    answer = run("verify", name, "r.json")
    assert answer.returncode == 0
    assert "confirmed: infeasible: gpu" in answer.stdout
    for status in ("optimal", "feasible"):
        put("r.json", json.dumps({**result, "status": status}))
        assert run("verify", name, "r.json").returncode == 7


# Start-up


def test_help_imports_no_solver() -> None:
    """`clusterplan --help` starts without a solver or numerical library."""
    code = """
import sys
from clusterplan.planner.cli.main import main
sys.argv = ["clusterplan", "--help"]
try:
    main()
except SystemExit as stop:
    assert not stop.code
heavy = {"pulp", "ortools", "highspy", "cvxpy", "numpy", "pandas", "scipy", "pyscipopt", "yaml"}
print("imported:", sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Usage: clusterplan" in done.stdout
    assert done.stdout.rstrip().endswith("imported: []"), done.stdout


def test_the_process_ends_with_the_code_of_the_command_after_all_other_exit_handlers() -> None:
    """And nothing that was printed is lost."""
    code = """
import atexit, sys
from clusterplan.planner.cli import main as cli

def command():
    atexit.register(print, "handled", end="")
    print("done")
    sys.exit(4)

cli.main = command
cli.program()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (4, "done\nhandled", "")


def test_the_module_runs_like_the_command_and_a_closed_pipe_is_quiet() -> None:
    """`python -m clusterplan` works, and a reader that has seen enough causes no noise."""
    with subprocess.Popen(
        [sys.executable, "-m", "clusterplan", "schema", "allocation"], stdout=-1, stderr=-1, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "{\n"
        process.stdout.close()
        assert process.stderr.read() == ""


def test_an_encoding_without_dashes_is_no_error(tmp_path: Path) -> None:
    """A name beyond the encoding of stdout is shown with substitutes instead of an internal error."""
    path = tmp_path / "d.yaml"
    path.write_text(yaml.safe_dump(allocation(name="plän", jobs=ALLOCATION["jobs"][1:])), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "clusterplan", "solve", str(path)],
        capture_output=True,
        check=False,
        env={"PYTHONIOENCODING": "ascii", "PATH": ""},
    )
    assert b"internal error" not in done.stderr
    assert done.returncode == 0
