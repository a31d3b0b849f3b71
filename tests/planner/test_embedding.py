"""clusterplan inside other programs: threads, notebooks, logs, and help."""

from __future__ import annotations

import logging
import pydoc
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser

import pytest

import clusterplan
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.solvers.registry import solvers_for

SLOW = ("auto", "reinforce-lstm", "reinforce-rnn", "genetic")
HOSTILE = '<img src=x onerror="alert(1)">&<script>'


def small() -> list[clusterplan.Instance]:
    """Return an instance of each kind."""
    return [
        generate_allocation(4, seed=1),
        generate_staging(4, 2, seed=1),
        generate_consolidation(3, 4, seed=1),
    ]


@pytest.mark.slow
def test_solvers_answer_the_same_in_many_threads_at_once() -> None:
    """Whatever runs beside it, a solve with one seed gives one answer."""
    pairs = [
        (instance, solver.name)
        for instance in small()
        for solver in solvers_for(instance.kind, available=True)
        if solver.name not in SLOW
    ]

    def answer(pair: tuple[clusterplan.Instance, str]) -> object:
        try:
            result = clusterplan.solve(pair[0], pair[1], clusterplan.SolveOptions(seed=1, threads=1))
        except clusterplan.ClusterplanError as error:
            return str(error)
        return result.status, result.objective, result.plan

    alone = [answer(pair) for pair in pairs]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            assert list(pool.map(answer, pairs)) == alone


@pytest.mark.slow
def test_the_library_logs_and_never_prints() -> None:
    """Nothing on stdout and stderr; the log says which solver works on what, to those who listen."""
    code = (
        "import logging, clusterplan\n"
        "heard = []\n"
        "class Ear(logging.Handler):\n"
        "    def emit(self, record): heard.append(record.getMessage())\n"
        "log = logging.getLogger('clusterplan'); log.addHandler(Ear()); log.setLevel(logging.INFO)\n"
        "for name in ('heterps-ctr', 'optimus-testbed', 'tiresias-testbed'):\n"
        "    instance = clusterplan.load('example:' + name)\n"
        "    for solver in ('exact', 'milp:highs', 'cp-sat'):\n"
        "        clusterplan.solve(instance, solver, clusterplan.SolveOptions(time_limit_s=1))\n"
        "assert 'heterps-ctr: solving with exact' in heard, heard\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


class _Reader(HTMLParser):
    """Collects the tags and the text of a fragment."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert all(name == "style" for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("kind", ["allocation", "staging", "consolidation"])
def test_notebooks_show_objects_as_tables_with_names_escaped(kind: str) -> None:
    """Instances, results and checks have an HTML form of their own; names in it are text."""
    (instance,) = [one for one in small() if one.kind == kind]
    instance = instance.model_copy(update={"name": HOSTILE})
    result = clusterplan.solve(instance)
    for shown in (instance, result, clusterplan.verify(instance, result)):
        reader = _Reader()
        reader.feed(shown._repr_html_())
        assert set(reader.tags) <= {"div", "strong", "table", "tr", "td", "th"}
        assert HOSTILE in reader.text


def test_frontiers_have_an_html_form_too() -> None:
    """Of both kinds."""
    for name in ("opt-350-three-gpus", "gavel-three-gpu-types"):
        frontier = clusterplan.pareto(clusterplan.load(f"example:{name}"), error=0.05)
        assert "USD" in frontier._repr_html_()


def test_help_is_enough_to_begin() -> None:
    """It names every public function and class in its first screens, and what each call returns."""
    text = pydoc.plain(pydoc.render_doc(clusterplan))
    guide = text[: text.index("PACKAGE CONTENTS")]
    for name in clusterplan.__all__:
        assert name in guide or name in ("Diagnosis", "HardwareCatalogue", "LossFit", "SpeedFit"), name
    for function in ("solve", "compare", "pareto", "verify", "solve_many"):
        assert "Parameters" in (getattr(clusterplan, function).__doc__ or "") or function == "verify"


def test_a_log_level_is_left_to_the_program() -> None:
    """Importing the library configures no logging."""
    assert not logging.getLogger("clusterplan").handlers


def test_a_file_is_solved_with_settings_by_name() -> None:
    result = clusterplan.solve("example:heterps-ctr", "exact", time_limit_s=30, gap=0.01)
    assert (result.status, result.options.time_limit_s, result.options.gap) == ("optimal", 30, 0.01)
    options = clusterplan.SolveOptions(gap=0.5, seed=3)
    result = clusterplan.solve("example:heterps-ctr", options=options, gap=0.01)
    assert (result.options.gap, result.options.seed) == (0.01, 3)
    with pytest.raises(clusterplan.OptionError, match="time_limit: unknown key; did you mean 'time_limit_s'"):
        clusterplan.solve("example:heterps-ctr", time_limit=30)
    with pytest.raises(clusterplan.InstanceError, match=r"missing\.yaml"):
        clusterplan.solve("missing.yaml")


def test_a_result_prints_its_status_and_every_objective() -> None:
    lines = str(clusterplan.solve("example:tiresias-testbed", "exact")).splitlines()
    assert lines[0].startswith("tiresias-testbed: optimal; exact in ")
    assert lines[1:3] == [
        "  value: 43; bound 43, gap 0 %, certified bound 43",
        "  servers: 14; bound 14, gap 0 %, certified bound 14",
    ]


def test_a_changed_copy_of_an_instance_is_checked_like_a_new_one() -> None:
    for instance in small():
        renamed = instance.replace(name="other")
        assert (renamed.name, type(renamed)) == ("other", type(instance))
        assert renamed.replace(name=instance.name).sha256() == instance.sha256()
        with pytest.raises(clusterplan.InstanceError, match="unknown key"):
            instance.replace(nothing=1)
    *_, consolidation = small()
    nothing = dict.fromkeys(generate_allocation(4, seed=1).resources, 0)
    assert clusterplan.solve(small()[0].replace(resources=nothing)).status == "infeasible"
    with pytest.raises(clusterplan.InstanceError, match=r"objectives\[0\]"):
        consolidation.replace(objectives=["worth"])
