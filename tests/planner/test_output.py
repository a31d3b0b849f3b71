"""Control characters in names, messages and file names never reach the terminal.

Files are written whole or not at all.

A few of many points keep the ends and the shape of a curve; of many lines the first are written out.
"""

from __future__ import annotations

import io
import json
import logging
import os
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text
from sample_documents import ALLOCATION, CONSOLIDATION, STAGING, put

import clusterplan
from clusterplan.instances.common.errors import Fault, OptionError, visible
from clusterplan.instances.importers.clusters.slurm_jobs import EQUAL_SHARES
from clusterplan.planner import api
from clusterplan.planner.batch import worker_process as guard
from clusterplan.planner.cli import main as cli
from clusterplan.planner.cli import solving
from clusterplan.planner.output import (
    MAX_NAMED,
    MAX_ROWS,
    VisibleStream,
    some_lines,
    thinned,
    visible_output,
    write_all,
    write_file,
)
from clusterplan.planner.publish import plan_text
from clusterplan.planner.reports.text import console, safe_cell, table
from clusterplan.solvers.registry import all_solvers

EVIL = "\x1b[2J\x1b]0;title\x07\x9b31m\x7f\x00\x08\r\x85\u2028\u202a\u202e\u2066\u2069\u200f end"
"""Clears a screen, sets a title, turns the direction of writing, and moves back."""
NAME = EVIL.replace("\x00", "")
"""What a file, or a word of a command, can be called."""
COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> Callable[..., str]:
    """Return a function that runs the command, and gives all that it has printed."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["clusterplan", *map(str, arguments)])
        with pytest.raises(SystemExit):
            cli.main()
        logging.getLogger().handlers.clear()
        seen = capfdbinary.readouterr()
        text = (seen.out + seen.err).decode()
        assert text.strip()
        assert COMMANDS.search(text) is None, ascii(text)
        assert "Traceback" not in text
        return text

    return call


def test_visible_text_keeps_lines_and_tabs_and_shows_the_rest() -> None:
    """What is printable stays as it is, in any script."""
    assert visible("a\tb\nÄ – 東京 🎉") == "a\tb\nÄ – 東京 🎉"
    assert visible("\x1b[31m\x7f\x9b\u202e\r\x00\ud800") == r"\x1b[31m\u007f\u009b\u202e\x0d\x00\ud800"
    assert COMMANDS.search(visible(EVIL)) is None
    assert visible(visible(EVIL)) == visible(EVIL)


def test_json_still_means_the_same() -> None:
    """What JSON leaves as it is becomes an escape of JSON."""
    data = {"message": EVIL, EVIL: [EVIL]}
    for text in (json.dumps(data), json.dumps(data, ensure_ascii=False)):
        assert json.loads(visible(text)) == data


def test_everything_that_is_printed_goes_through_one_place(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Print, the log, warnings and rich: whoever writes to stdout or stderr."""
    with visible_output():
        print(EVIL)
        sys.stdout.writelines([EVIL, "\n"])
        sys.stderr.write(EVIL)
        handler = logging.StreamHandler(sys.stderr)
        handler.emit(logging.LogRecord("x", logging.ERROR, "x", 1, EVIL, (), None))
        for stderr in (False, True):
            out = console(stderr)
            out.print(EVIL, markup=False)
            out.print(Text(EVIL))
            out.print(table([("title", False)], [[EVIL]]))
            out.print(f"[bold]{EVIL}[/bold]")
        sys.stdout.flush()
    seen = capfdbinary.readouterr()
    for stream in (seen.out, seen.err):
        assert COMMANDS.search(stream.decode()) is None
        assert rb"\x1b[2J" in stream


def test_on_a_terminal_only_our_own_colours_are_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich still makes headings bold there."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    inner = Terminal()
    monkeypatch.setattr(sys, "stdout", VisibleStream(inner))
    console().print(table([("title", False)], [[EVIL], ["[link=https://example.org]x[/link]"]]))
    with console().status(Text("[link=https://example.org]x[/link]")):
        pass
    text = inner.getvalue()
    assert "\x1b[1m" in text
    assert "\x1b]" not in text
    assert "\x1b[2J" not in text
    assert r"\x1b[2J" in text


def test_faults_are_one_printable_line() -> None:
    """Source, path and words of a fault may hold anything."""
    text = str(Fault(EVIL + "\n", EVIL, EVIL))
    assert text.isprintable()
    assert len(str(Fault("f", "p" * 10**6, "w" * 10**6))) < 5_000


PLACES: dict[str, Any] = {
    "unknown key": {**ALLOCATION, EVIL: 1},
    "kind": {**ALLOCATION, "kind": EVIL},
    "name": {**ALLOCATION, "name": EVIL},
    "source": {**ALLOCATION, "source": EVIL},
    "assumption": {**ALLOCATION, "assumptions": [EVIL]},
    "resource": {**ALLOCATION, "resources": {EVIL: 1}},
    "job": {**ALLOCATION, "jobs": [{**ALLOCATION["jobs"][0], "name": EVIL}]},
    "unknown key of a job": {**ALLOCATION, "jobs": [{**ALLOCATION["jobs"][0], EVIL: 1}]},
    "text for a number": {**ALLOCATION, "jobs": [{**ALLOCATION["jobs"][0], "weight": EVIL}]},
    "path of a table": {**ALLOCATION, "jobs": NAME + ".csv"},
    "address": {**ALLOCATION, "jobs": "x://" + EVIL},
    "catalogue": {**STAGING, "catalogue": EVIL},
    "bundled catalogue": {**STAGING, "catalogue": "catalogue:" + EVIL},
    "type": {**STAGING, "types": [{"name": EVIL, "price_usd_per_hour": 1}]},
    "layer": {**STAGING, "layers": [{**STAGING["layers"][0], "name": EVIL}]},
    "server": {**CONSOLIDATION, "servers": [{"name": EVIL, "capacity": {"gpu": 1}}]},
    "rack": {**CONSOLIDATION, "servers": [{"name": "s", "rack": EVIL, "capacity": {"gpu": 1}}]},
    "objective": {**CONSOLIDATION, "objectives": [EVIL]},
    "current": {**CONSOLIDATION, "jobs": [{**CONSOLIDATION["jobs"][0], "current": {EVIL: 1}}]},
}


@pytest.mark.parametrize("document", PLACES.values(), ids=PLACES)
def test_control_characters_in_a_document_are_refused_and_shown(
    run: Callable[..., str], document: dict[str, Any]
) -> None:
    """A name is one printable line, and what is wrong elsewhere is quoted visibly."""
    said = run("validate", put("d.json", document))
    assert said.startswith("d.json: ")
    assert "; fine" not in said


def test_control_characters_in_tables_are_shown(run: Callable[..., str]) -> None:
    """Names of columns, cells and paths of tables are quoted visibly."""
    for content in (
        f"name,{EVIL.replace(chr(13), '')}\na,1\n",
        f"name,weight\na,{EVIL.replace(chr(13), '')}\n",
        EVIL,
    ):
        put("t.csv", content)
        run("validate", put("d.json", {**ALLOCATION, "jobs": "t.csv"}))
    run("fit", "speed", put("m.csv", "workers,steps_per_s," + "\x1bbatch\n1,1,1\n"))
    run("import", "tiresias", "--jobs", put("j.csv", "job_id,\x1b[2J\na,b\n"), "--cluster", "j.csv")


def test_control_characters_in_the_words_of_a_command_are_shown(run: Callable[..., str]) -> None:
    """Files, solvers, options and their values."""
    good = put(NAME + ".json", ALLOCATION)
    run("validate", good)
    run("validate", NAME)
    run("validate", "example:" + NAME)
    run("solve", good, "--solver", NAME)
    run("solve", good, "--set", NAME + "=1")
    run("solve", good, "--config", NAME)
    run("solve", good, "--format", NAME)
    run("solve", good, "--output", NAME + "/" + NAME)
    run("solve", good, "--" + NAME)
    run(NAME)
    run("solve", good, "--jobs", "1", "--output", "batch" + NAME)
    run("compare", good, good + "x", "--solvers", NAME)
    run("pareto", good, "--price", NAME)
    run("import", "gavel", "--throughputs", NAME, "--trace", NAME, "--capacity", NAME)


def test_a_file_whose_name_is_no_text_is_shown(run: Callable[..., str]) -> None:
    """A path may hold any bytes."""
    run("validate", os.fsdecode(b"\xff\x1b[2J\x9b.json"))


def test_control_characters_in_a_result_are_shown(run: Callable[..., str]) -> None:
    """Whatever somebody put into a stored result."""
    instance = put("d.json", ALLOCATION)
    result = json.loads(clusterplan.solve(clusterplan.load(instance)).to_json())
    for altered in (
        {**result, "instance": EVIL},
        {**result, "message": EVIL, "solver": EVIL, "backend": EVIL, "bound": 0},
        {**result, EVIL: 1},
        {**result, "status": EVIL},
        {**result, "plan": [{**result["plan"][0], "job": EVIL}]},
        {**result, "certificate": {EVIL: 1}},
        {**result, "objectives": [{**result["objectives"][0], "name": EVIL, "unit": EVIL}]},
    ):
        run("verify", instance, put("r.json", altered))
        run("verify", instance, "r.json", "--format", "json")
        run("report", instance, "r.json", "--output", "r.html")
        run("export-plan", instance, "r.json")
    run("verify", instance, put("r.json", EVIL))


def test_control_characters_in_the_message_of_a_solver_are_shown(
    run: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a solver that is not ours, in every format; what is printed as JSON still means the same."""
    solved = api.solve

    def chatty(*arguments: Any, **options: Any) -> Any:
        print("\x1b[2J from a library", file=sys.stderr)
        logging.getLogger("clusterplan").error(EVIL)
        return solved(*arguments, **options).model_copy(update={"message": EVIL, "solver": EVIL})

    monkeypatch.setattr(solving, "solve", chatty)
    good = put("d.json", ALLOCATION)
    for format in ("table", "json", "csv"):
        text = run("solve", good, "--format", format, "--verbose")
        if format == "json":
            (line,) = [line for line in text.split("\n") if line.startswith("{")]
            assert json.loads(line)["message"] == EVIL

    def failing(*_: Any) -> Any:
        raise ValueError(EVIL)

    monkeypatch.setattr(solving, "solve", failing)
    assert "internal error: ValueError" in run("solve", good)


def test_the_log_of_a_worker_is_shown_too(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Worker processes write to the terminal of whoever started them."""
    before = sys.stderr
    stdout, stderr = os.dup(1), os.dup(2)
    try:
        guard._redirect_output(logging.WARNING)
        sys.stderr.write(EVIL + "\n")
        sys.stderr.flush()
        sys.stderr.close()
    finally:
        sys.stderr = before
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os.close(stdout)
        os.close(stderr)
    assert rb"\x1b[2J" in capfdbinary.readouterr().err


def test_cells_and_files_for_others_hold_no_control_characters(tmp_path: Path) -> None:
    """CSV, and all files of a report, for they are looked at in terminals."""
    assert safe_cell("=1\x1b") == r"'=1\x1b"
    assert COMMANDS.search(safe_cell(EVIL)) is None
    assert safe_cell(1.5) == 1.5
    (path,) = write_all(tmp_path, {"a.md": EVIL})
    assert COMMANDS.search(path.read_text()) is None


def test_an_exported_plan_quotes_what_a_shell_would_obey() -> None:
    """Names are printable lines; blanks, quotes, dollars and hashes in them stay words."""
    names = ["a b", "$(reboot)", "`x`", "'; rm -rf / #", '"', "#", "-x", "a\\", "~", "*", "é"]
    document = {
        **CONSOLIDATION,
        "assumptions": [EQUAL_SHARES],
        "servers": [{"name": "n", "count": 3, "capacity": {"gpu": 8}, "gpu_model": "$(reboot)"}],
        "jobs": [
            {"name": name, "tasks": 1, "task_demand": {"gpu": 1}, "gpu_model": "$(reboot)"} for name in names
        ],
    }
    instance = clusterplan.parse_instance(document)
    result = clusterplan.solve(instance)
    lines = plan_text(instance, result, "slurm-options").splitlines()
    import shlex

    assert sorted(shlex.split(line, comments=True)[0] for line in lines) == sorted(names)
    assert all(
        word.startswith(("--nodelist=", "--nodes=", "--gres=gpu:1"))
        for line in lines
        for word in shlex.split(line)[1:]
    )
    import yaml

    jobs = list(yaml.safe_load_all(plan_text(instance, result, "kubernetes")))
    assert sorted(job["metadata"]["annotations"]["clusterplan/job"] for job in jobs) == sorted(names)


def test_a_broken_plug_in_is_listed_visibly(run: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name and what it raised come from another package."""
    from clusterplan.planner.cli import solvers
    from clusterplan.solvers.registry import BrokenPlugin

    found = [*all_solvers(), BrokenPlugin(EVIL, EVIL)]
    monkeypatch.setattr(solvers, "all_solvers", lambda: found)
    for format in ("table", "json", "csv"):
        assert "end" in run("solvers", "--format", format)


def test_a_file_is_replaced_as_a_whole_and_its_folder_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "page.html"
    write_file(path, "<p>ä\n")
    write_file(path, "<p>\ud800\n")  # half of a surrogate pair
    assert path.read_bytes() == b"<p>\\ud800\n"
    assert [found.name for found in path.parent.iterdir()] == ["page.html"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    write_file(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there").read_text() == "new"


def test_what_is_no_regular_file_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    seen: list[str] = []
    reader = threading.Thread(target=lambda: seen.append(pipe.read_text()))
    reader.start()
    write_file(pipe, "text")
    reader.join()
    assert seen == ["text"]
    assert pipe.is_fifo()


def test_what_cannot_be_written_is_an_option_error_and_the_old_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OptionError, match="cannot be written"):
        write_file(tmp_path, "")
    write_file(tmp_path / "f", "old")
    with pytest.raises(OptionError, match="cannot be written"):
        write_file(tmp_path / "f" / "page.html", "")

    def full(path: Path, raw: bytes) -> None:
        path.open("wb").close()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OptionError, match="No space left"):
        write_file(tmp_path / "f", "new")
    assert (tmp_path / "f").read_text() == "old"
    assert [*tmp_path.iterdir()] == [tmp_path / "f"]


def test_control_characters_stay_in_pages_alone(tmp_path: Path) -> None:
    paths = write_all(tmp_path, {"a.html": "\x1b[1m", "a.csv": "\x1b[1m"})
    assert paths == [tmp_path / "a.html", tmp_path / "a.csv"]
    assert paths[0].read_text() == "\x1b[1m"
    assert "\x1b" not in paths[1].read_text()


Pair = tuple[float, float]


def same(pair: Pair) -> Pair:
    """Return the pair itself, which is its own figures."""
    return pair


def test_few_points_stay() -> None:
    points = [(float(i), 1.0 / i) for i in range(1, MAX_ROWS + 1)]
    assert thinned(points, same) == points


@pytest.mark.parametrize("count", [MAX_ROWS + 1, 100, 5000])
def test_many_points_keep_their_ends_and_order(count: int) -> None:
    points = [(float(i), 1.0 / i) for i in range(1, count + 1)]
    chosen = thinned(points, same)
    assert len(chosen) <= MAX_ROWS
    assert (chosen[0], chosen[-1]) == (points[0], points[-1])
    assert chosen == sorted(chosen)


def test_points_are_even_on_logarithmic_axes() -> None:
    """Most of these points lie at the far end; of each tenfold there are about as many."""
    points = [(float(i), 1.0 / i) for i in range(1, 10_001)]
    chosen = thinned(points, same)
    tenfolds = [sum(10**k <= a < 10 ** (k + 1) for a, _ in chosen) for k in range(4)]
    assert max(tenfolds[1:]) - min(tenfolds[1:]) <= 2


def test_figures_of_zero_and_points_all_alike_do_not_count() -> None:
    assert len(thinned([(0.0, 0.0)] * 100, same)) <= MAX_ROWS
    mixed = [(float(i), 0.0) for i in range(1, 101)]
    assert thinned(mixed, same)[-1] == mixed[-1]


def test_of_many_lines_the_first_and_their_number_are_said() -> None:
    lines = [str(i) for i in range(MAX_NAMED + 3)]
    assert list(some_lines(lines, "and {:,} more")) == [*lines[:MAX_NAMED], "and 3 more"]
    assert list(some_lines(lines[:2], "and {:,} more")) == ["0", "1"]
