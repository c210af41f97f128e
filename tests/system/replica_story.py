"""Backups of a replica: `test_replica.py` tells it.

A replica's data are as of the source's commits that it has applied, whatever the clock says meanwhile. The
moments here are times at the source, and the judge is what the source held then.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.lab.load import Load, verify
from tests.lab.mysql_fixture import DatabaseServer
from tests.system.house import House, after_writing, checksums, next_second, utc, wait_until
from tests.system.zfs_door import ZfsDoor

THREADS, RATE = 3, 60.0


@dataclass(frozen=True, kw_only=True)
class History:
    """What happened at the source, and when the replica was backed up."""

    journal: Path
    early: dict[str, Any]
    """The backup of a replica that kept up."""
    stopped: datetime
    """When the applier was stopped; what the source committed from then on came to the replica much later."""
    lagging: dict[str, Any]
    """The backup of the replica with its applier stopped."""
    missed: datetime
    """A moment between the two: the source had it when the lagging backup was taken, the replica had not."""
    quiet: datetime
    sums: dict[str, int | None]
    """The source's checksums at `quiet`."""
    last: dict[str, Any]
    """The backup after the replica had caught up."""


@pytest.fixture(scope="module")
def history(house: House, source: House) -> Iterator[History]:
    """Let it happen, and let the replica lag."""
    journal = house.home / "journal"
    ftwrl = house.configure("ftwrl", lock="ftwrl")
    with Load.start(source.server, THREADS, RATE, journal):
        wait_until("the load is replicated", lambda: "workload.ledger" in house.server.tables(), 90)
        house.server.catch_up(source.server)
        early = house.snapshot(ftwrl)
        assert applier_runs(house.server)
        after_writing(journal, 60)
        stop_applier(house.server)
        stopped = next_second()
        missed = after_writing(journal, 60)
        next_second()
        after_writing(journal, 60)
        lagging = house.snapshot(ftwrl)
        assert not applier_runs(house.server), "an applier that somebody else had stopped was started"
        start_applier(house.server)
        after_writing(journal, 60)
    quiet = next_second()
    sums = source.server.checksum()
    with Load.start(source.server, THREADS, RATE, journal):
        after_writing(journal, 60)
    house.server.catch_up(source.server)
    last = house.snapshot(ftwrl)
    yield History(
        journal=journal,
        early=early,
        stopped=stopped,
        lagging=lagging,
        missed=missed,
        quiet=quiet,
        sums=sums,
        last=last,
    )


class ReplicaStory:
    """The tests, in the order of the story."""

    def test_a_backup_of_a_replica_says_what_it_is_as_of(self, house: House, history: History) -> None:
        early, lagging, last = (_listed(house, b) for b in (history.early, history.lagging, history.last))
        assert [b["role"] for b in (early, lagging, last)] == ["replica"] * 3
        assert utc(lagging["taken"]) > history.missed
        for edge in ("as_of", "complete_to"):
            assert utc(lagging[edge]) <= history.stopped
        assert utc(last["as_of"]) > history.quiet

    def test_the_applier_pauses_for_the_lock_and_runs_again(
        self, house: House, source: House, history: History, door: ZfsDoor
    ) -> None:
        door.slow("snapshot", 1)
        journal = history.journal
        with Load.start(source.server, THREADS, RATE, journal):
            ftwrl, environment = house.home / "ftwrl.toml", door.environment
            taking = house.begin("snapshot", "--json", config=ftwrl, environment=environment, forked=True)
            wait_until("the lock is held", lambda: door.waiting, 90)
            assert not applier_runs(house.server)
            assert taking.end().data[0]["snapshot"]["lock"] == "ftwrl"
            assert applier_runs(house.server)
            after_writing(journal, 20)
        house.server.catch_up(source.server)
        assert house.sessions() == []

    def test_a_moment_is_one_of_the_source_however_late_the_replica_was(
        self, house: House, history: History
    ) -> None:
        report = house.restore(history.missed, "missed")
        assert report["base"]["backup"] in (history.early["backup"], history.lagging["backup"])
        assert report["log"]["backup"] == history.last["backup"], "the lagging backup cannot hold it"
        with house.clone(report) as clone:
            verdict = verify(clone, history.journal, utc(report["replay"]["effective_target"]))
            assert verdict.required > 0
        house.destroy("missed")

    def test_what_is_restored_equals_the_source_and_does_not_replicate(
        self, house: House, source: House, history: History
    ) -> None:
        report = house.restore(history.quiet, "quiet")
        assert report["base"]["backup"] == history.lagging["backup"]
        with house.clone(report) as clone:
            assert checksums(clone, list(history.sums)) == history.sums
            with clone.cursor() as cursor:
                mysql = house.server.settings.kind == "mysql"
                assert cursor.execute("SHOW REPLICA STATUS" if mysql else "SHOW ALL SLAVES STATUS") == 0
        assert house.zb("clone", "stop", "quiet", "--json").data["running"] is False
        assert house.zb("clone", "start", "quiet", "--json").data["running"] is True
        assert dumps(source.server) == 1, "somebody else than the replica reads the source's log"
        house.destroy("quiet")

    def test_a_replica_that_does_not_log_what_it_applies_is_refused(
        self, house: House, source: House, history: History
    ) -> None:
        logging = house.server
        logging.stop()
        house.server = DatabaseServer(replace(logging.settings, log_replica_updates=False))
        with house.server:
            wait_until("the applier runs", lambda: applier_runs(house.server), 60)
            checked = house.zb("check", "--json")
            findings = {f["subject"]: f for f in json.loads(checked.out)["data"][0]["findings"]}
            assert checked.rc == 9
            assert "does not log what it applies" in findings["recovery"]["text"]
            taken = house.zb("snapshot", "--json").data[0]
            assert any("does not log what it applies" in text for text in taken["warnings"])
            source.server.sql("UPDATE shop.customers SET email = CONCAT('later', id)")
            house.server.catch_up(source.server)
            before = house.state()
            said = house.zb(*house.restoring("now", "never"), "-q").refused(9)
            assert "does not log what it applies" in said
            assert taken["snapshot"]["name"] in said
            assert house.state() == before


def _listed(house: House, backup: dict[str, Any]) -> dict[str, Any]:
    """As `zbackup list` shows it."""
    return next(listed for listed in house.backups() if listed["backup"] == backup["backup"])


def applier_runs(server: DatabaseServer) -> bool:
    """Whether the replica's applier runs."""
    if server.settings.kind == "mysql":
        rows = server.sql("SELECT SERVICE_STATE FROM performance_schema.replication_applier_status")
    else:
        rows = server.sql(
            "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS"
            " WHERE VARIABLE_NAME = 'SLAVE_RUNNING'"
        )
    return str(rows[0][0]) == "ON"


def stop_applier(server: DatabaseServer) -> None:
    """Stop the applier alone: the log is still received."""
    server.sql(f"STOP {_word(server)} SQL_THREAD")


def start_applier(server: DatabaseServer) -> None:
    """Start it again."""
    server.sql(f"START {_word(server)} SQL_THREAD")


def dumps(server: DatabaseServer) -> int:
    """How many replicas read this server's log."""
    rows = server.sql("SELECT COMMAND FROM information_schema.PROCESSLIST")
    return sum(str(row[0]).startswith("Binlog Dump") for row in rows)


def _word(server: DatabaseServer) -> str:
    return "REPLICA" if server.settings.kind == "mysql" else "SLAVE"
