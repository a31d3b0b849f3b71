"""Every document has a JSON Schema."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.planner.cli.schema import names, schema_of
from clusterplan.planner.registry import KINDS


@pytest.mark.parametrize("name", names())
def test_every_document_has_a_schema(name: str) -> None:
    schema = schema_of(name)
    assert schema.get("properties") or schema.get("anyOf") or schema.get("oneOf")


def test_a_frontier_is_one_of_those_of_the_kinds() -> None:
    able = [kind.frontier.model.__name__ for kind in KINDS.values() if kind.frontier is not None]
    assert sorted(schema_of("frontier")["$defs"].keys() & set(able)) == sorted(able)


def test_what_is_no_document_is_refused() -> None:
    with pytest.raises(OptionError, match="there are: allocation"):
        schema_of("bogus")
