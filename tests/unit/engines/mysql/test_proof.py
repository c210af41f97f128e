"""The proof of how far a base has recovered, against what was recorded of it."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.samples import PLAIN
from zbackup.engines.mysql.recovery.verify_replay import require_recorded_state
from zbackup.model.errors import VerificationFailed
from zbackup.model.record import Record

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def prove(tmp_path: Path, record: Record, row: dict[str, str]) -> None:
    """With a log that ends where it was recorded to, and a server that answers this row."""
    newest = tmp_path / "binlog.000012"
    newest.write_bytes(bytes(4711))
    require_recorded_state(cast(Any, SimpleNamespace(one=lambda _: row)), record, newest)


@pytest.mark.parametrize("lock", ["ftwrl", "backup-lock", "none"])
def test_gtids_that_are_missing_are_refused_under_any_lock(tmp_path: Path, lock: Any) -> None:
    record = replace(PLAIN, lock=lock)
    with pytest.raises(VerificationFailed, match=r"missing 3e11fa47.*:77, extra none"):
        prove(tmp_path, record, {"missing": f"{UUID}:77", "extra": ""})


def test_what_is_more_is_refused_only_where_the_log_stood_still(tmp_path: Path) -> None:
    more = {"missing": "", "extra": f"{UUID}:78"}
    prove(tmp_path, replace(PLAIN, lock="backup-lock"), more)
    with pytest.raises(VerificationFailed, match=r"missing none, extra 3e11fa47.*:78"):
        prove(tmp_path, PLAIN, more)


def test_the_same_is_what_was_recorded(tmp_path: Path) -> None:
    prove(tmp_path, PLAIN, {"missing": "", "extra": ""})


@pytest.mark.parametrize(
    ("position", "refused"),
    [("0-1-7,1-1-4", ""), ("0-1-6,1-1-4", "missing domain 0, extra none"), ("0-1-7", "missing domain 1")],
)
def test_mariadb_by_domains(tmp_path: Path, position: str, refused: str) -> None:
    record = replace(PLAIN, engine="mysql", gtid="0-1-7,1-1-4")
    record = replace(record, engine="mariadb", lock="backup-lock", position="binlog.000012:4711")
    if not refused:
        prove(tmp_path, record, {"pos": position})
        return
    with pytest.raises(VerificationFailed, match=refused):
        prove(tmp_path, record, {"pos": position})
