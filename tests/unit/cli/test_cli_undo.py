"""Output of zbackup undo."""

import json

import pytest

from tests.unit.undone import report
from zbackup.cli.options import Options
from zbackup.cli.output import AlreadyPrinted, emit_incomplete
from zbackup.features.undo.command import confirmed, incomplete, shape, text
from zbackup.model.errors import CopyIncomplete, UsageError
from zbackup.model.log import ClusterTime
from zbackup.model.transaction_name import parse_named


def test_a_dry_run_is_sql_with_all_else_in_comments() -> None:
    said = text(report(deleted=1, refused=1, conflicts=("id=8: a\nb",)), "now", dry_run=True).splitlines()
    assert [line for line in said if not line.startswith("--")] == list(report().statements)
    assert any("id=8: a" in line for line in said)


def test_conflicts_and_what_no_log_holds_are_not_passed_over() -> None:
    assert incomplete(report(deleted=1, already=2), dry_run=False) is None
    why = incomplete(report(refused=1, conflicts=("id=8",)), dry_run=False)
    assert "was not taken back whole: 1 left, id=8" in str(why)
    why = incomplete(report(unlogged=("rows of shop.lines",)), dry_run=True)
    assert "would not be" in str(why) and "rows of shop.lines" in str(why)


def test_nobody_who_can_be_asked_is_an_error() -> None:
    with pytest.raises(UsageError, match="--yes"):
        confirmed(yes=False)(report(deleted=1))
    confirmed(yes=True)(report(deleted=1))


def test_json_has_the_statements_of_a_dry_run_alone() -> None:
    assert shape(report(deleted=1), dry_run=True)["statements"] == list(report().statements)
    done = shape(report(deleted=1), dry_run=False)
    assert done["statements"] is None and done["tables"][0]["deleted"] == 1


def test_a_transaction_of_mongodb_is_named_as_zbackup_log_shows_it() -> None:
    assert parse_named("1714557720,3@7") == parse_named(" 1714557720,3") == ClusterTime(1714557720, 3)
    assert str(parse_named("0-1-7")) == "0-1-7"
    with pytest.raises(UsageError, match="names no transaction"):
        parse_named("1714557720")


def test_a_conflict_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    why = incomplete(report(refused=1, conflicts=("id=8",)), dry_run=False)
    with pytest.raises(AlreadyPrinted) as told:
        emit_incomplete(Options(json=True), "undo", {"left": 1}, lambda: "text", why)
    assert told.value.by is why
    document = json.loads(capsys.readouterr().out)
    assert document["data"] == {"left": 1}
    assert (document["error"]["kind"], document["error"]["exit_status"]) == ("CopyIncomplete", 17)
    with pytest.raises(CopyIncomplete):
        emit_incomplete(Options(json=False), "undo", {"left": 1}, lambda: "text", why)
    assert capsys.readouterr().out == "text\n"
    emit_incomplete(Options(json=True), "undo", {"left": 0}, lambda: "text", None)
    assert "error" not in json.loads(capsys.readouterr().out)
