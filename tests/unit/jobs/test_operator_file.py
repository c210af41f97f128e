"""An operator's notes are read as they were written, and what is no such file says nothing."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from zbackup.jobs.watch.operator_file import OperatorFile, with_acknowledgement, with_pause
from zbackup.model.errors import Refused
from zbackup.model.operator_notes import NO_NOTES, Acknowledgement, Pause, Problem

UNTIL = datetime(2024, 5, 3, 7, tzinfo=UTC)
PAUSE = Pause(until=UNTIL, reason="moving")
KNOWN = Acknowledgement(
    until=UNTIL, reason="ordered", problems=(Problem("critical", "pool", "tank DEGRADED"),)
)


@pytest.fixture
def file(tmp_path: Path) -> OperatorFile:
    return OperatorFile(tmp_path / "state", tmp_path)


def test_notes_of_several_instances(file: OperatorFile) -> None:
    assert file.read() == NO_NOTES
    file.change(lambda notes: with_pause(notes, "a", PAUSE))
    file.change(lambda notes: with_acknowledgement(notes, "b", KNOWN))
    assert file.read().paused == {"a": PAUSE} and file.read().acknowledged == {"b": KNOWN}
    file.change(lambda notes: with_pause(with_pause(notes, "a", None), "c", None))
    assert file.read().paused == {} and file.read().acknowledged == {"b": KNOWN}
    file.change(lambda notes: with_acknowledgement(with_pause(notes, "b", PAUSE), "a", KNOWN))
    file.change(lambda notes: with_acknowledgement(with_pause(notes, "a", PAUSE), "b", None))
    assert file.read().paused == {"a": PAUSE, "b": PAUSE} and file.read().acknowledged == {"a": KNOWN}


def test_notes_that_earlier_versions_wrote_are_read(file: OperatorFile) -> None:
    until = "2024-05-03T07:00:00+00:00"
    problems = [["critical", "pool", "tank DEGRADED"], ["warning", "x"]]
    file.state_dir.mkdir()
    file.path.write_text(
        f"""{{
 "version": 1,
 "paused": {{"a": {{"until": "{until}", "reason": "moving"}}}},
 "acknowledged": {{"b": {{"until": "{until}", "reason": "ordered", "problems": {json.dumps(problems)}}}}}
}}
"""
    )
    notes = file.read()
    assert notes.paused == {"a": PAUSE}
    assert notes.acknowledged == {"b": replace(KNOWN, problems=(*KNOWN.problems, Problem("warning", "x")))}


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"paused": {"a": {"until": "soon", "reason": ""}}, "acknowledged": {}}',
     '{"paused": [], "acknowledged": {}}', '{"paused": {}, "acknowledged": {"a": 3}}', "\x00" * 9,
     '{"paused": {"a": {"until": "9999-12-31T23:59:59+00:00", "reason": ""}}, "acknowledged": {}}'],
)  # fmt: skip
def test_what_makes_no_sense_says_nothing(file: OperatorFile, text: str) -> None:
    file.state_dir.mkdir()
    file.path.write_text(text)
    assert file.read() == NO_NOTES
    with pytest.raises(Refused, match=r"operator.json cannot be read .*: put it right, or move it away"):
        file.change(lambda notes: with_pause(notes, "a", PAUSE))
    assert file.path.read_text() == text


def test_why_it_cannot_be_read_is_said(file: OperatorFile) -> None:
    file.state_dir.mkdir()
    for text, why in (("{", "Expecting property name"), ("[" * 100_000, "operator.json cannot be read")):
        file.path.write_text(text)
        with pytest.raises(Refused, match=why):
            file.change(lambda notes: with_pause(notes, "a", PAUSE))


def test_a_row_that_makes_no_sense_takes_no_other_with_it(file: OperatorFile) -> None:
    file.change(lambda notes: with_pause(with_acknowledgement(notes, "b", KNOWN), "a", PAUSE))
    content = json.loads(file.path.read_text())
    content["paused"]["c"] = {"until": "soon", "reason": ""}
    content["acknowledged"]["d"] = 3
    file.path.write_text(json.dumps(content))
    assert file.read().paused == {"a": PAUSE} and file.read().acknowledged == {"b": KNOWN}
    with pytest.raises(Refused, match=r"paused\.c: 'until': Value error, ") as told:
        file.change(lambda notes: with_pause(notes, "a", None))
    assert "\n" not in str(told.value)


def test_a_link_in_its_place_is_not_followed(file: OperatorFile, tmp_path: Path) -> None:
    file.state_dir.mkdir()
    (tmp_path / "other").write_text("mine")
    file.path.symlink_to(tmp_path / "other")
    assert file.read() == NO_NOTES
    with pytest.raises(Refused):
        file.change(lambda notes: with_pause(notes, "a", PAUSE))
    assert (tmp_path / "other").read_text() == "mine" and file.path.is_symlink()


def test_what_cannot_be_written_is_one_line(file: OperatorFile, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the directory should be")
    with pytest.raises(Refused):
        file.change(lambda notes: with_pause(notes, "a", PAUSE))
