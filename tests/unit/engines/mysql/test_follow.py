"""The position from which a clone that is a replica goes on: by GTIDs where MySQL has them, else by
position."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.engines.mysql.test_recovery_of_files import Log, record
from zbackup.engines.mysql.recovery import adopt
from zbackup.engines.mysql.recovery.adopt import follow, statements
from zbackup.model.cloning import SourceServer
from zbackup.model.errors import DatabaseError
from zbackup.model.log import LogPosition
from zbackup.model.recovery import RecoveryFiles

SOURCE = SourceServer(host="db", port=3306, user="re'pl", password=lambda: "it's")
START = LogPosition.of("binlog.000007", 4711)


@pytest.mark.parametrize(
    ("flavor", "recorded", "where"),
    [
        ("mysql", {"gtid_mode": "ON"}, "SOURCE_AUTO_POSITION = 1"),
        ("mysql", {"gtid_mode": "OFF"}, "SOURCE_LOG_FILE = 'binlog.000007', SOURCE_LOG_POS = 4711"),
        ("mysql", {}, "SOURCE_LOG_FILE = 'binlog.000007', SOURCE_LOG_POS = 4711"),
        ("mariadb", {}, "MASTER_LOG_FILE = 'binlog.000007', MASTER_LOG_POS = 4711, MASTER_USE_GTID = no"),
    ],
)
def test_from_the_end_of_the_snapshot(flavor: str, recorded: dict[str, str], where: str) -> None:
    change, start = statements(flavor, recorded, SOURCE, START)
    assert change.endswith(where)
    assert "'re''pl'" in change and "'it''s'" in change
    assert start.startswith("START ")


def test_the_password_is_not_in_its_representation() -> None:
    assert "it's" not in repr(SOURCE)


class Replica:
    """A clone's server that is told to replicate, and what it says of that, one look after the other."""

    def __init__(self, flavor: str, *looks: tuple[str, str, str]) -> None:
        self.words = "Replica" if flavor == "mysql" else "Slave"
        self.looks = list(looks)
        self.did: list[str] = []

    def execute(self, statement: str) -> None:
        self.did.append(statement)

    def one(self, statement: str) -> dict[str, str]:
        assert statement == f"SHOW {self.words.upper()} STATUS" and len(self.did) == 2
        receiving, applying, error = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return {
            f"{self.words}_IO_Running": receiving,
            f"{self.words}_SQL_Running": applying,
            "Last_IO_Error": error if applying == "Yes" else "",
            "Last_SQL_Error": "" if applying == "Yes" else error,
        }


@pytest.fixture
def cloned(tmp_path: Path) -> RecoveryFiles:
    """A clone of a backup that ends in the second file; the third its own server has begun, with a commit."""
    log = Log(tmp_path)
    log.commit(10)
    log.rotate()
    log.commit(20)
    end = log.end()
    log.rotate()
    log.commit(30)
    held = replace(record(end), log_to=str(end))
    return RecoveryFiles(record=held, where=log.copy("clone"), home=tmp_path, run=tmp_path, hide=())


def following(flavor: str, files: RecoveryFiles, replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000, 7))
    monkeypatch.setattr(adopt.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(adopt.time, "sleep", lambda _: None)
    server = SimpleNamespace(files=files, flavor=flavor)
    follow(cast(Any, SimpleNamespace(server=server, connection=replica)), SOURCE)


CONNECTING, UP = ("Connecting", "Yes", ""), ("Yes", "Yes", "")


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_it_goes_on_behind_the_last_transaction_that_came_from_production(
    cloned: RecoveryFiles, flavor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = Replica(flavor, CONNECTING, ("Yes", "No", ""), UP)
    following(flavor, cloned, replica, monkeypatch)
    end = LogPosition.parse(cloned.record.log_to)
    assert f"_LOG_FILE = '{end.file}'" in replica.did[0] and f"_LOG_POS = {end.offset}" in replica.did[0]
    assert replica.looks == [UP], "it is waited for until both run"


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
@pytest.mark.parametrize(
    ("look", "why"),
    [
        (("Connecting", "Yes", "Access denied for user 'repl'"), "Access denied for user 'repl'"),
        (("Yes", "No", "Duplicate entry"), "Duplicate entry"),
        (CONNECTING, "no connection in time"),
        (("Yes", "No", ""), "no connection in time"),
    ],
)
def test_a_clone_that_does_not_get_there_is_told_why(
    cloned: RecoveryFiles, flavor: str, look: tuple[str, str, str], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DatabaseError, match=f"cannot replicate production: {why}"):
        following(flavor, cloned, Replica(flavor, look), monkeypatch)
