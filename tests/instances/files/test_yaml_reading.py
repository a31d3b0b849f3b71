"""YAML 1.2 as plain data."""

from __future__ import annotations

import math

import pytest
import yaml

from clusterplan.instances.files.yaml_reading import parse_yaml


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("1e-3", 1e-3),
        ("no", "no"),
        ("2024-01-01", "2024-01-01"),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("~", None),
        ("-.inf", -math.inf),
        ("[1, true, x]", [1, True, "x"]),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("", None),
    ],
)
def test_plain_data(text: str, data: object) -> None:
    """Scalars have the meaning of YAML 1.2, and aliases are written out."""
    assert parse_yaml(text) == data


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: 1\na: 2", yaml.YAMLError),
        ("!!python/object:x {}", yaml.YAMLError),
        ("a\n---\nb", yaml.YAMLError),
        ("<<: {a: 1}", yaml.YAMLError),
        ("*x", yaml.YAMLError),
        ("&a [*a]", ValueError),
        ("[" * 200 + "]" * 200, RecursionError),
    ],
)
def test_what_is_refused(text: str, error: type[Exception]) -> None:
    """Repeated keys, tags that make objects, second documents, loops and depth."""
    with pytest.raises(error):
        parse_yaml(text)
