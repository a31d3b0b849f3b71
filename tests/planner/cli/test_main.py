"""The command: its verbs, options, schema and progress; standard input, pipes and --output."""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
import yaml
from command_line import Done, invoke, run_here
from sample_documents import ALLOCATION, CONSOLIDATION, STAGING, put
from typer.testing import CliRunner

from clusterplan.formulations.common.compiled import _notified_compilation
from clusterplan.formulations.common.objective import Objective
from clusterplan.instances.common.errors import OptionError
from clusterplan.planner.cli import main, progress
from clusterplan.planner.cli.instances.generate import schema_of
from clusterplan.planner.cli.main import COMMANDS, Verbs, app
from clusterplan.planner.cli.options import pairs, taking
from clusterplan.planner.cli.progress import working
from clusterplan.planner.cli.solvers import Finding, doctor, solvers
from clusterplan.planner.cli.solving import RunOptions, write_text
from clusterplan.planner.registry import KINDS
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.common.search_control import report_progress
from clusterplan.solvers.registry import all_solvers


@pytest.mark.parametrize("name", COMMANDS)
def test_the_first_line_of_help_is_that_of_the_command(name: str) -> None:
    assert str(Verbs().commands[name].help).splitlines()[0] == COMMANDS[name].line


@pytest.fixture
def no_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where a command is loaded."""

    def never(name: str, package: str) -> None:
        raise AssertionError(name, package)

    monkeypatch.setattr("clusterplan.planner.cli.main.import_module", never)


@pytest.mark.usefixtures("no_verb")
def test_help_lists_every_command_without_loading_it() -> None:
    answer = CliRunner().invoke(app, ["--help"])
    assert answer.exit_code == 0
    assert all(f"  {name} " in answer.output for name in COMMANDS)


def test_long_lines_are_cut_between_words() -> None:
    shown = " ".join(CliRunner().invoke(app, ["--help"], terminal_width=60).stdout.split())
    for name, command in COMMANDS.items():
        line = shown.split(f" {name} ", 1)[1]
        words = command.line.split()
        cut = next((n for n in range(1, len(words)) if line.startswith(" ".join(words[:n]) + "...")), None)
        assert cut is not None or line.startswith(command.line), name
    assert "..." in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_name_options_that_are_there(name: str) -> None:
    for line in COMMANDS[name].examples:
        program, verb, *words = shlex.split(line)
        assert (program, verb) == ("clusterplan", name)
        command = Verbs().commands[name]
        if hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        known = {option for each in command.params for option in each.opts}
        assert [word for word in words if word.startswith("-") and word not in known] == []
        assert line in str(Verbs().commands[name].epilog)


@pytest.mark.usefixtures("no_verb")
def test_a_shell_completes_commands_without_loading_them() -> None:
    words = {"_CLUSTERPLAN_COMPLETE": "complete_bash", "COMP_WORDS": "clusterplan so", "COMP_CWORD": "1"}
    answer = CliRunner().invoke(app, env=words, prog_name="clusterplan")
    assert answer.output.split() == ["solve", "solvers"]


def test_a_shell_completes_the_options_of_a_command() -> None:
    words = {
        "_CLUSTERPLAN_COMPLETE": "complete_bash",
        "COMP_WORDS": "clusterplan solve --wh",
        "COMP_CWORD": "2",
    }
    answer = CliRunner().invoke(app, env=words, prog_name="clusterplan")
    assert answer.output.split() == ["--what-if"]


def test_ctrl_c_in_a_command_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Typer would end without a word."""

    def pressed() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "load", lambda name: pressed)
    monkeypatch.setattr(sys, "argv", ["clusterplan", "doctor"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == main.WAS_INTERRUPTED + "\n"


def test_a_frontier_is_one_of_those_of_the_kinds() -> None:
    able = [kind.frontier.model.__name__ for kind in KINDS.values() if kind.frontier is not None]
    assert sorted(schema_of("frontier")["$defs"].keys() & set(able)) == sorted(able)


@pytest.mark.parametrize(
    ("finding", "code", "word"),
    [
        (Finding("a", True, "1.0"), 0, "fine"),
        (Finding("a", False, "missing"), 1, "WRONG"),
        (Finding("a", False, "missing", needed=False), 0, "WRONG"),
    ],
)
def test_doctor_fails_for_what_is_needed(
    monkeypatch: pytest.MonkeyPatch, finding: Finding, code: int, word: str
) -> None:
    monkeypatch.setattr("clusterplan.planner.cli.solvers.examine", lambda: [finding])
    answer = invoke(doctor)
    assert answer.exit_code == code
    assert word in answer.stdout


def test_solvers_are_listed_in_every_format() -> None:
    names = [solver.name for solver in all_solvers()]
    listed = [json.loads(line) for line in invoke(solvers, "--format", "json").stdout.splitlines()]
    assert [row["solver"] for row in listed] == names
    assert all({"kinds", "proves", "available", "what", "options"} <= set(row) for row in listed)
    lines = invoke(solvers, "--format", "csv").stdout.splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == names
    assert all(name in invoke(solvers).stdout for name in names)


COST = Objective("cost", "min", "USD")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, **options: Any) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    with working("[b]name[/b]: auto", SolveOptions(**options), False):
        report_progress(COST, None, 2.0)
        report_progress(COST, 4.0, 3.0)
    return stream.getvalue()


def test_a_terminal_shows_name_elapsed_time_and_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, Terminal(), time_limit_s=7)
    for part in ("[b]name[/b]: auto", "0:00:00", "of at most 7 s; Ctrl-C: the best plan so far"):
        assert part in text


def test_a_terminal_shows_the_best_plan_and_its_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "cost 4, gap 25.00 %" in shown(monkeypatch, Terminal(), time_limit_s=7)


def test_a_solve_without_a_limit_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, Terminal())
    assert "Ctrl-C" in text
    assert "at most" not in text


def test_elsewhere_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, io.StringIO()) == ""


def test_compiling_is_told_where_it_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is kept on disk is loaded in no time, and nobody need know."""
    times = iter([0.0, 0.2, 0.0, 0.2, 1.0, 7.5])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(times))
    for compiled, lines in ((1, []), (2, [f"{progress.COMPILING}: 6.7 s"])):
        with working("name", SolveOptions(), quiet=False):
            for _ in range(compiled):
                with _notified_compilation():
                    pass
        assert capsys.readouterr().err.splitlines() == lines


@dataclass(frozen=True, kw_only=True)
class Given:
    """A few options."""

    name: Annotated[str, typer.Argument()]
    count: Annotated[int, typer.Option("--many", help="How many.", min=1)] = 2
    loud: Annotated[bool, typer.Option("--loud")] = False


@dataclass(frozen=True, kw_only=True)
class Fewer(Given):
    """One of them with another default, in the same place."""

    count: Annotated[int, typer.Option("--few")] = 1


@taking(Given)
def greet(given: Given) -> None:
    """Greet."""
    typer.echo(repr(given))


@taking(Fewer, leave_out=("loud",))
def whisper(given: Fewer) -> None:
    """Whisper."""
    typer.echo(repr(given))


def test_a_command_takes_one_object_of_all_its_options() -> None:
    assert invoke(greet, "Ann").output == f"{Given(name='Ann')!r}\n"
    assert (
        invoke(greet, "--many", 3, "--loud", "Ann").output == f"{Given(name='Ann', count=3, loud=True)!r}\n"
    )
    assert invoke(greet, "Ann", "--many", 0).exit_code == 2
    assert invoke(greet).exit_code == 2


def test_a_command_may_change_options_and_leave_some_out() -> None:
    assert invoke(whisper, "Ann", "--few", 5).output == f"{Fewer(name='Ann', count=5)!r}\n"
    assert invoke(whisper, "Ann", "--many", 5).exit_code == 2
    assert invoke(whisper, "Ann", "--loud").exit_code == 2


def test_help_lists_options_in_the_order_of_the_fields() -> None:
    text = invoke(greet, "--help").output
    places = [text.index(word) for word in ("Greet.", "Arguments:", "--many", "--loud")]
    assert places == sorted(places)
    assert "How many." in text


def test_run_options_need_files_alone() -> None:
    assert RunOptions(files=["a"]).jobs is None
    with pytest.raises(TypeError):
        RunOptions()  # type: ignore[call-arg]


def test_text_is_written_or_appended_or_refused(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "1\n")
    write_text(tmp_path / "a", "2\n", append=True)
    assert (tmp_path / "a").read_text() == "1\n2\n"
    write_text(tmp_path / "a", "3\n")
    assert (tmp_path / "a").read_text() == "3\n"
    with pytest.raises(OptionError, match="cannot be written"):
        write_text(tmp_path / "none" / "a", "")


def test_pairs() -> None:
    """Names are different, and each has a number."""
    assert pairs("a=1, b=2", "--limit", int) == {"a": 1, "b": 2}
    for text, words in (("a", "write NAME=NUMBER"), ("a=x", "write NAME"), ("a=1,a=2", "a stands twice")):
        with pytest.raises(OptionError, match=f"--limit .*{words}"):
            pairs(text, "--limit", int)


Run = Callable[..., Done]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an instance of each kind and a result of one."""
    made = tmp_path_factory.mktemp("pipes")
    for name, document in (("a", ALLOCATION), ("s", STAGING), ("c", CONSOLIDATION)):
        put(made / f"{name}.yaml", document)
    assert run_here("solve", "c.yaml", "--output", "r.json", "--quiet", cwd=made).stderr == ""
    (made / "m.csv").write_text(
        "workers,steps_per_s,batch\n1,2,32\n2,3,32\n4,4,32\n1,1.2,64\n2,2,64\n4,3,64\n"
    )
    return made


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a command with a text on standard input."""

    def call(command: str, typed: str = "") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed.encode())))
        return run_here(*command.split(), cwd=folder)

    return call


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("validate -", "a.yaml"),
        ("validate /dev/stdin", "s.yaml"),
        ("solve - --format json", "c.yaml"),
        ("export-model -", "a.yaml"),
        ("pareto - --format json", "s.yaml"),
        ("verify - r.json", "c.yaml"),
        ("verify c.yaml -", "r.json"),
        ("diff c.yaml -", "r.json"),
        ("export-plan c.yaml -", "r.json"),
        ("report c.yaml - --output p.html", "r.json"),
        ("fit speed - --batch 32", "m.csv"),
    ],
)
def test_standard_input_is_a_file_like_any_other(run: Run, folder: Path, command: str, file: str) -> None:
    """Of instances, stored results and measurements; the answer is that of the file."""
    piped = run(command, (folder / file).read_text())
    assert piped.returncode in (0, 8), piped.stderr
    named = run(" ".join(file if word in ("-", "/dev/stdin") else word for word in command.split()))
    assert named.returncode == piped.returncode
    if "json" not in command:  # which holds seconds
        assert piped.stdout.replace("-:", f"{file}:").replace("/dev/stdin:", f"{file}:") == named.stdout


def test_json_on_standard_input_needs_no_name(run: Run) -> None:
    """The first character tells JSON from YAML."""
    assert (
        "allocation, 2 resources, 2 jobs; fine" in run("validate -", json.dumps(ALLOCATION, indent=1)).stdout
    )
    assert "is not valid JSON" in run("validate -", '{"kind": allocation}').stderr


def test_tables_of_a_piped_document_lie_in_the_working_folder(run: Run, folder: Path) -> None:
    (folder / "t.csv").write_text("job,gpus,samples_per_s\nb,1,3\n")
    done = run("validate -", yaml.safe_dump({**ALLOCATION, "jobs": "t.csv"}))
    assert "1 jobs; fine" in done.stdout


def test_a_named_pipe_is_read(run: Run, folder: Path) -> None:
    """As `<(…)` of a shell is one, too; its name has no ending."""
    os.mkfifo(folder / "pipe")
    writer = threading.Thread(target=(folder / "pipe").write_text, args=(yaml.safe_dump(STAGING),))
    writer.start()
    done = run("validate pipe")
    writer.join(10)
    assert "staging, 2 types, 2 layers; fine" in done.stdout


def test_a_name_that_no_file_can_have_is_no_pipe(run: Run, folder: Path) -> None:
    """Of a file, of one in a document, and of one in a batch."""
    name = "n" * 300 + ".yaml"
    put(folder / "long.yaml", {**ALLOCATION, "jobs": name})
    for command in (f"validate {name}", "validate long.yaml", "validate long.yaml --allow-outside"):
        assert "cannot be read: File name too long" in run(command).stderr
    assert "File name too long" in run(f"solve {name} --jobs 1").stderr


@pytest.mark.parametrize("reference", ["pipe.csv", "-", "/dev/stdin"])
def test_a_document_refers_to_no_pipe(run: Run, folder: Path, reference: str) -> None:
    """Nobody who wrote it may keep its reader waiting, with leave to read outside neither."""
    if not (folder / "pipe.csv").exists():
        os.mkfifo(folder / "pipe.csv")
    put(folder / "d.yaml", {**ALLOCATION, "jobs": reference})
    done = run("validate d.yaml --allow-outside", "job,gpus,samples_per_s\nb,1,3\n")
    assert done.returncode == 3
    assert ("no such file" if reference == "-" else "a document cannot refer to") in done.stderr


@pytest.mark.parametrize(
    ("command", "written"),
    [
        ("solve a.yaml s.yaml", "o1"),
        ("solve a.yaml --format csv", "o2"),
        ("solve a.yaml s.yaml --jobs 1", "night/summary.csv"),
        ("compare s.yaml --solvers exact,greedy", "comparison/comparison.html"),
        ("pareto s.yaml", "frontier/frontier.html"),
        ("export-plan c.yaml r.json", "o3"),
        ("export-model a.yaml", "o4"),
        ("generate allocation --jobs 2", "o5.yaml"),
        ("report c.yaml r.json", "o6.html"),
    ],
)
def test_output_is_written_and_not_printed(run: Run, folder: Path, command: str, written: str) -> None:
    """By every command that has the option, whether it names a file or a folder."""
    done = run(f"{command} --output {written.split('/', maxsplit=1)[0]}")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert (folder / written).stat().st_size > 0


def test_a_file_of_results_has_the_form_that_is_asked_for(run: Run, folder: Path) -> None:
    """JSON lines, or CSV with one header."""
    run("solve a.yaml s.yaml --output results.jsonl")
    lines = (folder / "results.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["allocation", "staging"]
    said = run("solve a.yaml s.yaml --format csv --output results.csv").stderr
    rows = list(csv.DictReader(io.StringIO((folder / "results.csv").read_text())))
    assert [row["kind"] for row in rows] == ["allocation", "staging"]
    assert "results.csv: a: optimal" in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
@pytest.mark.parametrize(
    "command",
    [
        *(f"solve c.yaml --quiet --format {form}" for form in ("csv", "json", "table")),
        "solve a.yaml c.yaml --quiet --format csv",
        "verify c.yaml r.json",
        "validate c.yaml",
        "diff c.yaml r.json",
        "schema staging",
        "solvers",
        "--help",
        "--version",
    ],
)
def test_a_full_disk_is_said_in_one_line(folder: Path, command: str) -> None:
    words = [sys.executable, "-m", "clusterplan", *command.split()]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(words, cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "the output: cannot be written: No space left on device; what was printed before may be incomplete\n"
    )
