"""Journals: a line that was altered counts for nothing, and whoever reads it is told."""

from __future__ import annotations

import csv
import json
import random
import re
import shutil
from pathlib import Path

import pytest
from command_line import Done
from command_line import run_here as run

from clusterplan.instances.common.errors import InstanceError
from clusterplan.planner.batch.solve_many import Journal, read_journal
from clusterplan.planner.batch.task import Record
from clusterplan.planner.stored_results import Line, journal_lines, read_results, sealed

EXAMPLES = ("example:optimus-testbed", "example:heterps-ctr", "example:tiresias-testbed")


def resume(folder: Path) -> Done:
    """Continue the batch of the examples in a folder, or start it."""
    return run("solve", *EXAMPLES, "--jobs", "1", "--seed", "1", "--output", folder, "--resume")


def in_line(journal: Path, number: int, pattern: bytes, replacement: bytes) -> None:
    """Alter a line of a journal."""
    text = journal.read_bytes().splitlines(keepends=True)
    text[number - 1], count = re.subn(pattern, replacement, text[number - 1], count=1)
    assert count == 1
    journal.write_bytes(b"".join(text))


def all_lines(journal: Path) -> list[Line]:
    """Return the lines of a journal."""
    with journal.open("rb") as file:
        return list(journal_lines(file))


def asked(journal: Path) -> dict[str, object]:
    """Return what a journal's head says."""
    options: dict[str, object] = json.loads(journal.read_bytes().splitlines()[0])["asked"]
    return options


def objectives(folder: Path) -> list[str]:
    """Return the objectives in the summary of a batch."""
    with (folder / "summary.csv").open(newline="") as file:
        return [row["objective"] for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a batch of three examples."""
    folder = tmp_path_factory.mktemp("batch")
    assert resume(folder).returncode == 0
    return folder


@pytest.fixture
def journal(tmp_path: Path, batch: Path) -> Path:
    """Return the journal in a copy of that folder, to be altered."""
    shutil.copytree(batch, tmp_path / "out")
    return tmp_path / "out" / "journal.jsonl"


def test_an_altered_objective_is_solved_again_and_said(journal: Path) -> None:
    """It never reaches the summary, and what follows reads the new line in its place."""
    folder = journal.parent
    before = objectives(folder)
    in_line(journal, 2, rb'"objective":%s' % before[0].encode(), b'"objective":1.0')

    told = resume(folder)
    assert told.returncode == 0, told.stderr
    assert "line 2 ('example:optimus-testbed', 'auto') was altered since it was written" in told.stderr
    assert "what is missing is solved again" in told.stderr
    assert "resuming: 2 of 3 are finished" in told.stderr
    assert objectives(folder) == before
    assert [line.number for line in all_lines(journal) if line.intact] == [1, 3, 4, 5]

    checked = run("verify", EXAMPLES[0], journal)
    assert checked.returncode == 0, checked.stdout
    assert "checksum" not in checked.stderr


def test_an_altered_line_is_not_told_of_again_once_it_is_solved(
    journal: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A later line has what it had."""
    third = journal.read_bytes().splitlines(keepends=True)[2]
    in_line(journal, 3, rb'"seconds": ', b'"seconds": 9')
    Journal(journal.parent, asked(journal), resume=True).close()
    assert "line 3" in caplog.text
    caplog.clear()
    with journal.open("ab") as file:
        file.write(third)
    opened = Journal(journal.parent, asked(journal), resume=True)
    opened.close()
    assert len(opened.finished) == 3
    assert not caplog.text


def test_verify_and_report_say_that_a_checksum_does_not_match(journal: Path) -> None:
    """They derive the figures again, so what matters is found as well."""
    in_line(journal, 2, rb'"objective": ?[0-9.]+', b'"objective": 1.0')
    in_line(journal, 4, rb'"seconds": ?[0-9.]+', b'"seconds": 0.0')
    checked = run("verify", EXAMPLES[0], journal)
    assert checked.returncode == 7
    assert "checksums do not match: 2, 4" in checked.stderr
    assert "objective is stored as 1" in checked.stdout
    page = run("report", EXAMPLES[0], journal, "--output", journal.parent / "page.html")
    assert page.returncode == 2
    assert "checksums do not match: 2, 4" in page.stderr


def test_every_changed_byte_is_found(journal: Path) -> None:
    """Wherever it stands; the other lines are read as they are."""
    draw, written = random.Random(3), journal.read_bytes()
    assert sum(1 for _ in read_journal(journal.parent)) == 3
    begin = written.index(b"\n") + 1
    for _ in range(200):
        at = draw.randrange(begin, len(written) - 1)
        if written[at] == ord("\n"):
            continue
        other = draw.choice([byte for byte in range(256) if byte not in (written[at], ord("\n"))])
        journal.write_bytes(written[:at] + bytes([other]) + written[at + 1 :])
        assert sum(1 for _ in read_journal(journal.parent)) == 2


def test_a_line_that_cannot_be_read_any_more_does_not_count(
    journal: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether it is no JSON, no text, or two lines of it; a batch goes on in spite of a byte's fault."""
    in_line(journal, 3, b'"source"', b'"sou\nrce"')
    in_line(journal, 5, b'"source"', b"\xff\x00source")
    opened = Journal(journal.parent, asked(journal), resume=True)
    opened.close()
    assert list(opened.finished) == [(EXAMPLES[0], "auto")]
    assert re.findall(r"line \d", caplog.text) == ["line 3", "line 4", "line 5"]
    assert "(which cannot be read) was altered" in caplog.text
    assert len(read_results(journal)) == 1


def test_names_in_altered_lines_do_not_reach_the_terminal_raw(
    journal: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They may be anybody's, and of any length."""
    in_line(journal, 2, rb'"example:optimus-testbed"', rb'"\\u001b[2J%s"' % (b"x" * 5000))
    Journal(journal.parent, asked(journal), resume=True).close()
    assert r"line 2 ('\x1b[2Jxxx" in caplog.text
    assert max(map(len, caplog.messages)) < 500


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (rb'"gap": [^,]*', b'"gap": 0.5'),  # what was asked is another
        (rb', "sha256": "[0-9a-f]*"', b""),  # as the first format wrote it
    ],
)
def test_an_altered_or_an_old_head_is_refused(journal: Path, pattern: bytes, replacement: bytes) -> None:
    """Nobody can say what such a batch was asked for; its results can still be verified."""
    in_line(journal, 1, pattern, replacement)
    with pytest.raises(InstanceError, match=r"line 1: was altered since .* give another --output"):
        Journal(journal.parent, asked(journal), resume=True)
    assert len(read_results(journal)) == 3


def test_a_line_altered_while_the_batch_runs_is_an_error(journal: Path) -> None:
    """What was found whole when the journal was opened is looked at again when it is taken."""
    opened = Journal(journal.parent, asked(journal), resume=True)
    pair = (EXAMPLES[0], "auto")
    assert opened.read(pair).result
    in_line(journal, 2, rb'"objective": ?[0-9]', b'"objective":  ')
    with pytest.raises(InstanceError, match="altered while the batch ran"):
        opened.read(pair)
    opened.close()


def test_lines_taken_out_of_a_journal_can_be_verified(
    journal: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As they are, cut off, or laid out anew by another program, which alters the bytes."""
    head, first, second, _ = journal.read_bytes().splitlines(keepends=True)
    for text, count, said in (
        (first + second, 2, ""),
        (json.dumps(json.loads(first), separators=(",", ":")).encode() + b"\n", 1, "do not match: 1"),
        (json.dumps(json.loads(first), indent=2).encode(), 1, ""),
        (head + first + second[:-50], 1, "the last line was cut off"),
    ):
        caplog.clear()
        journal.write_bytes(text)
        assert len(read_results(journal)) == count
        assert said in caplog.text
        assert bool(said) == bool(caplog.text)


def test_a_line_true_to_its_checksum_that_is_no_record_is_refused(tmp_path: Path) -> None:
    """A second head, say, of journals that were joined."""
    journal = Journal(tmp_path, {}, resume=False)
    journal.append(Record("x", "auto", None, "is not there", 3, 0.1), None)
    journal.close()
    with journal.path.open("ab") as file:
        file.write(sealed(json.dumps({"journal": 2, "asked": {}})))
    with pytest.raises(InstanceError, match="line 3: is not of a journal"):
        Journal(tmp_path, {}, resume=True)
