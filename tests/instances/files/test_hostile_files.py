"""Files made to take long or much: refused before they are parsed, or after the first hundred faults.

The figures of 50 MB files are in `docs/guides/quality.md`; here each trick has its smallest form.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from imports import ROOT
from pyarrow import parquet
from sample_documents import ALLOCATION, CONSOLIDATION, STAGING

import clusterplan
from clusterplan.instances.allocation.fits import fit_speed
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.common.errors import MAX_FAULTS, Fault, InstanceError, OptionError, shown
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.instances.documents import load, parse_instance, save
from clusterplan.instances.files import csv_tables, reading, tables
from clusterplan.instances.files.reading import TooMuchError, check_size, parse_document, parse_json
from clusterplan.instances.importers.layer_graphs.pipedream import read_pipedream
from clusterplan.instances.importers.traces.gavel import read_table, read_trace, speeds_of
from clusterplan.instances.importers.traces.pollux import import_pollux
from clusterplan.instances.importers.traces.tiresias import import_tiresias
from clusterplan.planner.stored_results import read_results, verify_stored
from clusterplan.planner.verification import Verification

SOON_S = 10.0
"""Far more than any of these takes, and far less than what they took before."""


def refusal(call: Callable[[], Any]) -> InstanceError:
    """Return the error that a call raises soon, whose text is no flood."""
    began = time.perf_counter()
    with pytest.raises(InstanceError) as caught:
        call()
    assert time.perf_counter() - began < SOON_S
    lines = str(caught.value).split("\n")
    assert len(lines) <= MAX_FAULTS + 2
    assert all(len(line) < 5_000 and line.isprintable() for line in lines)
    return caught.value


def refused(tmp_path: Path, text: str | bytes, ending: str = "json") -> str:
    """Return what is said of a document."""
    path = tmp_path / f"d.{ending}"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(refusal(lambda: load(path)))


# JSON


def test_one_of_60000_keys_that_stands_twice_is_found_at_once() -> None:
    """The search for it was quadratic."""
    keys = [f'"k{number}": 1' for number in range(60_000)]
    text = "{" + ", ".join([*keys, '"k59999": 2']) + "}"
    assert "'k59999' stands twice" in str(refusal(lambda: parse_document(text, "d", ".json")))


def test_unknown_keys_by_the_thousand_are_one_fault(tmp_path: Path) -> None:
    """None of 200,000 keys is compared with those that are allowed."""
    said = refused(tmp_path, json.dumps({**ALLOCATION, **{f"k{k}": 1 for k in range(200_000)}}))
    assert "has 200,0" in said
    assert "such as 'k0'; allowed here: schema_version, kind" in said


def test_a_few_unknown_keys_are_a_fault_each_with_a_guess(tmp_path: Path) -> None:
    """Up to a hundred keys too many each have a line."""
    said = refused(tmp_path, json.dumps({**ALLOCATION, "resorces": 1, **{f"k{k}": 1 for k in range(30)}}))
    assert said.count("unknown key") == 31
    assert "did you mean 'resources'?" in said


def test_a_huge_key_or_value_is_cut_in_the_message(tmp_path: Path) -> None:
    """A key of a megabyte is compared with nothing and shown in part."""
    for part in ({"k" * 10**6: 1}, {"kind": "k" * 10**6}, {"resources": [1] * 10**5}, {"name": "n" * 10**6}):
        assert len(refused(tmp_path, json.dumps({**ALLOCATION, **part}))) < 1_000


def test_what_is_shown_of_a_value_is_its_beginning() -> None:
    """Small values are shown as Python writes them, others up to a length."""
    for value in (1, 1.5, "a'b", [1, "x"], {"a": [1, {}]}, (1, 2), None, True):
        assert shown(value) == repr(value)
    assert shown(["x" * 100] * 10**6) == "['" + "x" * 55 + "..."
    deep: Any = 1
    for _ in range(10_000):
        deep = [deep]
    assert shown(deep) == "[" * 57 + "..."


@pytest.mark.parametrize(
    "jobs",
    [
        [{}] * 50_000,
        [1] * 50_000,
        [{"name": "a", "remaining_steps": 1, "variants": [{}] * 900}] * 50,
        [{"variants": [{"speed": {"model": "table", "rows": [{}] * 60}}] * 60}] * 60,
        [{"variants": [{"worker_demand": dict.fromkeys(map(str, range(900)), "x")}] * 90}] * 9,
    ],
)
def test_of_many_wrong_entries_the_first_hundred_are_named(tmp_path: Path, jobs: list[Any]) -> None:
    """However they are nested, a document full of faults is read no further than that."""
    path = tmp_path / "d.json"
    path.write_text(json.dumps({**ALLOCATION, "jobs": jobs}))
    error = refusal(lambda: load(path))
    assert len(error.faults) == MAX_FAULTS
    assert error.stopped
    assert "… and perhaps more: reading stopped here" in str(error)


def test_faults_far_into_a_long_list_keep_their_places() -> None:
    """A list is looked at in slices, and faults in different ones are all named."""
    jobs = [{**ALLOCATION["jobs"][0], "name": f"j{number}"} for number in range(95)]
    jobs[37] = {**jobs[37], "weight": -1}
    jobs[94] = {**jobs[94], "colour": "red"}
    error = refusal(lambda: parse_instance({**ALLOCATION, "jobs": jobs}))
    assert [fault.path for fault in error.faults] == ["jobs[37].weight", "jobs[94].colour"]
    assert not error.stopped


def test_an_error_counts_the_faults_that_it_does_not_name() -> None:
    """A hundred lines, and a line that says how many more."""
    error = InstanceError(Fault("f", f"a[{k}]", "is wrong") for k in range(12_445))
    assert len(error.faults) == MAX_FAULTS
    assert str(error).split("\n")[-1] == "… and 12,345 more faults"


def test_a_document_of_too_many_values_is_not_parsed(tmp_path: Path) -> None:
    """A few bytes become many: how many there are is known before."""
    said = refused(tmp_path, json.dumps({**ALLOCATION, "jobs": [[]] * 600_000}))
    assert "at most 1,000,000 are read from a document: put its lists into CSV or Parquet tables" in said


def test_a_list_in_a_document_has_a_greatest_length(tmp_path: Path) -> None:
    """Longer ones are tables."""
    said = refused(tmp_path, json.dumps({**ALLOCATION, "jobs": [1] * 100_001}))
    assert "jobs: has 100,001 entries; at most 100,000 stand in a document: put them into" in said


def test_json_that_would_outgrow_the_memory_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight bytes for each of its own; keys that all differ count twice."""
    monkeypatch.setattr(reading, "MAX_MEMORY", 100_000)
    monkeypatch.setattr(reading, "MANY_KEYS", 500)
    check_size(json.dumps({"a": "x" * 10**6}))
    for hostile in ([[]] * 20_000, [{}] * 20_000, [1] * 50_000, ["\U0001f600"] + ["123456789"] * 10_000):
        with pytest.raises(TooMuchError):
            check_size(json.dumps(hostile, separators=(",", ":"), ensure_ascii=False))
    entry = {"job": "j1", "placed": True, "variant": "v", "ps": 1, "workers": 1, "completion_s": 1.0}
    check_size(json.dumps([entry] * 10_000))
    different = json.dumps([{f"one{k}": 1, f"two{k}": 2, "three": "123456789"} for k in range(2_000)])
    with pytest.raises(TooMuchError):
        check_size(different)


def test_keys_are_told_from_texts_that_look_like_them() -> None:
    """Escaped quotes hide no key and make none, and a text that never ends is searched once."""
    many = reading._has_many_keys
    assert not many(json.dumps(['"a":' * 300_000, {'b"': 1, "c\\": 2}]))
    assert many(json.dumps({f'k"{number}"': 1 for number in range(250_000)}))
    began = time.perf_counter()
    assert not many('"' + '\\"' * 500_000)
    assert time.perf_counter() - began < SOON_S


def test_numbers_of_thousands_of_digits_are_not_finite() -> None:
    """Python refuses to read them at once; the field then says what is wrong."""
    assert parse_json("[-" + "1" * 5_000 + ", 2]") == [float("-inf"), 2]
    assert "is not text" in str(refusal(lambda: parse_instance({**ALLOCATION, "name": 10**3_999})))


# YAML


def test_large_yaml_is_refused_before_it_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to write instead."""
    monkeypatch.setattr(reading, "parse_yaml", None)
    said = refused(tmp_path, "a: " + "x" * reading.MAX_YAML_BYTES, "yaml")
    assert "at most 2,097,152 are read: write it as JSON, or move its lists to CSV or Parquet tables" in said


def test_without_its_c_library_yaml_has_a_lower_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyYAML alone is ten times as slow."""
    assert reading.MAX_YAML_BYTES_SLOW < reading.MAX_YAML_BYTES
    monkeypatch.setattr(reading, "MAX_YAML", reading.MAX_YAML_BYTES_SLOW)
    assert "at most 131,072 are read" in refused(tmp_path, "a: " + "x" * 150_000, "yaml")


@pytest.mark.parametrize("text", ["[" * 500_000, "{a: " * 300_000, "- " * 500_000, "? " * 500_000])
def test_deep_yaml_ends_neither_the_process_nor_the_day(tmp_path: Path, text: str) -> None:
    """PyYAML's loader took minutes, and then the process went down with it."""
    assert "is nested too deeply" in refused(tmp_path, text, "yaml")


def test_nesting_up_to_the_limit_is_read() -> None:
    """A hundred levels, and not one more."""
    text = "[" * reading.DEEPEST + "]" * reading.DEEPEST
    assert parse_document(text, "d", ".yaml") == json.loads(text)
    assert "too deeply" in str(refusal(lambda: parse_document(f"[{text}]", "d", ".yaml")))


def test_aliases_count_as_what_they_stand_for(tmp_path: Path) -> None:
    """A document of a line that means a million values is not written out."""
    tens = "".join(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]\n" for k in range(1, 8))
    said = refused(tmp_path, "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + tens, "yaml")
    assert "more than 1,000,000 values once its aliases are written out" in said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: &x [*x]", "an alias refers to itself"),
        ("a: *x", "found undefined alias 'x'"),
        ("? [1]\n: 2", "a key is not plain text"),
        ("a: 1\na: 2", "the key 'a' stands twice"),
        ("<<: {a: 1}", "merge keys"),
        ("a: !!python/object:os.system x", "which means nothing here"),
        ("!!python/object/apply:os.system [x]", "which means nothing here"),
        ("a: !local 3", "which means nothing here"),
        ("a: !!set {b}", "which means nothing here"),
        ("a: !!int x", "does not fit its tag"),
        ("a: !!bool no", "does not fit its tag"),
        ("--- 1\n--- 2", "a second document"),
        ("a: [1", "is not valid YAML"),
        ("a: \x07", "is not valid YAML"),
    ],
)
def test_yaml_that_is_no_plain_data_is_one_fault(text: str, expected: str) -> None:
    """What means more than lists, mappings and scalars is refused, with its place."""
    error = refusal(lambda: parse_document(text, "d", ".yaml"))
    assert expected in str(error)


def test_yaml_scalars_mean_what_yaml_1_2_says() -> None:
    """Numbers with exponents are numbers, `no` and dates are text, and tags and quotes decide."""
    text = """
    a: [1, -2, +3, 010, 1.5, .5, 1e-3, 1E3, .inf, -.inf, true, False, null, ~, , 'no']
    b: [no, on, 2024-01-01, 1_000, 0x10, 1:30, "1", '1', !!str 1, !!float 1, !!int "7"]
    """.replace(", ,", ", '',")
    data = parse_document(text, "d", ".yaml")
    assert data["a"][:13] == [
        1,
        -2,
        3,
        10,
        1.5,
        0.5,
        1e-3,
        1e3,
        float("inf"),
        float("-inf"),
        True,
        False,
        None,
    ]
    assert data["b"] == ["no", "on", "2024-01-01", "1_000", "0x10", "1:30", "1", "1", "1", 1.0, 7]
    assert parse_document("# nothing\n---\n", "d", ".yaml") is None
    assert parse_document("a: &x {b: 1}\nc: *x\n", "d", ".yaml") == {"a": {"b": 1}, "c": {"b": 1}}


def test_a_document_too_large_for_yaml_is_not_saved_as_yaml(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written can be read again."""
    monkeypatch.setattr("clusterplan.instances.documents.MAX_YAML", 1_000)
    instance = generate_allocation(20, seed=1)
    with pytest.raises(OptionError, match=r"write \.json"):
        save(instance, tmp_path / "d.yaml")
    assert not (tmp_path / "d.yaml").exists()
    save(instance, tmp_path / "d.json")
    assert load(tmp_path / "d.json").sha256() == instance.sha256()


# Many of something that is short to say


def test_a_million_servers_in_a_line_are_counted_and_not_made(tmp_path: Path) -> None:
    """Checking names needs no object for each server."""
    document = {**CONSOLIDATION, "servers": [{"name": "s", "count": 1_000_000, "capacity": {"gpu": 8}}]}
    document["jobs"] = [{"name": "a", "tasks": 1, "task_demand": {"gpu": 1}, "current": {"s-999999": 1}}]
    path = tmp_path / "d.json"
    path.write_text(json.dumps(document))
    began = time.perf_counter()
    instance = load(path)
    assert time.perf_counter() - began < SOON_S
    assert isinstance(instance, ConsolidationInstance)
    assert "expanded_servers" not in vars(instance)


def test_unknown_names_are_looked_up_and_not_searched(tmp_path: Path) -> None:
    """A set of all known names was made for each name."""
    types = [{"name": f"t{k}", "price_usd_per_hour": 1} for k in range(1_000)]
    unknown = {f"u{k}": 1.0 for k in range(1_000)}
    layers = [
        {"name": f"l{k}", "compute_parallel": 0.5, "compute_s": {"t1": 1}, "communication_s": unknown}
        for k in range(200)
    ]
    said = refused(tmp_path, json.dumps({**STAGING, "types": types, "layers": layers}))
    assert "unknown type 'u0'; the types are: t0, t1" in said
    assert "… and 199,900 more faults" in said


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({**ALLOCATION, "resources": {f"r{k}": 1 for k in range(1_001)}}, "resources: has 1,001 entries"),
        ({**STAGING, "types": [{"name": "t"}] * 1_001}, "types: has 1,001 entries; at most 1,000 needed"),
        (
            {**STAGING, "layers": [{"name": "l"}] * 20_001},
            "layers: has 20,001 entries; at most 20,000 needed",
        ),
        ({**CONSOLIDATION, "objectives": ["value"] * 30}, "objectives: has 30 entries; at most 10 needed"),
    ],
)
def test_lists_and_mappings_have_a_greatest_length(
    tmp_path: Path, document: dict[str, Any], expected: str
) -> None:
    """They are not validated entry by entry before that is found out."""
    assert expected in refused(tmp_path, json.dumps(document))


# CSV


def table(tmp_path: Path, content: str | bytes) -> str:
    """Return what is said of a CSV table of jobs."""
    (tmp_path / "t.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    return refused(tmp_path, json.dumps({**ALLOCATION, "jobs": "t.csv"}))


def test_columns_by_the_thousand_are_counted_and_not_compared(tmp_path: Path) -> None:
    """A hundred thousand of them were each compared with the fields."""
    wide = ",".join(f"c{k}" for k in range(100_000))
    assert "has 100,000 columns; at most 5,000 are read" in table(tmp_path, f"{wide}\n{wide}\n")


def test_a_row_has_a_greatest_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quote that is never closed makes one row of all that follows."""
    monkeypatch.setattr(csv_tables, "LONGEST_ROW", 10_000)
    for content in ("name\n" + "," * 20_000, 'name\n"' + "a\n" * 20_000, "name\n" + '"a\n",' * 4_000):
        assert "a row has more than 10,000 characters, or a quote is never closed" in table(tmp_path, content)


def test_a_table_has_a_greatest_number_of_lines(tmp_path: Path) -> None:
    """Blank lines count, for somebody has to look at them."""
    assert "has 2,000,002 lines; at most 2,000,000 are read" in table(tmp_path, "name\n" + "\n" * 2_000_001)
    small = refusal(lambda: csv_tables.parse_table("name\n" + "\n" * 500_000, "t"))
    assert "has more than 500,000 lines" in str(small)


def test_ragged_rows_end_the_reading(tmp_path: Path) -> None:
    """A hundred are named, however many there are."""
    for rows in (300, 30_000):
        said = table(tmp_path, "name,b\n" + "a\n" * rows)
        assert said.count("has 1 cells; the header has 2") == MAX_FAULTS
        assert "perhaps more" in said


def test_a_table_that_is_read_row_by_row_has_fewer_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its cells becomes an object."""
    monkeypatch.setattr(csv_tables, "MAX_SMALL_CELLS", 100)
    csv_tables.parse_table("name,b\n" + "a,\n" * 100, "t")
    error = refusal(lambda: csv_tables.parse_table("name,b\n" + "a,1\n" * 100, "t"))
    assert "has more than 100 filled cells" in str(error)


# Parquet


def test_parquet_whose_statistics_contradict_its_schema_does_not_end_the_process(tmp_path: Path) -> None:
    """Levels were counted for a column that may be empty, and the schema says that it may not."""
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"name": ["a", "b"]}), path)
    optional, required = b"\x25\x02\x18\x04name", b"\x25\x00\x18\x04name"
    data = path.read_bytes()
    assert data.count(optional) == 1
    path.write_bytes(data.replace(optional, required))
    (tmp_path / "d.json").write_text(json.dumps({**ALLOCATION, "jobs": "t.parquet"}))
    done = subprocess.run(
        [sys.executable, "-m", "clusterplan", "validate", str(tmp_path / "d.json")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "t.parquet: cannot be read as a Parquet file" in done.stderr


def test_parquet_is_refused_by_what_it_says_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of kilobytes that becomes gigabytes is not opened any further."""
    monkeypatch.setattr(tables, "_read_whole", None)
    path = tmp_path / "t.parquet"
    document = tmp_path / "d.json"
    document.write_text(json.dumps({**ALLOCATION, "jobs": "t.parquet"}))
    ones = pa.array([1.0] * 100_000)
    for bomb, expected in (
        (pa.table({f"c{k}": pa.array([1.0]) for k in range(6_000)}), "of 6,000 columns; at most"),
        (
            pa.table({"name": ["a" * 30_000] * 1_000 + [f"{k}" + "a" * 39_000 for k in range(8_000)]}),
            "512 MiB",
        ),
        (pa.table({f"c{k}": ones for k in range(1_001)}), "100,000 rows of 1,001 columns; at most"),
    ):
        parquet.write_table(bomb, path, compression="zstd")
        assert path.stat().st_size < 3_000_000
        assert expected in str(refusal(lambda: load(document)))
    parquet.write_table(pa.table({"name": ["a"] * 20_000}), path, row_group_size=1)
    assert "has 20,000 groups of rows" in str(refusal(lambda: load(document)))


def test_a_text_beside_a_null_in_a_dictionary_is_not_written_out(tmp_path: Path) -> None:
    """One long text in each of a million rows is held once, even where the dictionary has a null."""
    codes = pa.array([0, 1] * 100_000, pa.int32())
    words = pa.array(["a" * 30_000, None])
    column = pa.DictionaryArray.from_arrays(codes, words)
    plain = tables._plain(pa.chunked_array([column]), "name", "t")
    assert plain.nbytes < 2_000_000
    assert plain.null_count == 100_000
    assert plain[0].as_py() == "a" * 30_000


# Importers


@pytest.mark.parametrize(
    "call",
    [
        lambda folder: import_tiresias(
            put(folder / "j.csv", "job_id,num_gpu,model_name\n" + "1,x,m\n" * 5_000),
            put(folder / "c.csv", "num_switch\n1\n"),
        ),
        lambda folder: read_trace(put(folder / "a.trace", "a\tb\n" * 5_000)),
        lambda folder: read_trace(put(folder / "a.trace", "A\tc\td\t-n\t0\tx\t1\t1\t-1\t0\n" * 5_000)),
        lambda folder: speeds_of(
            read_table(put(folder / "s.json", json.dumps({"v": {f"k{k}": 1 for k in range(5_000)}}))),
            "v",
            "s",
        ),
        lambda folder: read_pipedream(put(folder / "g.txt", "x\n" * 5_000)),
        lambda folder: read_pipedream(put(folder / "g.txt", "\tx -- y\n" * 5_000)),
        lambda folder: fit_speed(put(folder / "m.csv", "workers,steps_per_s\n" + "1,x\n" * 5_000)),
        lambda folder: import_pollux(
            [
                put(
                    folder / "app" / "placements.csv", "placement,local_bsz,step_time\n" + "1,x,1\n" * 5_000
                ).parent
            ],
            4,
        ),
    ],
)
def test_importers_stop_at_the_hundredth_fault(tmp_path: Path, call: Callable[[Path], Any]) -> None:
    """What they read is as little trusted as a document."""
    error = refusal(lambda: call(tmp_path))
    assert len(error.faults) <= MAX_FAULTS
    assert error.stopped or error.more or len(error.faults) < 10


def put(path: Path, text: str) -> Path:
    """Write a file; return its path."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


# Results and certificates


def result_of(name: str, **altered: Any) -> tuple[clusterplan.instances.common.base.Instance, dict[str, Any]]:
    """Return a bundled example, and its result with other fields."""
    instance = load(f"example:{name}")
    return instance, {**json.loads(clusterplan.solve(instance).to_json()), **altered}


def test_a_plan_with_more_entries_than_jobs_is_not_read() -> None:
    """How many there can be follows from the instance."""
    instance, data = result_of("optimus-testbed")
    (fault,) = verify_stored(instance, {**data, "plan": data["plan"] * 1_000}, "r").faults
    assert re.fullmatch(r"plan: has [0-9,]+ entries; a plan of the instance has at most 9", fault)
    faults = verify_stored(instance, {**data, "plan": [{}] * 9, "colour": 1}, "r").faults
    assert "plan[0].job: is missing; it must be given" in faults


def test_a_result_full_of_faults_is_read_no_further_than_a_document() -> None:
    """Unknown keys, wrong entries and long lists are each few faults."""
    instance, data = result_of("optimus-testbed")
    for part, expected in (
        ({f"k{k}": 1 for k in range(50_000)}, "keys, such as 'k0'"),
        ({"trace": [1] * 50_000}, "trace[0]"),
        ({"objectives": [{}] * 50_000}, "objectives: has 50,000 entries; at most 16 needed"),
        ({"prices": dict.fromkeys(map(str, range(50_000)), 1)}, "prices: has 50,000 entries"),
        ({"diagnosis": {"reasons": [1] * 50_000}}, "diagnosis.reasons[0]"),
    ):
        began = time.perf_counter()
        faults = verify_stored(instance, {**data, **part}, "r").faults
        assert time.perf_counter() - began < SOON_S
        assert expected in faults[0]
        assert len(faults) <= MAX_FAULTS + 1


@pytest.mark.parametrize(
    ("name", "certificate"),
    [
        ("optimus-testbed", {"cutoff": 1, "prices": dict.fromkeys(map(str, range(50_000)), 1)}),
        ("optimus-testbed", {"cutoff": 1, "prices": dict.fromkeys(map(str, range(900)), "x")}),
        ("heterps-ctr", {"intervals": [{}] * 50_000}),
        ("heterps-ctr", {"intervals": [{"until_s": 1}] * 100_001}),
        ("heterps-ctr", {"intervals": [{"until_s": 1, "prices": {f"p{k}": 1 for k in range(50_000)}}]}),
        ("parameter-server-traffic", {"goals": [{}] * 50_000}),
        ("parameter-server-traffic", {"goals": [{"objective": "value", "prices": [["x"] * 50_000]}]}),
        ("parameter-server-traffic", {"goals": [{"objective": "value", "prices": [[1]] * 50_000}]}),
    ],
)
def test_a_hostile_certificate_is_one_fault(name: str, certificate: dict[str, Any]) -> None:
    """Its lists are no longer than the instance allows, and its first error is enough."""
    instance, data = result_of(name, certificate=certificate)
    began = time.perf_counter()
    verification = verify_stored(instance, data, "r")
    assert time.perf_counter() - began < SOON_S
    assert not verification.ok
    assert any(fault.startswith("certificate: ") and len(fault) < 1_000 for fault in verification.faults)


def test_a_file_of_spaces_or_of_too_much_is_soon_refused(tmp_path: Path) -> None:
    """Blanks between results are skipped at once, and what would not fit into memory is not parsed."""
    path = tmp_path / "r.json"
    path.write_text(" " * 3_000_000 + "{}" + " " * 3_000_000)
    assert "is not a result" in str(refusal(lambda: read_results(path)))
    path.write_text("[" + "{}," * 3_000_000 + "{}]")
    assert "more than are read from a file of this size" in str(refusal(lambda: read_results(path)))


def test_a_verification_names_the_first_hundred_faults() -> None:
    """The others are counted."""
    found = Verification(
        instance="x", ok=False, complete=False, faults=tuple(f"fault {k}" for k in range(1_000))
    )
    assert len(found.faults) == MAX_FAULTS + 1
    assert found.faults[-1] == "… and 900 more faults"
    assert Verification.model_validate_json(found.model_dump_json()) == found


# The reference


def test_the_reference_lists_the_limits() -> None:
    """The table in the documentation says what the code does."""
    text = (ROOT / "docs" / "reference" / "schema.md").read_text(encoding="utf-8")
    section = text.partition("## Limits")[2].partition("\n## ")[0]
    for name in (
        "MAX_YAML_BYTES",
        "MAX_YAML_BYTES_SLOW",
        "DEEPEST",
        "MAX_VALUES",
        "MAX_ENTRIES",
        "MAX_COLUMNS",
        "LONGEST_ROW",
        "MAX_ROWS",
        "MAX_CELLS",
        "MAX_SMALL_ROWS",
        "MAX_SMALL_CELLS",
        "LONGEST_TEXT",
    ):
        assert re.search(rf"\b{getattr(reading, name):,}\b", section), name
    assert f"{reading.MAX_MEMORY // 10**6} MB" in section
    assert f"{reading.MAX_TABLE_BYTES // 2**20} MiB" in section
