"""The contract of importers: options, restricted nodes, rejected entries."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

import pytest

from clusterplan.instances.common.errors import InstanceError, OptionError, some
from clusterplan.instances.common.fields import Count, Model, Name, PositiveCount
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.instances.importers import IMPORTERS
from clusterplan.instances.importers.importer import (
    MAX_INVALID,
    Importer,
    ImportOptions,
    Option,
    RejectedEntries,
    multi_kind_importer,
    option_of,
    valid_entries,
)
from clusterplan.instances.importers.node_restrictions import (
    LONGEST,
    Choice,
    Restrictions,
    counted,
    gpu_model_note,
    models_of_choice,
    numbered,
)
from clusterplan.instances.importers.traces.philly import import_philly, import_philly_trace
from clusterplan.instances.scheduling.instance import SchedulingInstance


class ToyOptions(ImportOptions):
    """A toy."""

    ORDER = ("file", "jobs")

    jobs: Annotated[PositiveCount, Option("How many jobs.")]
    names: Annotated[dict[Name, PositiveCount], Option("Names.")] = {}
    seed: Annotated[PositiveCount | None, Option("A seed.")] = 7
    file: Annotated[Path, Option("A file.", argument="file")]


SEEN: list[ToyOptions] = []


@Importer
def import_toy(options: ToyOptions) -> ConsolidationInstance:
    """Return a toy."""
    SEEN.append(options)
    return generate_consolidation(2, options.jobs, 4, seed=1)


def test_it_is_called_as_its_fields_are() -> None:
    """By position in the stated order, or by name; the defaults are those of the fields."""
    assert str(inspect.signature(import_toy)) == "(file, jobs, names={}, seed=7)"
    assert len(import_toy(Path("f"), 3).jobs) == 3
    import_toy(jobs=3, file=Path("f"), names=None, seed=None)
    assert (SEEN[-2].seed, SEEN[-2].file) == (7, Path("f"))
    assert (SEEN[-1].seed, SEEN[-1].names) == (None, {})
    with pytest.raises(TypeError, match="colour"):
        import_toy(Path("f"), 3, colour="red")


def test_wrong_options_are_faults() -> None:
    """They are named as the arguments are."""
    with pytest.raises(InstanceError, match=r"^options: jobs: is 0, but must be at least 1$"):
        import_toy(Path("f"), 0)


def test_its_documentation_is_made_of_its_options() -> None:
    """The help stands once."""
    assert str(import_toy.__doc__).startswith("Return a toy.")
    assert "    jobs\n        How many jobs." in str(import_toy.__doc__)


@pytest.mark.parametrize("name", IMPORTERS)
def test_every_importer_says_what_its_options_are_for(name: str) -> None:
    """Each field has one sentence of help, and the model the help of the command."""
    options = IMPORTERS[name].options
    assert options.__doc__
    assert all(option_of(field).help for field in options.in_order().values())
    assert set(options.in_order()) == set(options.model_fields)


def imported(folder: Path, **options: Any) -> Any:
    """Return what becomes of one job."""
    file = folder / "philly.csv"
    file.write_text("timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-01 11:00:10,7200,1,7200,a\n")
    return IMPORTERS["philly"](file, **options)


def test_the_kind_decides(tmp_path: Path) -> None:
    """Consolidation unless something else is asked for."""
    assert isinstance(imported(tmp_path, at="2017-10-01 12:00", servers=2), ConsolidationInstance)
    assert isinstance(imported(tmp_path, kind="scheduling", gpus=2), SchedulingInstance)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"at": "2017-10-01 12:00"}, "--servers is missing; --kind consolidation needs --at, --servers"),
        ({"kind": "scheduling"}, "--gpus is missing; --kind scheduling needs --gpus"),
        (
            {"kind": "scheduling", "gpus": 2, "servers": 3},
            "--servers goes with --kind consolidation only",
        ),
        (
            {"at": "2017-10-01 12:00", "servers": 2, "max_duration_s": 5.0},
            "--max-duration-s goes with --kind scheduling only",
        ),
    ],
)
def test_options_of_the_other_kind_are_refused(tmp_path: Path, options: dict[str, Any], fault: str) -> None:
    """And those that are missing are named."""
    with pytest.raises(OptionError) as caught:
        imported(tmp_path, **options)
    assert str(caught.value) == fault


def test_options_say_with_which_kind_they_go() -> None:
    """Those that all kinds require stand first; the others may be left out, and say their own default."""
    made = multi_kind_importer("Jobs.", {"consolidation": import_philly, "scheduling": import_philly_trace})
    fields = made.options.in_order()
    assert list(fields)[:2] == ["jobs", "kind"]
    assert [name for name, field in fields.items() if field.is_required()] == ["jobs"]
    assert option_of(fields["gpus_per_server"]).help == (
        "With --kind consolidation: GPUs of each server. [default: 8]"
    )
    assert option_of(fields["first"]).help == "With --kind scheduling: only so many jobs, by submission."


ALL = frozenset({"a", "b", "c"})


def choice(job: str, servers: set[str], tasks: dict[str | None, int], said: str = "zone 1") -> Choice:
    """Return a choice that says what it is."""
    return Choice(job, frozenset(servers), tasks, lambda: said)


def test_words() -> None:
    """Singular, plural, and the first few names."""
    assert [counted(1, "node"), counted(2, "node"), counted(2, "node is", "nodes are")] == [
        "1 node",
        "2 nodes",
        "2 nodes are",
    ]
    assert some("abcd", 3) == "a, b, c, …"
    assert list(numbered("aba", "{}-{}")) == ["a", "b", "a-2"]
    assert list(numbered(["a", "a-2", "a", "a"], "{}-{}")) == ["a", "a-2", "a-3", "a-4"]


def test_servers_that_may_not_be_used_hold_only_what_is_there() -> None:
    """A task may stay where it could not be given a place."""
    first, second = choice("x", {"a"}, {None: 2}), choice("y", {"a"}, {"b": 1})
    free = choice("z", set(ALL), {None: 5})
    found = Restrictions(ALL, iter([first, second, free]))
    assert found.demand(free) == {}
    assert found.demand(first) == found.demand(second) == {"zone 1": 1.0}
    assert [found.permits(server) for server in "abc"] == [{"zone 1": 3.0}, {"zone 1": 1.0}, {"zone 1": 0.0}]
    (sentence,) = found.sentences("labels", "pod", "node")
    assert "3 pods need it, of x, y, and 1 of 3 nodes has it" in sentence


def test_names_are_short_printable_and_different() -> None:
    """What a cluster calls its labels may be anything."""
    said = "x" * 80 + "\n"
    choices = [choice("x", {"a"}, {None: 1}, said), choice("y", {"b"}, {None: 1}, said)]
    found = Restrictions(ALL, choices)
    names = [name for one in choices for name in found.demand(one)]
    assert len(set(names)) == 2
    assert all(len(name) <= LONGEST and name.isprintable() for name in names)


def test_choices_that_are_gpu_models() -> None:
    """All servers of these models and no others; a server without a model can be in no list."""
    models = {"a": "A100", "b": "A100", "c": "T4", "d": "L4", "e": None}
    assert models_of_choice(frozenset("abd"), models) == ["A100", "L4"]
    assert models_of_choice(frozenset("c"), models) == ["T4"]
    for chosen in ("a", "ac", "ce", "e", "abcde", ""):
        assert models_of_choice(frozenset(chosen), models) is None
    assert models_of_choice(frozenset("abcd"), {**models, "e": "A100"}) is None
    many = {str(number): f"M{number}" for number in range(102)}
    assert models_of_choice(frozenset(many) - {"0"}, many) is None
    assert len(models_of_choice(frozenset(many) - {"0", "1"}, many) or ()) == 100


def test_jobs_whose_choice_is_of_models_are_named() -> None:
    """Only where there are any."""
    assert list(gpu_model_note([])) == []
    (sentence,) = gpu_model_note(["x"])
    assert sentence.startswith("1 job may use certain nodes only")
    assert sentence.endswith("gpu_model: x.")


class Row(Model):
    name: Name
    size: Count


def read(rows: list[dict[str, object]], left_out: RejectedEntries) -> list[str]:
    entries = ((f"rows[{index}]", str(row.get("name")), row) for index, row in enumerate(rows))
    return [row.name for row in valid_entries(Row, entries, "file", left_out, lambda row: row.name)]


def test_valid_entries_go_on_and_the_others_are_counted() -> None:
    """Only the first three are named, with the first thing that is wrong with each."""
    left_out = RejectedEntries("pod")
    wrong = [{"name": f"w{number}", "size": -number} for number in range(1, 6)]
    assert read([{"name": "a", "size": 1}, *wrong, {"name": "b", "size": 2}], left_out) == ["a", "b"]
    assert left_out.data == wrong
    assert list(left_out.sentences()) == [
        "5 pods are invalid and left out: w1 (size is -1, but must be at least 0), "
        "w2 (size is -2, but must be at least 0), w3 (size is -3, but must be at least 0), …."
    ]


def test_the_second_of_a_name_is_left_out() -> None:
    """The first is kept."""
    left_out = RejectedEntries("pod")
    assert read([{"name": "a", "size": 1}, {"name": "a", "size": 2}], left_out) == ["a"]
    assert list(left_out.sentences()) == ["1 pod is invalid and left out: a (is listed twice)."]


def test_names_cannot_command_a_terminal() -> None:
    """What is not printable is written as an escape, for the sentence goes into the instance."""
    left_out = RejectedEntries("pod")
    assert read([{"name": "a", "size": 1}, {"name": "b\x1b", "size": -1}], left_out) == ["a"]
    (sentence,) = left_out.sentences()
    assert "b\\x1b (name is blank" in sentence


def test_entries_without_a_key_may_be_alike() -> None:
    """Each is one."""
    left_out = RejectedEntries("job")
    rows: list[tuple[str, str, dict[str, object]]] = [("rows[0]", "a", {"name": "a", "size": 1})] * 2
    assert len(list(valid_entries(Row, rows, "file", left_out))) == 2
    assert left_out.data == []


def test_nothing_is_said_where_nothing_is_left_out() -> None:
    """A list that is right has no sentence."""
    left_out = RejectedEntries("pod")
    assert read([{"name": "a", "size": 1}], left_out) == ["a"]
    assert list(left_out.sentences()) == []


def test_a_list_without_valid_entries_is_refused() -> None:
    """The error names the entries by their path."""
    with pytest.raises(InstanceError, match=r"^file: rows\[0\].size: is -1") as caught:
        read([{"name": "a", "size": -1}, {"size": 1}], RejectedEntries("pod"))
    assert "file: rows[1].name: is missing" in str(caught.value)


def test_a_list_that_begins_with_a_thousand_wrong_entries_is_refused() -> None:
    """It is another file than was asked for, and not read to its end."""
    wrong: list[dict[str, object]] = [{"name": "w"}] * MAX_INVALID
    assert read([*wrong[1:], {"name": "a", "size": 1}], RejectedEntries("pod")) == ["a"]
    with pytest.raises(InstanceError, match=r"900 more faults"):
        read([*wrong, {"name": "a", "size": 1}], RejectedEntries("pod"))
