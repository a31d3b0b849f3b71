"""What the documentation shows is what works: commands, code, documents, options, and the site's own links.

How a page of `docs`, or the README, is read:

- a `console` block holds commands after `$`, which run in the order of the page, in one folder for each
  page, and have to end with exit code 0 or 5; a comment `# exit code N` asks for N. A backslash continues
  a line, and `*` stands for files. Lines below a command are what it prints first: `…` stands for any text,
  alone in a line for any lines;
- a `python` block runs in between, all blocks of a page as one program;
- a `pycon` block holds cells after `>>>` and what they print, all cells of a page as one doctest;
- a `code-block` with a caption is a file of that name, and is not run;
- what needs something that is not here, such as a Slurm cluster, stands in a `text` or `bash` block without
  `$`: only its options are checked.
"""

from __future__ import annotations

import doctest
import importlib.util
import inspect
import pkgutil
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from command_line import invoke

import clusterplan
from clusterplan.planner.cli.solve import solve
from clusterplan.planner.cli.stored_results import verify

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(
    page for page in DOCS.rglob("*.md") if page.relative_to(DOCS).parts[0] not in ("_build", "generated")
)
NAMES = [*(str(page.relative_to(DOCS)) for page in PAGES), "../README.md"]
SITE_LIBRARIES = ("sphinx", "myst_parser", "pydata_sphinx_theme", "sphinx_copybutton")
DASK_PORT = 18786
"""Stands in a page; the test takes a free one."""

FENCE = re.compile(r"^```(?:\{code-block\} ?)?(\w*)\n((?::\w+:[^\n]*\n)*)\n?(.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    caption: str | None
    text: str


@cache
def blocks(page: Path) -> tuple[Block, ...]:
    """Return the blocks of a page, in order."""
    found = []
    for language, options, text in FENCE.findall(page.read_text(encoding="utf-8")):
        caption = re.search(r"^:caption: (\S+)$", options, re.M)
        found.append(Block(language, caption[1] if caption else None, text))
    return tuple(found)


def commands(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Return each command of a console block, with the lines shown below it."""
    for part in re.split(r"^\$ ", block.text.replace("\\\n", " "), flags=re.M)[1:]:
        command, *shown = part.splitlines()
        yield command, shown


# Commands and code

HELPERS = """
def _run(command, words, target, codes, pattern):
    import glob, pathlib, re, subprocess, sys
    words = [file for word in words for file in (sorted(glob.glob(word)) if "*" in word else [word])]
    if words[0] == "clusterplan":
        words = [sys.executable, "-m", "clusterplan", *words[1:]]
    run = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert run.returncode in codes, f"{command}: exit code {run.returncode}\\n{run.stdout}{run.stderr}"
    if target:
        pathlib.Path(target).write_text(run.stdout)
    # What is written to files is told on stderr, and stdout is empty then.
    # Whether loops have to be compiled first, and for how long, depends on the machine.
    seen = [line for line in (run.stdout or run.stderr).splitlines() if "compiling its loops" not in line]
    printed = "\\n".join(" ".join(line.split()) for line in seen)
    assert re.search(pattern, printed + "\\n", re.S), f"{command}: printed {seen}, not\\n{pattern}"
"""


def as_pattern(shown: list[str]) -> str:
    """Return a regular expression for the lines that a command is said to print."""
    lines = [" ".join(line.split()) for line in shown]
    while lines and not lines[-1]:
        lines.pop()
    parts = [
        r"(?:[^\n]*\n)*?"
        if line == "…"
        else r"[^\n]*".join(map(re.escape, map(str.strip, line.split("…")))) + r"[^\n]*\n"
        for line in lines
    ]
    return r"\A" + "".join(parts)


def program(page: Path) -> str | None:
    """Return a page's commands and code as one program; None if it has neither."""
    lines, found = [HELPERS], False
    for block in blocks(page):
        if block.language == "console":
            for command, shown in commands(block):
                words = shlex.split(command, comments=True)
                if words[0] == "make":
                    continue
                wanted = re.search(r"# exit code (\d+)", command)
                target = words.index(">") if ">" in words else len(words)
                file = words[target + 1] if target < len(words) else None
                codes = (int(wanted[1]),) if wanted else (0, 5)
                lines.append(f"_run{(command, words[:target], file, codes, as_pattern(shown))!r}")
                found = True
        elif block.language == "python" and block.caption is None:
            lines.append(block.text)
            found = True
    return "\n".join(lines) if found else None


def write_files(page: Path, folder: Path) -> None:
    """Write the files that a page shows."""
    for block in blocks(page):
        if block.caption is not None:
            (folder / block.caption).write_text(block.text, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if program(DOCS / name)])
def test_what_a_page_shows_runs(name: str, tmp_path: Path) -> None:
    """Commands and code run in order, and print what the page says.

    Like a notebook, the program is no module that worker processes would import.
    """
    page = DOCS / name
    write_files(page, tmp_path)
    code = program(page)
    if "from distributed" in code:
        pytest.importorskip("distributed", reason="needs the extra dask")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        code = code.replace(str(DASK_PORT), str(probe.getsockname()[1]))
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_cells_print_what_they_show() -> None:
    """Cells run in order; `...` stands for any text."""
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for page in PAGES:
        cells = "".join(block.text for block in blocks(page) if block.language == "pycon")
        runner.run(doctest.DocTestParser().get_doctest(cells, {}, page.name, None, None))
    assert runner.tries
    assert not runner.failures


def named(text: str) -> set[str]:
    """Return the modules, classes and functions of the package that a text names in full."""
    return set(re.findall(r"`(clusterplan(?:\.\w+)+)`", text))


def test_every_name_of_the_package_exists() -> None:
    """A module, class, function or method in backticks can be imported."""
    for page in PAGES:
        for name in named(page.read_text(encoding="utf-8")):
            pkgutil.resolve_name(name)


def test_a_solve_calls_the_functions_that_its_page_names(tmp_path: Path) -> None:
    """Solving and verifying its examples calls every function above its first heading of second level."""
    page = (DOCS / "development" / "life-of-a-solve.md").read_text(encoding="utf-8").partition("\n## ")[0]
    called = set()
    sys.setprofile(lambda frame, *_: called.add(id(frame.f_code)))
    try:
        for example in re.findall("`(example:[a-z-]+)`", page):
            invoke(solve, example, "--output", tmp_path / "result.json")
            invoke(verify, example, tmp_path / "result.json")
    finally:
        sys.setprofile(None)
    for name in named(page):
        assert id(inspect.unwrap(pkgutil.resolve_name(name)).__code__) in called, name


@pytest.mark.parametrize("name", NAMES)
def test_documents_shown_are_valid(name: str, tmp_path: Path) -> None:
    """Every YAML block is YAML, and every document in one is an instance."""
    page = DOCS / name
    write_files(page, tmp_path)
    for block in blocks(page):
        if block.language == "yaml" or (block.caption or "").endswith((".yaml", ".yml")):
            data = yaml.safe_load(block.text)
            if isinstance(data, dict) and "schema_version" in data:
                data.pop("running", None)  # a result that a command of the page writes
                assert clusterplan.parse_instance(data, folder=tmp_path).name


# Options

FOREIGN = {
    *("--nodelist", "--lifetime", "--ntasks", "--ntasks-per-node", "--mem", "--gres", "--fix", "--json"),
    "--parsable2",
}
"""Options of other programs that pages name in their text."""


@cache
def known_options() -> dict[tuple[str, ...], set[str]]:
    """Return the options of each command, by its words."""
    import typer

    from clusterplan.planner.cli.main import app

    found: dict[tuple[str, ...], set[str]] = {}

    def look(command: Any, path: tuple[str, ...]) -> None:
        names = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
        found[path] = {name for name in names if name.startswith("-")} | {"--help", "-h"}
        for name, child in getattr(command, "commands", {}).items():
            look(child, (*path, name))

    look(typer.main.get_command(app), ())
    return found


def texts(value: Any) -> Iterator[str]:
    """Return all texts in nested data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)


def calls(block: Block) -> Iterator[list[str]]:
    """Return the words of every call of the command line in a block, run or not."""
    text = block.text.replace("\\\n", " ")
    if (block.caption or "").endswith(".yaml"):
        text = "\n".join(texts(yaml.safe_load(text)))
    for line in text.splitlines():
        call = re.search(r"(?:^|\$ |exec )(clusterplan (?:-|[a-z]).*)", line)
        if call and block.language in ("console", "text", "bash"):
            yield shlex.split(call[1].split(" &")[0], comments=True)[1:]


@pytest.mark.parametrize("name", NAMES)
def test_every_option_shown_exists(name: str) -> None:
    """Calls name commands and options that are there, whether they are run or not; so does the text."""
    known = known_options()
    for block in blocks(DOCS / name):
        for words in calls(block):
            path: tuple[str, ...] = ()
            while (*path, words[len(path)] if len(words) > len(path) else "") in known:
                path = (*path, words[len(path)])
            assert path or words[0].startswith("-"), f"no such command: {words}"
            for word in words:
                if re.match(r"--?[a-z]", word):
                    assert word.partition("=")[0] in known[path], f"{' '.join(path)} has no option {word}"
    text = FENCE.sub("", (DOCS / name).read_text(encoding="utf-8"))
    everywhere = set().union(*known.values()) | FOREIGN
    for span in re.findall(r"`([^`]+)`", text):
        for option in re.findall(r"(?<!\S)--[a-z][a-z0-9-]*", span):
            assert option in everywhere, f"`{span}`: no command has {option}"
        if words := re.match(r"clusterplan ([a-z][a-z-]*)", span):
            assert (words[1],) in known, f"`{span}`: no such command"


# The site


class Page(HTMLParser):
    """The anchors of a built page, and what it refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag is called and refers to."""
        values = dict(attrs)
        for key in ("id", "name"):
            if value := values.get(key):
                self.anchors.add(value)
        for key in ("href", "src"):
            if value := values.get(key):
                self.links.append(value)
                if tag != "a":
                    self.loaded.append(value)


def built(folder: Path) -> Path:
    """Build the site from a copy, so that nothing is written beside the sources."""
    left_out = shutil.ignore_patterns("_build", "generated", "__pycache__")
    shutil.copytree(DOCS, folder / "docs", ignore=left_out)
    (folder / "benchmarks").symlink_to(ROOT / "benchmarks")
    where = [str(folder / name) for name in ("doctrees", "docs", "html")]
    run = subprocess.run(
        [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-n", "-q", "-d", *where],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return folder / "html"


def pages_of(site: Path) -> dict[Path, Page]:
    """Return the pages of a site, without the templates that the theme brings along."""
    return {
        path: Page(path.read_text(encoding="utf-8"))
        for path in sorted(site.rglob("*.html"))
        if path.relative_to(site).parts[0] != "_static"
    }


def dead_links(site: Path) -> Iterator[str]:
    """Return every link of a site that leads to no file, or to no place in it."""
    pages = pages_of(site)
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            where = f"{path.relative_to(site)}: {link}"
            if not target.is_file():
                yield f"{where}: no such file"
            elif parts.fragment and target in pages:
                anchor = unquote(parts.fragment)
                if anchor not in pages[target].anchors:
                    yield f"{where}: no such place"


@pytest.mark.slow
def test_the_site_builds_and_holds_together(tmp_path: Path) -> None:
    """No warning, no dead link, nothing that is loaded from the network, every public name explained."""
    missing = [name for name in SITE_LIBRARIES if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"needs the extra docs: {', '.join(missing)}")
    site = built(tmp_path)
    assert not list(dead_links(site))
    for path, page in pages_of(site).items():
        loaded = [link for link in page.loaded if urlsplit(link).netloc]
        assert not loaded, f"{path.relative_to(site)} loads {loaded}"
        external = [link for link in page.links if urlsplit(link).netloc]
        assert all(link.startswith("https://") for link in external), f"{path.relative_to(site)}: {external}"
    anchors = set().union(*(page.anchors for page in pages_of(site / "generated").values()))
    for name in clusterplan.__all__:
        assert f"clusterplan.{name}" in anchors, f"{name} is missing"
    for report in (ROOT / "benchmarks" / "results").glob("*.md"):
        assert (site / "generated" / f"measured-{report.stem}.html").is_file()
    for problem in ("allocation", "staging", "consolidation"):
        assert "<math " in (site / "problems" / f"{problem}.html").read_text(encoding="utf-8")


def test_external_links_are_well_formed() -> None:
    """Links out of the site are https and name a host; whether anything answers there is not asked."""
    found = 0
    for page in PAGES:
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        for link in re.findall(r"\bhttps?:[^\s)>\]`]*", text):
            parts = urlsplit(link)
            assert parts.scheme == "https", f"{page.name}: {link}"
            assert re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+", parts.netloc), f"{page.name}: {link}"
            found += 1
    assert found


README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_is_short() -> None:
    """Whoever wants more finds it in the documentation."""
    assert len(README.splitlines()) <= 120


def test_what_it_links_to_is_there_and_pictures_are_small() -> None:
    """Links lead to files of the repository; the pictures load at once."""
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    for link in links:
        file = ROOT / link
        assert file.is_file(), link
        assert file.suffix != ".png" or file.stat().st_size < 100_000, link


def test_the_three_commands_for_a_cluster_are_those_that_the_documentation_runs() -> None:
    """They need the files of a cluster, which the page has."""
    page = (ROOT / "docs" / "start" / "slurm.md").read_text(encoding="utf-8")
    shown = re.findall(r"^clusterplan .*$", README, re.M)
    assert len(shown) == 3
    for command in shown:
        assert f"$ {command}\n" in page


def test_every_make_target_shown_exists() -> None:
    """The README names no target that the Makefile lacks."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^\$ make (\S+)", README, re.M):
        assert re.search(rf"^{target}:", makefile, re.M)
