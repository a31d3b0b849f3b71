"""Files of importers that hold one mapping."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.files.reading import read_mapping


def test_a_file_that_holds_a_mapping(tmp_path: Path) -> None:
    """Anything else is refused in the words of the caller."""
    file = tmp_path / "x.json"
    file.write_text('{"a": 1}', encoding="utf-8")
    assert read_mapping(file) == {"a": 1}
    file.write_text("[1]", encoding="utf-8")
    with pytest.raises(InstanceError, match=r"x\.json: is no price list$"):
        read_mapping(file, "is no price list")
