"""The command line: exit codes, what stands on stdout, and that no input ends in a traceback.

Wrong inputs that are not in `recorded/given/refusals.json`: an exit code, and a message that helps.
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from allocation_instances import measured
from command_line import Command, Done, run_here
from sample_documents import ALLOCATION, CONSOLIDATION, DOCUMENT, INTERNAL, SCHEDULING, STAGING, put

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


def test_a_file_is_named_once_in_a_fault(run: Command) -> None:
    """The name of the file is the start of the line and not repeated."""
    for command in ("solve", "validate", "export-model"):
        answer = run(command, put("bad.yaml", allocation(foo=1)))
        assert answer.returncode == 3
        assert answer.stderr.count("bad.yaml") == 1


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


def test_of_settings_the_last_counts(run: Command) -> None:
    """Each is a pair, and may be given again."""
    settings = [word for value in ("false", "true") for word in ("--set", f"stop_at_first_misfit={value}")]
    answer = run("solve", put("d.yaml", ALLOCATION), "--solver", "marginal-gain", *settings, "--format=json")
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


# Other commands


@pytest.mark.parametrize("kind", ["allocation", "staging", "consolidation", "catalogue", "result"])
def test_schema_prints_a_json_schema(run: Command, kind: str) -> None:
    """The schema is a single JSON document."""
    answer = run("schema", kind)
    assert answer.returncode == 0
    schema = json.loads(answer.stdout)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False


def test_a_solver_is_listed_with_its_options(run: Command) -> None:
    """Each with its default, what may be given, and in which unit."""
    said = " ".join(run("solvers", "las").stdout.split())
    assert "GPU-seconds that rise," in said
    assert "queues" in said
    assert "best-fit or consolidate or exact" in said
    assert "there are no options of its own" in run("solvers", "best-fit").stdout
    assert [row["solver"] for row in run("solvers", "las", "--format", "json").objects] == ["las"]


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
    amounts = (0.562235846240962, 0.467305385528535)
    jobs = [measured(f"job-{amount}", (50, {"cpu": amount})) for amount in amounts]
    document = allocation(resources={"cpu": 1.029541231769497}, jobs=jobs)
    run("export-model", put("d.yaml", document), "--format", form, "--output", f"m.{form}")
    assert clusterplan.solve(clusterplan.load("d.yaml"), "brute-force").objective == 100
    assert optimum_of_file(f"m.{form}") == pytest.approx(100)


# verify


def checked(run: Command, kind: str, result: Any) -> Done:
    """Run verify on a result that is written to a file first."""
    put("r.json", result if isinstance(result, str) else json.dumps(result))
    return run("verify", f"{kind}.yaml", "r.json")


def test_untouched_results_are_verified(run: Command) -> None:
    """What solve printed passes, also several in one file and indented by hand."""
    for kind, document in DOCUMENT.items():
        (result,) = run("solve", put(f"{kind}.yaml", document), "--format", "json").objects
        answer = checked(run, kind, result)
        assert answer.returncode == 0
        assert ": verified" in answer.stdout
        assert "confirmed: every constraint holds" in answer.stdout
        assert checked(run, kind, json.dumps(result, indent=2) + json.dumps(result)).returncode == 0
        (data,) = run("verify", f"{kind}.yaml", "r.json", "--format", "json").objects[:1]
        assert data["ok"] is True


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


# Start-up


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
        assert process.stdout.readline() == "{\n"
        process.stdout.close()
        assert process.stderr.read() == ""


def test_an_encoding_without_dashes_is_no_error(tmp_path: Path) -> None:
    """A name beyond the encoding of stdout is shown with substitutes instead of an internal error."""
    path = put(tmp_path / "d.yaml", allocation(name="plän", jobs=ALLOCATION["jobs"][1:]))
    done = subprocess.run(
        [sys.executable, "-m", "clusterplan", "solve", str(path)],
        capture_output=True,
        check=False,
        env={"PYTHONIOENCODING": "ascii", "PATH": ""},
    )
    assert b"internal error" not in done.stderr
    assert done.returncode == 0


POD = {"containers": [{"resources": {"requests": {"nvidia.com/gpu": "1"}}}]}
STATUS = {"allocatable": {"cpu": "8", "nvidia.com/gpu": "4"}}
JOB = SCHEDULING["jobs"][0]
DOCUMENTS = {
    "allocation.yaml": ALLOCATION,
    "staging.yaml": STAGING,
    "consolidation.yaml": CONSOLIDATION,
    "wrong-kind.yaml": {**ALLOCATION, "kind": "placement"},
    "unknown-key.yaml": {**ALLOCATION, "resource": {}},
    "negative.yaml": {**ALLOCATION, "resources": {"gpu": -4, "cpu": 10}},
    "text-number.yaml": {**ALLOCATION, "resources": {"gpu": "four", "cpu": 10}},
    "two-names.yaml": {**ALLOCATION, "jobs": [ALLOCATION["jobs"][1]] * 2},
    "of-parquet.yaml": {**ALLOCATION, "jobs": "false.parquet"},
    "nan.yaml": {**SCHEDULING, "jobs": [{**JOB, "duration_s": float("nan")}]},
    "nodes.json": [1, 2],
    "k-nodes.json": {
        "kind": "List",
        "items": [{"kind": "Node", "metadata": {"name": "n"}, "status": STATUS}],
    },
    "k-pods.json": {"kind": "List", "items": [{"kind": "Pod", "metadata": {"name": "p"}, "spec": POD}]},
}
TEXTS = {
    "broken.yaml": "kind: [allocation\n",
    "broken.json": '{"kind": "allocation",}',
    "false.parquet": "no table\n",
    "pages.csv": "a,b\n1,2\n",
    "notes.txt": "nothing\n",
}
USES: dict[str, tuple[str, ...]] = {
    "": ("Usage:", "solve"),
    "slove allocation.yaml": ("slove", "solve"),
    "solve": ("Missing argument",),
    "solve allocation.yaml --tim-limit 3": ("--tim-limit", "--time-limit"),
    "solve allocation.yaml --bogus": ("No such option", "--bogus"),
    "solve allocation.yaml --time-limit soon": ("'soon'", "--time-limit", "valid"),
    "solve allocation.yaml --gap -1": ("gap", "-1", "0"),
    "solve allocation.yaml --memory-limit 0": ("memory_limit", "0", "greater than 0"),
    "solve allocation.yaml --jobs 0": ("jobs", "0", "1"),
    "solve consolidation.yaml --drain nosuch*": ("--drain 'nosuch*'", "no server and no rack", "n-0"),
    "solve consolidation.yaml --stop nosuch*": ("--stop 'nosuch*'", "matches no job", "there are: "),
    "solve consolidation.yaml --stop never --stop x": ("--stop never stands alone",),
    "solve consolidation.yaml --max-moves -1": ("--max-moves", "-1", "0"),
    "solve consolidation.yaml --restart-cost much": ("--restart-cost", "much", "valid"),
    "solve allocation.yaml --config .": (".: is a folder",),
    "solve allocation.yaml --config broken.yaml": ("broken.yaml: line 2",),
    "solve - --jobs 2 --output night": ("-: other processes cannot read standard input",),
    "what-if consolidation.yaml": ("Missing argument", "KEY=VALUE"),
    "what-if consolidation.yaml drain=no": ("scenario 'drain=no'", "no server or rack", "n-0, n-1"),
    "what-if consolidation.yaml add=n --apply 3": ("--apply '3' writes a plan", "--output PLAN.json"),
    "export-model allocation.yaml --objective 0": ("--objective", "0", "1"),
    "generate": ("Usage:", "allocation"),
    "generate allocation": ("Missing option", "--jobs"),
    "generate allocation --jobs 0": ("--jobs", "0", "1"),
    "generate allocation --jobs 2 --seed -1": ("seed", "-1", "0"),
    "generate allocation --jobs 2 --tightness nan": ("tightness",),
    "generate staging --layers 2 --types 2 --seed -1": ("seed", "-1", "0"),
    "generate consolidation --servers 2 --jobs 2 --seed -1": ("seed", "-1", "0"),
    "generate consolidation --servers 2 --jobs 2 --must-place-share 2": ("'2'", "--must-place-share", "1"),
    "generate scheduling --jobs -3": ("--jobs", "-3", "1"),
    "import gavel": ("Missing option", "--throughputs"),
    "import gavel nowhere.json --jobs 3": ("No such option", "--jobs"),
    "import kubernetes nodes.json pods.json --running go": ("go", "move", "stay"),
    "import pipedream notes.txt --types v100": ("v100", "NAME=NUMBER"),
    "import sailor nowhere --gpus a=1": ("--gpus", "--types"),
    "import trace trace.csv --gpus 0": ("--gpus", "'0'", "1"),
    "predict gpt2 --hardware h100 --batch 0": ("--batch", "'0'", "1"),
}
"""Command → words of its message."""
FILES: dict[str, tuple[str, ...]] = {
    "validate /dev/null": ("/dev/null", "device", "file"),
    "validate broken.yaml": ("broken.yaml", "line 2", "YAML"),
    "validate broken.json": ("broken.json", "line 1", "JSON"),
    "validate wrong-kind.yaml": ("placement", "allocation, staging, consolidation"),
    "validate unknown-key.yaml": ("resource:", "did you mean 'resources'", "jobs"),
    "validate negative.yaml": ("resources.gpu", "-4", "at least 0"),
    "validate text-number.yaml": ("resources.gpu", "'four'", "plain number"),
    "validate two-names.yaml": ("jobs[1].name", "'k'", "unique"),
    "validate of-parquet.yaml": ("false.parquet", "Parquet"),
    "validate nan.yaml": ("duration_s", "'NaN'", "plain number"),
    "verify allocation.yaml .": (".: is a folder",),
    "verify nowhere.yaml allocation.yaml": ("allocation.yaml: is not a result",),
    "import slurm nowhere.json pods.json": ("nowhere.json", "no such file"),
    "import kubernetes k-nodes.json k-nodes.json": ("k-nodes.json", "no pods are listed"),
    "import kubernetes k-nodes.json k-pods.json --volumes k-pods.json": ("Pod", "kubectl get pv,pvc"),
    "import tiresias --jobs pages.csv --cluster pages.csv": ("pages.csv", "job_id", "needed"),
    "import dnn-partitioning nodes.json --types cpu=1": ("nodes.json", "nodes", "edges"),
    "import openb pages.csv pages.csv": ("pages.csv", "no column", "needed"),
}
TYPED: dict[str, tuple[str, str]] = {
    "validate -": ("[1, 2]", "-: is not a mapping; an instance starts with 'schema_version: 1'"),
    "solve -": ('{"kind": ', "-: line 1, column 10: is not valid JSON"),
    "export-model -": ("", "-: standard input is empty"),
    "validate - -": (json.dumps(ALLOCATION), "was read already; - may stand once"),
    "verify allocation.yaml -": ("{}", "-: is not a result; give what 'clusterplan solve --format json'"),
    "fit speed -": ("workers\n1\n", "-: line 1: has no column steps_per_s"),
}
"""Command → what is on standard input, and what is said about it."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with good documents and many wrong files."""
    made = tmp_path_factory.mktemp("wrong")
    for name, text in (TEXTS | {name: json.dumps(one) for name, one in DOCUMENTS.items()}).items():
        (made / name).write_text(text)
    return made


CASES = [
    *((command, 2, words, "") for command, words in USES.items()),
    *((command, 3, words, "") for command, words in FILES.items()),
    *((command, 3, (said,), typed) for command, (typed, said) in TYPED.items()),
]


@pytest.mark.parametrize(("command", "code", "words", "typed"), CASES, ids=[case[0] for case in CASES])
def test_a_wrong_input_is_answered(
    command: str, code: int, words: tuple[str, ...], typed: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an exit code and a message that helps, not by a traceback, and before anything is solved."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed.encode())))
    done = run_here(*command.split(), cwd=folder)
    message = " ".join(f"{done.stdout} {done.stderr}".replace("│", " ").split())
    assert done.returncode == code, done
    assert [word for word in words if word not in message] == [], message
    assert not any(word in message for word in INTERNAL), message
    if code == 2 and "Usage:" not in words:
        assert done.stdout == ""
