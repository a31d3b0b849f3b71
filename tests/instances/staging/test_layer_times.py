"""Times of layers in columns with a unit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from sample_documents import STAGING

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.documents import load
from clusterplan.instances.staging.layer_times import with_seconds

TYPES = [{"name": "A100"}, {"name": "cpu_s"}]


def seconds(**row: Any) -> Any:
    """Return compute_s of one layer."""
    return with_seconds({"types": TYPES, "layers": [row]}, "d")["layers"][0]


def test_units_become_seconds() -> None:
    """The case of a type does not matter, and its name may end as a unit does."""
    assert seconds(name="l", a100_ms=35, cpu_s_us=2_000_000) == {
        "name": "l",
        "compute_s": {"A100": 0.035, "cpu_s": 2.0},
    }
    assert seconds(A100_s=3)["compute_s"] == {"A100": 3.0}


def test_fields_of_a_layer_are_no_times() -> None:
    row = {"name": "l", "compute_s": {"A100": 1}, "communication_s": {}, "transfer_s": None, "memory_gib": 3}
    assert seconds(**row) == row


def test_a_column_beside_seconds_of_another_type_is_added() -> None:
    assert seconds(compute_s={"cpu_s": 1}, a100_ms=1)["compute_s"] == {"cpu_s": 1, "A100": 0.001}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"t4_ms": 1}, "layers[0].t4_ms: names no type 't4'; the types are: A100, cpu_s"),
        ({"a100_ms": 1, "A100_us": 1}, "layers[0].A100_us: is a second time on 'A100'"),
        ({"a100_ms": 1, "compute_s": {"A100": 1}}, "is a second time on 'A100'"),
        ({"a100_ms": "fast"}, "layers[0].a100_ms: is 'fast', which is not a number"),
        ({"a100_ms": True}, "is True, which is not a number"),
    ],
)
def test_wrong_times_are_named(row: dict[str, Any], said: str) -> None:
    with pytest.raises(InstanceError) as caught:
        seconds(**row)
    assert said in str(caught.value)


def test_a_csv_of_milliseconds_is_the_same_instance(tmp_path: Path) -> None:
    """As the document in seconds, by its hash; a line is named where a cell is wrong."""
    (tmp_path / "d.yaml").write_text(yaml.safe_dump({**STAGING, "layers": "l.csv"}))
    (tmp_path / "e.yaml").write_text(yaml.safe_dump(STAGING))
    (tmp_path / "l.csv").write_text(
        "name,A_ms,B_us,compute_parallel\nl0,1000,500000,0.9\nl1,2000,300000,0.9\n"
    )
    assert load(tmp_path / "d.yaml").sha256() == load(tmp_path / "e.yaml").sha256()
    (tmp_path / "l.csv").write_text("name,A_ms,B_us,compute_parallel\nl0,1000,x,0.9\nl1,2000,300000,0.9\n")
    with pytest.raises(InstanceError, match=r"l.csv: line 2: B_us: is 'x', which is not a number"):
        load(tmp_path / "d.yaml")


def test_times_that_look_like_milliseconds_are_pointed_out(tmp_path: Path) -> None:
    layers = [{"name": f"l{k}", "compute_s": {"A": 30 + k}, "compute_parallel": 0.9} for k in range(4)]
    (tmp_path / "d.yaml").write_text(yaml.safe_dump({**STAGING, "layers": layers}))
    (note,) = load(tmp_path / "d.yaml").figure_notes()
    assert "from 31.5 s on" in note
    assert "A_ms" in note
    for layer in layers:
        layer["compute_s"]["A"] /= 1000
    (tmp_path / "d.yaml").write_text(yaml.safe_dump({**STAGING, "layers": layers}))
    assert load(tmp_path / "d.yaml").figure_notes() == []
