"""Conclusions from what a mongod says of itself."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from zbackup.engines.mongodb.lock.lock import long_transactions
from zbackup.engines.mongodb.optime import OplogEntry
from zbackup.engines.mongodb.server import assess, status
from zbackup.engines.mongodb.server.connection import Connection
from zbackup.engines.mongodb.server.directories import data_paths, dbpath, works_there
from zbackup.engines.mongodb.server.inspect import identity
from zbackup.engines.mongodb.server.server_facts import (
    asks_for_login,
    end_after_snapshot,
    end_under_lock,
    first_in_snapshot,
    recorded,
)
from zbackup.engines.mongodb.server.status import MongoStatus, OplogEnd, SetMembership
from zbackup.model.errors import DatabaseError, Refused
from zbackup.model.oplog_position import OplogPosition
from zbackup.model.server import ServerFacts

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
MEMBER = SetMembership(
    name="rs0", set_id="6b01", state="PRIMARY", members=3, hidden=False, delay_s=0, majority_journal=True,
    stable=OplogPosition(90, 1, -1), first=OplogEntry(OplogPosition(10, 1, 1), NOON), oplog_used=1000,
    oplog_bytes=1 << 30,
    term_ends=(OplogPosition(80, 1, 2), OplogPosition(20, 5, 1)),
)  # fmt: skip
SOUND = MongoStatus(
    version="6.0.27", fcv="6.0", pid=1, options={"storage": {"dbPath": "/d"}, "net": {"port": 1}},
    engine="wiredTiger", encrypted=False, membership=MEMBER,
    end=OplogEnd(at=OplogPosition(100, 2, 3), wall=NOON),
)  # fmt: skip
NO_JOURNAL = {"storage": {"journal": {"enabled": False}}}


def facts(of: MongoStatus) -> ServerFacts:
    problem = assess.needs_lock(of)
    return ServerFacts(
        flavor="mongodb", version=of.version, server_uuid="u", role="primary", applier_running=False,
        data_paths=(), position="", gtid="", server={"needs_lock": problem} if problem else {},
    )  # fmt: skip


def test_a_sound_member_has_nothing_against_it() -> None:
    assert assess.blockers(SOUND) == assess.warnings(SOUND) == ()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": "4.4.29"}, "older than 5.0"),
        ({"engine": "inMemory"}, "storage engine is inMemory"),
        ({"encrypted": True}, "security.enableEncryption"),
        ({"membership": None, "end": None}, "rs.initiate()"),
        ({"membership": replace(MEMBER, state="STARTUP2")}, "this member is STARTUP2"),
        ({"membership": replace(MEMBER, state="ROLLBACK")}, "this member is ROLLBACK"),
    ],
)
def test_what_no_recovery_could_come_of(changes: dict[str, Any], said: str) -> None:
    found = assess.blockers(replace(SOUND, **changes))
    assert len(found) == 1 and said in found[0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"membership": replace(MEMBER, majority_journal=False)}, "writeConcernMajorityJournalDefault"),
        ({"membership": replace(MEMBER, delay_s=3600)}, "lags 3600 s behind"),
        ({"options": NO_JOURNAL}, "journal is off"),
        ({"version": "7.0.1"}, "feature compatibility version 6.0 is not that of 7.0.1"),
    ],
)
def test_what_asks_for_care(changes: dict[str, Any], said: str) -> None:
    found = assess.warnings(replace(SOUND, **changes))
    assert len(found) == 1 and said in found[0]


@pytest.mark.parametrize(
    ("server", "kind", "because"),
    [
        (SOUND, "none", "one atomic snapshot"),
        (replace(SOUND, membership=None), "fsync", "without an oplog"),
        (replace(SOUND, options=NO_JOURNAL), "fsync", "journal is off"),
    ],
)
def test_auto_takes_the_gentlest_exact_lock_and_says_why(
    server: MongoStatus, kind: str, because: str
) -> None:
    choice = assess.choose("auto", facts(server))
    assert choice.kind == kind and because in choice.reason


def test_what_is_configured_is_taken_or_refused() -> None:
    assert assess.choose("fsync", facts(SOUND)).kind == "fsync"
    assert assess.choose("none", facts(SOUND)).kind == "none"
    with pytest.raises(Refused, match=r"without an oplog.*use fsync"):
        assess.choose("none", facts(replace(SOUND, membership=None)))
    with pytest.raises(Refused, match="no lock ftwrl"):
        assess.choose("ftwrl", facts(SOUND))


@pytest.mark.parametrize(
    ("text", "numbers"), [("6.0.27", (6, 0, 27)), ("8.0.1-rc0", (8, 0, 1)), ("?", ()), ("", ())]
)
def test_versions(text: str, numbers: tuple[int, ...]) -> None:
    assert assess.version_of(text) == numbers


def test_what_is_recorded(tmp_path: Path) -> None:
    found = recorded(SOUND, tmp_path)
    wanted = {
        "dbpath": str(tmp_path), "storage_engine": "wiredTiger", "fcv": "6.0", "replica_set": "rs0",
        "set_id": "6b01", "member_state": "PRIMARY", "oplog_terms": "80,1@2 20,5@1",
        "oplog_bytes": "1073741824", "stable_checkpoint": "90,1@-1",
        "options": '{"storage": {"dbPath": "/d"}}', "uid": str(tmp_path.stat().st_uid),
    }  # fmt: skip
    assert wanted.items() <= found.items()
    assert not {"hidden", "delay_s", "encryption", "authorization"} & set(found)
    late = replace(SOUND, membership=replace(MEMBER, hidden=True, delay_s=5), encrypted=True)
    assert {"hidden": "true", "delay_s": "5"}.items() <= recorded(late, tmp_path).items()
    assert "encryption" in recorded(late, tmp_path)
    assert "replica_set" not in recorded(replace(SOUND, membership=None), tmp_path)


def test_what_members_need_of_each_other_is_recorded_and_no_password(tmp_path: Path) -> None:
    tls = {"mode": "requireTLS", "CAFile": "/ca", "clusterPassword": "hunter2"}
    options = {"net": {"port": 1, "bindIp": "10.0.0.5", "ipv6": True, "tls": tls}}
    found = recorded(replace(SOUND, options=options, flags=("replSet", "tlsMode")), tmp_path)
    net = {"bindIp": "10.0.0.5", "ipv6": True, "tls": tls | {"clusterPassword": "<password>"}}
    assert json.loads(found["options"]) == {"net": net}
    assert "flags" not in found, "all of them are its command line's"
    from_file = replace(SOUND, options=options | {"config": "/c"}, flags=("config", "replSet"))
    assert recorded(from_file, tmp_path)["flags"] == "config replSet"
    assert json.loads(recorded(replace(from_file, membership=None), tmp_path)["options"]) == {"config": "/c"}


def test_what_is_known_only_when_it_is_held() -> None:
    assert end_under_lock(None) == end_after_snapshot(None) == {}
    assert end_under_lock(SOUND.end) == {"oplog_wall": "2024-05-01T12:00:00+00:00"}
    after = end_after_snapshot(SOUND.end)
    assert after == {"oplog_after": "100,2@3", "oplog_after_wall": "2024-05-01T12:00:00+00:00"}
    assert end_under_lock(SOUND.end, NOON)["oplog_durable_wall"] == "2024-05-01T12:00:00+00:00"
    assert first_in_snapshot(MEMBER.first)["oplog_first"] == "10,1@1" and first_in_snapshot(None) == {}


@pytest.mark.parametrize(
    ("security", "asks"),
    [
        ({}, False),
        ({"authorization": "disabled"}, False),
        ({"authorization": "enabled"}, True),
        ({"keyFile": "/k"}, True),
        ({"clusterAuthMode": "x509"}, True),
    ],
)
def test_whether_users_log_in(security: dict[str, str], asks: bool) -> None:
    assert asks_for_login({"security": security}) == asks


def test_members_of_a_set_share_one_log_and_a_server_alone_has_its_own() -> None:
    assert identity(SOUND, Path("/d")) == "replica set rs0 6b01"
    assert identity(replace(SOUND, membership=None), Path("/d")) == "standalone at /d"


def test_links_below_the_data_directory_are_places_of_their_own(tmp_path: Path) -> None:
    data, away = tmp_path / "data", tmp_path / "away"
    (data / "shop" / "index").mkdir(parents=True)
    (away / "journal").mkdir(parents=True)
    (away / "deep").mkdir()
    (data / "journal").symlink_to(away / "journal")
    (data / "shop" / "index" / "deep").symlink_to(away / "deep")
    assert {place.path: place.what for place in data_paths(data)} == {
        str(data): "data", str(away / "journal"): "journal", str(away / "deep"): "link shop/index/deep"
    }  # fmt: skip
    assert data_paths(tmp_path / "not there")[0].path == str(tmp_path / "not there")


def test_the_data_directory_is_without_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert dbpath({"storage": {"dbPath": str(tmp_path / "link")}}, 1) == tmp_path / "real"
    assert dbpath({}, 1) == Path("/data/db").resolve()


def test_files_are_a_servers_when_their_lock_names_it(tmp_path: Path) -> None:
    assert works_there(tmp_path, 7), "what cannot be read says nothing"
    (tmp_path / "mongod.lock").write_text("7\n")
    assert works_there(tmp_path, 7)
    assert not works_there(tmp_path, 8)
    (tmp_path / "mongod.lock").write_text("")
    assert not works_there(tmp_path, 7), "no server works there"


class Said(Connection):
    """A server that has an answer for every command."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers, self.where = answers, "here"

    def command(self, command: Any, *, limit_s: float = 0) -> dict[str, Any]:
        answer: dict[str, Any] = self.answers[next(iter(command))]
        return answer


@pytest.mark.parametrize(
    ("hello", "said"),
    [
        ({"msg": "isdbgrid"}, "here is a mongos"),
        ({"isreplicaset": True}, "rs.initiate"),
        ({"setName": "rs0", "arbiterOnly": True}, "is an arbiter"),
    ],
)
def test_servers_without_data_are_refused(hello: dict[str, Any], said: str) -> None:
    with pytest.raises(DatabaseError, match=said):
        status.status(Said({"hello": hello}))


def test_transactions_that_only_read_keep_nobody_waiting() -> None:
    operation = {"transaction": {"timeOpenMicros": 7_000_000}, "client": "1.2.3.4:5"}
    writing = {**operation, "locks": {"Global": "w"}, "effectiveUsers": [{"user": "app", "db": "admin"}]}
    reading = {**operation, "locks": {"Global": "r"}}
    young = {**writing, "transaction": {"timeOpenMicros": 10}}
    server = Said({"currentOp": {"inprog": [writing, reading, young, operation]}})
    assert [str(found) for found in long_transactions(server, 5)] == ["app at 1.2.3.4:5, open for 7.0 s"]
    assert timedelta(seconds=7) > timedelta(seconds=long_transactions(server, 0)[-1].seconds)
