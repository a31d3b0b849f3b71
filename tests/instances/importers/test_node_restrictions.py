"""A choice of servers becomes GPU models, or a resource that only those servers have."""

from __future__ import annotations

from clusterplan.instances.common.errors import some
from clusterplan.instances.importers.node_restrictions import (
    LONGEST,
    Choice,
    Restrictions,
    about_models,
    counted,
    models_of_choice,
    numbered,
)

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


def test_servers_that_may_not_be_used_hold_only_what_is_there() -> None:
    """A task may stay where it could not be given a place."""
    first, second = choice("x", {"a"}, {None: 2}), choice("y", {"a"}, {"b": 1})
    free = choice("z", set(ALL), {None: 5})
    found = Restrictions(ALL, [first, second, free])
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
    assert list(about_models([])) == []
    (sentence,) = about_models(["x"])
    assert sentence.startswith("1 job may use certain nodes only")
    assert sentence.endswith("gpu_model: x.")
