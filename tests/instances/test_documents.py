"""Untrusted documents: every fault is one plain line, nothing is guessed, nothing is lost in a round trip."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from sample_documents import ALLOCATION, CONSOLIDATION, DOCUMENT, INTERNAL, SCHEDULING, STAGING, accepted

import clusterplan
from clusterplan.instances import examples
from clusterplan.instances.common.base import Instance
from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.documents import (
    KINDS,
    load,
    load_catalogue,
    parse_instance,
    save,
    to_text,
)
from clusterplan.instances.files import reading
from clusterplan.instances.files.reading import parse_document

EXAMPLES = sorted(path.stem for path in Path(examples.__path__[0]).glob("*.yaml"))
NAN = float("nan")
REMOVED = object()
CATALOGUE: dict[str, Any] = yaml.safe_load("""
schema_version: 1
kind: catalogue
name: c
source: a price list
date: '2024-01-01'
types:
- {name: m, price_usd_per_hour: 1, vcpus: 4, memory_gib: 16, gpus: 2, gpu_model: x, gpu_memory_gib: 8}
""")
JOB: tuple[Any, ...] = ("jobs", 0)
VARIANT: tuple[Any, ...] = (*JOB, "variants", 0)


def changed(document: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """Return a copy of the document with another value, or none, at one place."""
    new = copy.deepcopy(document)
    here: Any = new
    for step in path[:-1]:
        here = here[step]
    if value is REMOVED:
        del here[path[-1]]
    else:
        here[path[-1]] = value
    return new


def lines_of(call: Callable[[], Any], source: str) -> list[str]:
    """Return the faults that the call raises, after a look at the form that every fault has."""
    with pytest.raises(InstanceError) as error:
        call()
    text = str(error.value)
    lines = text.split("\n")
    assert len(lines) == len(error.value.faults)
    for line in lines:
        assert line.startswith(f"{source}: "), line
        assert len(line) < 700, line
        assert line.isprintable(), line
        assert not any(word in line for word in INTERNAL), line
    return lines


def faults(document: Any) -> list[str]:
    """Return the faults of plain data."""
    return lines_of(lambda: parse_instance(document, "doc"), "doc")


def write(folder: Path, name: str, content: Any) -> Path:
    """Write bytes, text, or plain data as the ending says; return the path."""
    path = folder / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, str):
        path.write_text(content, encoding="utf-8")
    else:
        path.write_text(
            json.dumps(content) if path.suffix == ".json" else yaml.safe_dump(content), encoding="utf-8"
        )
    return path


def file_faults(folder: Path, name: str, content: Any) -> list[str]:
    """Return the faults of a file with this content."""
    path = write(folder, name, content)
    return lines_of(lambda: load(path), str(path))


def table_faults(folder: Path, kind: str, key: str, name: str, content: Any) -> list[str]:
    """Return the faults of a document whose list is the file `name`; the document is called d.yaml."""
    if content is not None:
        write(folder, name, content)
    path = write(folder, "d.yaml", changed(DOCUMENT[kind], (key,), name))
    return [line.removeprefix(f"{path}: ") for line in lines_of(lambda: load(path), str(path))]


@pytest.mark.parametrize(
    ("where", "value", "path"),
    [
        *((("resources", name), 1, "resources") for name in (1, "", "a\nb", "\x1b[31m", True, "x" * 300)),
        (("name",), "\ud800", "name"),
        (("resources", "gpu"), 10**400, "resources.gpu"),
    ],
)
def test_one_wrong_name_or_number_is_one_line(where: tuple[Any, ...], value: Any, path: str) -> None:
    """Those that hardly a file holds; all others are in `recorded/given/refusals.json`."""
    (line,) = faults(changed(ALLOCATION, where, value))
    assert line.startswith(f"doc: {path}")


@pytest.mark.parametrize("kind", DOCUMENT)
def test_the_unchanged_documents_are_fine(kind: str) -> None:
    """The documents that the other tests break are valid."""
    assert parse_instance(DOCUMENT[kind]).kind == kind


@pytest.mark.parametrize("share", [1.5, -0.1, "1", True, None, [1], {"A": 2, "B": 1}, {"A": NAN, "B": 1}])
def test_a_wrong_share_is_named_as_the_user_wrote_it(share: Any) -> None:
    """A field that takes a number or a mapping reports its own name, not the types it tried."""
    lines = faults(changed(STAGING, ("layers", 0, "compute_parallel"), share))
    assert all(re.match(r"doc: layers\[0\]\.compute_parallel(\.\w+)?: ", line) for line in lines), lines


@pytest.mark.parametrize(
    "counts", [{"x": 1}, {0: 1}, {-1: 1}, {1.5: 1}, {"2.0": 1}, {True: 1}, {"2": 1, 2: 0.5}]
)
def test_numbers_of_servers_are_whole_and_stand_once(counts: dict[Any, float]) -> None:
    """A key of speed_by_servers is a whole number of at least 1, and two keys never mean the same one."""
    lines = faults(changed(CONSOLIDATION, (*JOB, "speed_by_servers"), counts))
    assert all(line.startswith("doc: jobs[0].speed_by_servers") for line in lines)


def test_duplicate_names_of_types_and_servers_are_named() -> None:
    """The second use of a name is the fault."""
    assert any(
        line.startswith("doc: types[1].name: 'A' is already used by types[0]")
        for line in faults(changed(STAGING, ("types", 1, "name"), "A"))
    )
    twice = changed(CONSOLIDATION, ("servers",), CONSOLIDATION["servers"] * 2)
    assert faults(twice)[0].startswith("doc: servers[1].name: 'n' is already used by servers[0]")


def test_several_faults_are_reported_together() -> None:
    """Faults in different places come in one go, a line each."""
    document = changed(ALLOCATION, ("prices_usd_per_hour",), {"cpu": -1, "gpu": NAN})
    document = changed(document, (*JOB, "weigth"), 1)
    document = changed(document, ("jobs", 1, "remaining_steps"), True)
    paths = [line.split(": ")[1] for line in faults(document)]
    assert sorted(paths) == sorted(
        ["prices_usd_per_hour.cpu", "prices_usd_per_hour.gpu", "jobs[0].weigth", "jobs[1].remaining_steps"]
    )


def test_several_unknown_names_are_reported_together() -> None:
    """Faults that only the whole document shows come in one go as well."""
    document = changed(ALLOCATION, (*VARIANT, "worker_demand"), {"tpu": 1, "npu": 1})
    document = changed(document, ("jobs", 1, "name"), "j")
    assert len(faults(document)) == 3


@pytest.mark.parametrize("data", [None, 5, "text", [], [1], True])
def test_a_document_is_a_mapping(data: Any) -> None:
    """Anything else is refused with a hint at how a document starts."""
    assert "schema_version: 1" in faults(data)[0]


def test_a_catalogue_is_no_instance(tmp_path: Path) -> None:
    """A document of another kind names the kinds that are allowed."""
    assert "kind" in file_faults(tmp_path, "c.yaml", CATALOGUE)[0]


RESULT = {"instance": "a", "kind": "allocation", "instance_sha256": "0", "status": "optimal"}


def test_results_and_frontiers_are_no_instances(tmp_path: Path) -> None:
    """The commands that take them are named; several results stand a line each."""
    line = json.dumps(RESULT)
    for content in (line, f"{line}\n{line}\n"):
        (found,) = file_faults(tmp_path, "r.json", content)
        assert found.endswith("r.json: " + reading.RESULT)
    (found,) = file_faults(tmp_path, "f.yaml", RESULT | {"points": []})
    assert "is a frontier of clusterplan, not an instance; verify and report take it" in found
    (found,) = file_faults(tmp_path, "other.json", "{}\n{}")
    assert found.endswith("line 2, column 1: is not valid JSON: Extra data")


# Files


@pytest.mark.parametrize("name", ["e.yaml", "e.yml", "e.json"])
@pytest.mark.parametrize("content", ["", " \n\n", b"\xef\xbb\xbf"])
def test_empty_files_are_refused(tmp_path: Path, name: str, content: Any) -> None:
    """An empty file says so."""
    assert file_faults(tmp_path, name, content) == [f"{tmp_path / name}: is empty"]


@pytest.mark.parametrize("content", ["# nothing but a comment\n", "---\n", "null\n"])
def test_documents_without_data_are_refused(tmp_path: Path, content: str) -> None:
    """A document that holds nothing is not a mapping."""
    assert "is not a mapping" in file_faults(tmp_path, "e.yaml", content)[0]


@pytest.mark.parametrize("name", ["e.yaml", "e.json"])
@pytest.mark.parametrize("content", [bytes(range(256)), b"\x89PNG\r\n\x1a\n\0\0", b"a: 1\0"])
def test_binary_files_are_refused(tmp_path: Path, name: str, content: bytes) -> None:
    """Bytes that are no text are refused with the formats that are allowed."""
    assert "YAML, JSON or CSV" in file_faults(tmp_path, name, content)[0]


def test_a_folder_is_refused(tmp_path: Path) -> None:
    """A folder is not a file, whatever its name ends with."""
    folder = tmp_path / "d.yaml"
    folder.mkdir()
    assert lines_of(lambda: load(folder), str(folder)) == [f"{folder}: is a folder; give a file"]


@pytest.mark.parametrize("name", ["e.txt", "e.toml", "e", "e.yaml.bak"])
def test_other_endings_are_refused(tmp_path: Path, name: str) -> None:
    """A file with another ending is refused with those that are allowed."""
    assert ".yaml, .yml, .json" in file_faults(tmp_path, name, yaml.safe_dump(ALLOCATION))[0]


def test_a_table_alone_is_no_document(tmp_path: Path) -> None:
    """A CSV or Parquet file cannot be an instance by itself."""
    for name in ("e.csv", "e.parquet"):
        assert "is a table" in file_faults(tmp_path, name, "name\nn\n")[0]


def test_endings_may_be_upper_case_and_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    """What other systems write is read."""
    assert load(write(tmp_path, "A.YAML", b"\xef\xbb\xbf" + yaml.safe_dump(ALLOCATION).encode())).name == "a"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_table_may_not_be_a_device_or_pipe(tmp_path: Path) -> None:
    """A document cannot make the reader wait for a pipe, or read a device without end."""
    os.mkfifo(tmp_path / "s.csv")
    path = write(tmp_path, "d.yaml", changed(CONSOLIDATION, ("servers",), "s.csv"))
    code = f"""
import clusterplan
try:
    clusterplan.load({str(path)!r})
except clusterplan.InstanceError:
    print("refused")
"""
    try:
        done = subprocess.run([sys.executable, "-c", code], stdout=-1, text=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        pytest.fail("waits for a pipe that nobody writes to")
    assert done.stdout.strip() == "refused"


JSON_NUMBERS = ["NaN", "Infinity", "-Infinity", "1e999", "9" * 5000, "true", '"4"', "null", "[]"]
YAML_NUMBERS = [
    ".nan",
    ".inf",
    "-.inf",
    "1e999",
    "nan",
    "9" * 5000,
    "true",
    "'4'",
    "",
    "0x10",
    "1_000",
    "1:30",
    "1,5",
]


@pytest.mark.parametrize(
    ("name", "number"),
    [*(("e.json", number) for number in JSON_NUMBERS), *(("e.yaml", number) for number in YAML_NUMBERS)],
)
def test_numbers_are_finite(tmp_path: Path, name: str, number: str) -> None:
    """Infinities, absurd magnitudes and other types are refused where they stand.

    In YAML, hexadecimal, base-60 and underscored numbers are text.
    """
    written = json.dumps(ALLOCATION).replace('"gpu": 4', f'"gpu": {number}')
    if name == "e.yaml":
        written = yaml.safe_dump(ALLOCATION).replace("gpu: 4", f"gpu: {number}")
    (line,) = file_faults(tmp_path, name, written)
    assert "resources.gpu" in line or "number" in line or "large" in line


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("e.json", '{"kind": "allocation", "kind": "staging"}', "'kind' stands twice"),
        ("e.json", json.dumps(ALLOCATION).replace('"gpu": 4', '"gpu": 4, "gpu": 5'), "'gpu' stands twice"),
        ("e.yaml", "kind: allocation\nkind: staging\n", "line 2, column 1: "),
        (
            "e.yaml",
            yaml.safe_dump(ALLOCATION).replace("  gpu: 4", "  gpu: 4\n  gpu: 5"),
            "'gpu' stands twice",
        ),
    ],
)
def test_repeated_keys_are_refused(tmp_path: Path, name: str, text: str, word: str) -> None:
    """A key that stands twice is a fault, not a silent choice."""
    (line,) = file_faults(tmp_path, name, text)
    assert word in line


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("e.json", json.dumps(ALLOCATION) + "x"),
        ("e.json", json.dumps(ALLOCATION)[:-5]),
        ("e.json", "{'kind': 'staging'}"),
        ("e.yaml", "a: [1, 2\n"),
        ("e.yaml", "a:\n\tb: 1\n"),
        ("e.yaml", "a: 1\n---\nb: 2\n"),
        ("e.yaml", "a: *unknown\n"),
        ("e.yaml", "? [1, 2]\n: 3\n"),
        ("e.yaml", "? {a: 1}\n: 3\n"),
        ("e.yaml", "%YAML 9.9\n---\na: 1\n"),
    ],
)
def test_malformed_files_name_line_and_column(tmp_path: Path, name: str, text: str) -> None:
    """A file that cannot be parsed says where."""
    (line,) = file_faults(tmp_path, name, text)
    assert re.search(r": line \d+, column \d+: is not valid (YAML|JSON): ", line)


@pytest.mark.parametrize(
    "value",
    [
        "!!int abc",
        "!!float abc",
        "!!bool abc",
        "!!timestamp abc",
        "!!timestamp 2024-99-99",
        "!!float [1]",
        "!!map x",
        "!!seq x",
        "!!null abc",
        "!!binary '%'",
        "!!set [a]",
        "!!omap x",
        "!!pairs x",
        "!!str [a]",
    ],
)
def test_yaml_tags_on_unfit_values_are_one_line(tmp_path: Path, value: str) -> None:
    """A standard tag on a value that it does not fit is a fault, not a traceback."""
    path = write(tmp_path, "e.yaml", yaml.safe_dump(ALLOCATION).replace("name: a\n", f"name: {value}\n"))
    with pytest.raises(InstanceError) as error:
        load(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("depth", [300, 700, 900, 1000, 1500, 5000, 100_000])
def test_deep_nesting_is_refused(tmp_path: Path, depth: int) -> None:
    """A value nested to any depth is a single line."""
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        nested = opening * depth + "1" + closing * depth
        text = json.dumps(ALLOCATION).replace('"gpu": 4', f'"gpu": {nested}')
        assert len(file_faults(tmp_path, "e.json", text)) == 1
        if depth <= 5000:
            assert len(file_faults(tmp_path, "e.yaml", text.replace('":', '": '))) == 1


# Tables

SERVERS = "name,count,capacity.gpu,capacity.cpu\nn,2,4,8\n"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, ["servers: t.csv: there is no such file"]),
        ("", ["servers: t.csv: is empty"]),
        ("name,count\n", ["servers: t.csv: has a header but no rows"]),
        (
            SERVERS + "m,1\nk,1,2,3,4\n",
            ["servers: t.csv: line 3: has 2 cells", "servers: t.csv: line 4: has 5 cells"],
        ),
        ("name,name,capacity.gpu\na,b,1\n", ["servers: t.csv: line 1: "]),
        ("name,,capacity.gpu\na,b,1\n", ["servers: t.csv: line 1: "]),
        ("name,capacity,capacity.gpu\na,1,1\n", ["servers: t.csv: line 1: column 3 clashes"]),
        ('name,capacity.gpu\n"a,1\n', ["servers: t.csv: line 2: is not valid CSV: "]),
        ('name,capacity.gpu\n"a"b,1\n', ["servers: t.csv: line 2: is not valid CSV: "]),
        ("name,capacity.gpu\n" + "a" * 200_000 + ",1\n", ["servers: t.csv: line 2: is not valid CSV: "]),
        (bytes(range(256)), ["servers: t.csv: is not text"]),
    ],
)
def test_broken_tables_name_file_and_line(tmp_path: Path, content: Any, expected: list[str]) -> None:
    """A table with ragged rows, repeated columns or no rows is named after the document."""
    lines = table_faults(tmp_path, "consolidation", "servers", "t.csv", content)
    assert len(lines) == len(expected), lines
    assert all(line.startswith(start) for line, start in zip(lines, expected, strict=True)), lines


@pytest.mark.parametrize(
    "number", ["nan", "inf", "-inf", "-1", "1e16", "1e999", "x", "true", "1_000", '"1,000"']
)
def test_numbers_in_tables_are_finite(tmp_path: Path, number: str) -> None:
    """A cell that is no plain number of the allowed size is a fault."""
    content = f"name,count,capacity.gpu,capacity.cpu\nn,2,{number},8\n"
    (line,) = table_faults(tmp_path, "consolidation", "servers", "t.csv", content)
    assert "capacity.gpu: is " in line


@pytest.mark.parametrize(
    ("column", "cell", "words"),
    [
        ("capactiy.gpu", "1", ("capactiy", "did you mean 'capacity'?")),
        ("count", "2.5", ("count", "whole number")),
        ("hardware", '"a\nb"', ("hardware", "control character")),
        ("free.gpu", "5", ("free.gpu", "capacity 4")),
    ],
)
def test_faulty_cells_name_row_and_column(
    tmp_path: Path, column: str, cell: str, words: tuple[str, ...]
) -> None:
    """A cell that a field cannot hold is one line."""
    content = f"name,capacity.gpu,capacity.cpu,{column}\nn-0,4,8,\nn-1,4,8,{cell}\n"
    (line,) = table_faults(tmp_path, "consolidation", "servers", "t.csv", content)
    assert all(word in line for word in words), line


@pytest.mark.parametrize(
    "header",
    [
        "name,groups.00.name",
        "name,groups.٠.name",
        "name,groups.0.name,groups.2.name",
        "name,.",
        "name,a..b",
        "name,groups.",
        "name," + "a." * 3000 + "b",
        "name,groups.0.0",
        "name;tasks;x",
    ],
)
def test_odd_column_names_are_faults(tmp_path: Path, header: str) -> None:
    """No column name, however odd, ends in a traceback."""
    content = header + "\n" + ",".join(["x"] * len(header.split(","))) + "\n"
    path = write(tmp_path, "d.yaml", changed(CONSOLIDATION, ("jobs",), "t.csv"))
    write(tmp_path, "t.csv", content)
    with pytest.raises(InstanceError):
        load(path)


def test_missing_tables_are_reported_together(tmp_path: Path) -> None:
    """Both tables of a document that are not there are named in one go."""
    path = write(tmp_path, "d.yaml", {**CONSOLIDATION, "servers": "s.csv", "jobs": "j.csv"})
    lines = lines_of(lambda: load(path), str(path))
    assert [line.removeprefix(f"{path}: ").split(":")[0] for line in lines] == ["servers", "jobs"]


def test_a_list_file_without_its_key_is_refused(tmp_path: Path) -> None:
    """A mapping that does not hold the key is not a list."""
    (line,) = table_faults(tmp_path, "consolidation", "servers", "t.yaml", {"machines": []})
    assert line.startswith("servers: ")
    assert "not a list" in line


TABLES = {
    "allocation": (
        "jobs",
        "name,remaining_steps,variants.0.name,variants.0.worker_demand.cpu,variants.0.worker_demand.gpu,"
        "variants.0.ps_demand.cpu,variants.0.workers.min,variants.0.workers.max,variants.0.ps.min,variants.0.ps.max,"
        "variants.0.speed.model,variants.0.speed.theta.0,variants.0.speed.theta.1,variants.0.speed.theta.2,"
        "variants.0.speed.theta.3,variants.0.speed.theta.4,variants.0.speed.batch,"
        "variants.0.speed.rows.0.workers,variants.0.speed.rows.0.steps_per_s,variants.0.speed.rows.1.workers,"
        "variants.0.speed.rows.1.steps_per_s\n"
        "j,100,v,1,1,1,1,3,1,2,ps_sync,0.01,0.1,0.1,0.01,0.001,16,,,,\n"
        "k,1e2,t,,1,,,,,,table,,,,,,,1,1.5,2,2.5\n",
    ),
    "staging": (
        "layers",
        "name,compute_s.A,compute_s.B,compute_parallel.A,compute_parallel.B\nl0,1,.5,0.9,1\nl1,2,0.3,0.5,0.9\n",
    ),
    "consolidation": ("servers", " name , count,capacity.gpu,capacity.cpu\nn,2, 4 ,8.0\n\n"),
    "scheduling": (
        "jobs",
        "name,arrival_s,tasks,demand.gpu,duration_s,tenant\na,,2,1,60,x\nb,1.5,,0.5,6e1,\n",
    ),
    "mix": (
        "configurations",
        "name,hardware,jobs.a,jobs.b,progress.a,progress.b\nx,g,1,,1,\ny,g,1,1,0.6,.7\n",
    ),
}


def inline(kind: str) -> dict[str, Any]:
    """Return the document with the list that the table of its kind holds."""
    if kind == "staging":
        shares = ({"A": 0.9, "B": 1}, {"A": 0.5, "B": 0.9})
        layers = zip(STAGING["layers"], shares, strict=True)
        return {**STAGING, "layers": [layer | {"compute_parallel": each} for layer, each in layers]}
    if kind == "scheduling":
        jobs = [
            {"name": "a", "tasks": 2, "demand": {"gpu": 1}, "duration_s": 60, "tenant": "x"},
            {"name": "b", "arrival_s": 1.5, "demand": {"gpu": 0.5}, "duration_s": 60},
        ]
        return {**SCHEDULING, "jobs": jobs}
    return DOCUMENT[kind]


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("ending", [".yaml", ".json"])
def test_tables_inline_equal_tables_as_csv(tmp_path: Path, kind: str, ending: str) -> None:
    """A list written in the document and the same list as CSV are the same instance."""
    key, text = TABLES[kind]
    write(tmp_path, "table.csv", text)
    path = write(tmp_path, f"d{ending}", changed(inline(kind), (key,), "table.csv"))
    assert load(path).sha256() == parse_instance(inline(kind)).sha256()


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("name", ["list.yaml", "list.yml", "list.json"])
@pytest.mark.parametrize("keyed", [False, True])
def test_a_list_file_may_hold_the_list_or_have_it_under_its_key(
    tmp_path: Path, kind: str, name: str, keyed: bool
) -> None:
    """A referenced YAML or JSON file is the list, or a mapping with the list under its key."""
    key = TABLES[kind][0]
    rows = inline(kind)[key]
    write(tmp_path, name, {key: rows} if keyed else rows)
    path = write(tmp_path, "d.yaml", changed(inline(kind), (key,), name))
    assert load(path).sha256() == parse_instance(inline(kind)).sha256()


# Catalogues

MACHINES = [{"name": "A", "hardware": "m"}, {"name": "B", "hardware": "m"}]


def catalogue_faults(folder: Path, catalogue: Any, types: Any) -> list[str]:
    """Return the faults of a staging document with this catalogue beside it."""
    write(folder, "c.yaml", catalogue)
    path = write(folder, "d.yaml", {**STAGING, "catalogue": "c.yaml", "types": types})
    return [line.removeprefix(f"{path}: ") for line in lines_of(lambda: load(path), str(path))]


def test_a_catalogue_fills_price_and_memory(tmp_path: Path) -> None:
    """A type that names its hardware has the price and memory of one unit."""
    write(tmp_path, "c.yaml", CATALOGUE)
    document = {**STAGING, "catalogue": "c.yaml", "types": MACHINES}
    kind = load(write(tmp_path, "d.yaml", document)).document()["types"][0]
    assert (kind["price_usd_per_hour"], kind["memory_gib"]) == (0.5, 8)
    written = {**STAGING, "catalogue": CATALOGUE, "types": MACHINES}
    assert parse_instance(written).sha256() == load(tmp_path / "d.yaml").sha256()


def test_unknown_hardware_is_named_with_what_there_is(tmp_path: Path) -> None:
    """Hardware that the catalogue does not have is a fault of the row; every such row is named."""
    lines = catalogue_faults(tmp_path, CATALOGUE, [{**row, "hardware": "z"} for row in MACHINES])
    assert [line.split(": ")[0] for line in lines] == ["types[0].hardware", "types[1].hardware"]
    assert all("'z' is not in the catalogue" in line and "it has m" in line for line in lines)


@pytest.mark.parametrize("hardware", [["m"], {"m": 1}, 5, True])
def test_hardware_that_is_no_name_is_a_fault(tmp_path: Path, hardware: Any) -> None:
    """A wrong type where a catalogue entry is named is a fault, not a traceback."""
    lines = catalogue_faults(tmp_path, CATALOGUE, [MACHINES[0], {"name": "B", "hardware": hardware}])
    assert all(line.startswith("types[1].") for line in lines)


@pytest.mark.parametrize("types", [5, True, None, {"a": 1}, [5]])
def test_rows_that_are_no_list_are_a_fault_beside_a_catalogue_too(tmp_path: Path, types: Any) -> None:
    """The list that a catalogue fills may be anything in an untrusted document."""
    assert all(line.startswith("types") for line in catalogue_faults(tmp_path, CATALOGUE, types))


@pytest.mark.parametrize(
    ("where", "value", "path"),
    [
        (("types", 0, "price_usd_per_hour"), -1, "types[0].price_usd_per_hour"),
        (("types", 0, "prize"), 1, "types[0].prize"),
        (("date",), "yesterday", "date"),
        (("kind",), "staging", "kind"),
        (("types",), CATALOGUE["types"] * 2, "types[1].name"),
        (("types",), [], "types"),
    ],
)
def test_faults_of_a_catalogue_name_both_files(
    tmp_path: Path, where: tuple[Any, ...], value: Any, path: str
) -> None:
    """A fault in a catalogue file names file and document; one written inline has its full path."""
    broken = changed(CATALOGUE, where, value)
    (line,) = catalogue_faults(tmp_path, broken, MACHINES)
    assert line.startswith(f"catalogue: c.yaml: {path}: ")
    (line,) = faults({**STAGING, "catalogue": broken, "types": MACHINES})
    assert line.startswith(f"doc: catalogue.{path}: ")


def test_hardware_without_a_catalogue_needs_its_figures() -> None:
    """Without a catalogue a type gives its price itself."""
    lines = faults({**STAGING, "types": MACHINES})
    assert [line.split(": ")[1] for line in lines] == [
        "types[0].price_usd_per_hour",
        "types[1].price_usd_per_hour",
    ]


# Round trips

WORDS = """
1e3 1.5e3 08 007 5. .5 +1 - no ~ null true 2024-01-01 1:30 0x10 1_000 = << .inf .nan NaN {x} 'q' "q" *a &a !x
%a @a `a` é 😀 ? a: | > [bold]x[/bold] =cmd() 日本
"""
AWKWARD = [*WORDS.split(), "- a", "a: b", "a #b", " lead", "trail "]


def same(instance: Instance, folder: Path, ending: str) -> None:
    """Assert that text and file of an instance give the instance back."""
    text = to_text(instance, ending)
    assert parse_instance(parse_document(text, "text", ending)).sha256() == instance.sha256()
    save(instance, folder / f"saved{ending}")
    assert load(folder / f"saved{ending}").sha256() == instance.sha256()


@pytest.mark.parametrize("ending", [".yaml", ".json"])
@pytest.mark.parametrize("name", [f"example:{name}" for name in EXAMPLES])
def test_examples_equal_themselves_after_saving(tmp_path: Path, name: str, ending: str) -> None:
    """An instance that is written and read again has the same hash."""
    same(load(name), tmp_path, ending)


@pytest.mark.parametrize("ending", [".yaml", ".json"])
@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_names_survive_saving(tmp_path: Path, name: str, ending: str) -> None:
    """A name that looks like a number, a date, YAML or markup is the same text after saving, as a key too."""
    document = changed(ALLOCATION, ("resources", name), 7)
    document = changed(document, (*VARIANT, "worker_demand", name), 0.1)
    document = changed(document, (*JOB, "name"), name)
    same(parse_instance({**document, "name": name, "source": name, "assumptions": [name]}), tmp_path, ending)


@pytest.mark.parametrize("ending", [".yaml", ".json"])
@pytest.mark.parametrize(
    "text",
    [
        "a\nb",
        "a\r\nb",
        "a\tb",
        "a\n\n b\n",
        "a\x85b",
        "a\u2028b",
        "\ufeffa",
        "\x00",
        "\x1b[0m",
        "\ud800",
        "w " * 99,
    ],
)
def test_any_text_survives_saving_or_is_refused(tmp_path: Path, text: str, ending: str) -> None:
    """Free text, control characters included, comes back as it was, unless it was never accepted."""
    try:
        instance = parse_instance({**ALLOCATION, "source": text})
    except InstanceError:
        return
    same(instance, tmp_path, ending)


def test_equal_documents_have_equal_hashes() -> None:
    """Defaults written out, 1 or 1.0 and the order of keys make no difference; a price does."""
    first = parse_instance(ALLOCATION).sha256()
    written = {
        **dict(reversed(ALLOCATION.items())),
        "resources": {"gpu": 4.0, "cpu": 10},
        "objective": "total_completion_time",
    }
    assert parse_instance(written).sha256() == first
    assert parse_instance({**ALLOCATION, "prices_usd_per_hour": {"gpu": 1}}).sha256() != first


def test_saving_under_another_ending_is_refused(tmp_path: Path) -> None:
    """Only the endings that can be read again are written."""
    path = tmp_path / "x.txt"
    assert ".yaml" in lines_of(lambda: save(parse_instance(ALLOCATION), path), str(path))[0]


# JSON Schema


@pytest.mark.parametrize("kind", DOCUMENT)
def test_json_schema_accepts_valid_documents_and_paths(kind: str) -> None:
    """The schema accepts a document, also where its lists are paths, and refuses an unknown key or kind."""
    assert accepted(kind, DOCUMENT[kind]) == []
    key = TABLES[kind][0]
    assert accepted(kind, changed(DOCUMENT[kind], (key,), "table.csv")) == []
    assert accepted(kind, {**DOCUMENT[kind], "zzz": 1})
    assert accepted(kind, changed(DOCUMENT[kind], (key,), 5))


@pytest.mark.parametrize("name", EXAMPLES)
def test_json_schema_accepts_the_examples(name: str) -> None:
    """Every example, as it is saved, agrees with the schema of its kind."""
    instance = load(f"example:{name}")
    assert accepted(instance.kind, json.loads(to_text(instance, ".json"))) == []


def test_json_schema_accepts_catalogues() -> None:
    """The schema of a catalogue accepts one, also with its machines in a table."""
    assert accepted("catalogue", CATALOGUE) == []
    assert accepted("catalogue", {**CATALOGUE, "types": "types.csv"}) == []
    assert (
        accepted(
            "catalogue", json.loads(load_catalogue("catalogue:heterps").model_dump_json(exclude_none=True))
        )
        == []
    )


def test_json_schema_accepts_rows_that_a_catalogue_fills() -> None:
    """A type or server that only names its hardware is a valid document, so the schema accepts it."""
    assert accepted("staging", {**STAGING, "catalogue": "c.yaml", "types": MACHINES}) == []
    servers = [{"name": "n", "hardware": "m"}]
    assert accepted("consolidation", {**CONSOLIDATION, "catalogue": "c.yaml", "servers": servers}) == []


@pytest.mark.parametrize(
    ("kind", "where", "value"),
    [
        *((kind, (key,), REMOVED) for kind in DOCUMENT for key in ("schema_version", "kind", "name")),
        ("allocation", ("resources", "gpu"), -1),
        ("allocation", (*JOB, "remaining_steps"), 0),
        ("allocation", (*VARIANT, "workers", "max"), 0.5),
        ("staging", ("layers", 0, "compute_parallel"), 1.5),
        ("consolidation", ("servers", 0, "count"), 0),
    ],
)
def test_json_schema_refuses_what_the_reader_refuses(kind: str, where: tuple[Any, ...], value: Any) -> None:
    """A document without version, kind or name, and numbers outside of minimum and maximum."""
    document = changed(DOCUMENT[kind], where, value)
    assert faults(document)
    assert accepted(kind, document)


@pytest.mark.parametrize("kind", DOCUMENT)
def test_json_schema_accepts_results(kind: str) -> None:
    """The schema of a result accepts what `solve` returns, its plan included."""
    result = clusterplan.solve(parse_instance(DOCUMENT[kind]), "brute-force")
    assert result.plan
    assert accepted("result", json.loads(result.to_json())) == []


def test_every_kind_has_a_schema_with_its_lists() -> None:
    """Each list that may be a table says so: an array, or the path of a file."""
    for kind, spec in KINDS.items():
        schema = spec.model.model_json_schema()
        assert schema["additionalProperties"] is False
        options = schema["properties"][TABLES[kind][0]]["anyOf"]
        assert {option["type"] for option in options} == {"array", "string"}
