"""Steps that are printed for a new member to join a replica set from a backup."""

import json
import shlex
from dataclasses import replace
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.unit.samples import NOON, PLAIN, snapshots_of
from zbackup.model.backup import Backup
from zbackup.model.errors import Refused, VerificationFailed
from zbackup.plan.clones.member_steps import member_steps

ZONE = ZoneInfo("Europe/Berlin")
SERVER = {"dbpath": "/srv/my db/data", "replica_set": "carts", "uid": "999", "mongod": "/usr/bin/mongod"}


def taken(
    members: tuple[tuple[str, str], ...] = PLAIN.members, *, flags: str = "", **options: object
) -> Backup:
    server = SERVER | {"options": json.dumps(options)} | ({"flags": flags} if flags else {})
    record = replace(PLAIN, engine="mongodb", server_version="6.0.5", server=server, members=members)
    return Backup(record=record, snapshots=tuple(snapshots_of(record)))


def commands(backup: Backup) -> list[list[str]]:
    """All commands of a shell, as the shell reads them."""
    steps = member_steps(backup, "m1", ZONE)
    return [shlex.split(command) for step in steps if not step.mongosh for command in step.run]


def test_all_datasets_are_cloned_the_outer_one_first_and_destroyed_the_other_way_round() -> None:
    said = commands(taken(PLAIN.members[::-1]))
    assert [words[-2:] for words in said if words[:2] == ["zfs", "clone"]] == [
        ["tank/my db@zbackup-1", "tank/m1-1"],
        ["tank/my db/bin log@zbackup-1", "tank/m1-0"],
    ]
    assert said[0][3:6] == ["canmount=noauto", "-o", "mountpoint=/var/lib/m1/srv/my db"]
    assert said[2:4] == [
        ["zbackup", "mount", "tank/m1-1", "tank/m1-0"],
        ["zfs", "set", "canmount=on", "tank/m1-1", "tank/m1-0"],
    ]
    assert said[-2:] == [["zfs", "destroy", "tank/m1-0"], ["zfs", "destroy", "tank/m1-1"]]


def test_links_are_led_away_from_production_s_files_within_one_dataset_too() -> None:
    said = commands(taken(PLAIN.members[:1]))
    assert [words[0] for words in said] == ["zfs", "zbackup", "zfs", "find", "/usr/bin/mongod", "zfs"]
    assert said[0][-1] == "tank/m1"
    assert commands(taken())[4][0] == "find"


def test_it_starts_with_the_original_s_file_of_settings_if_there_is_one() -> None:
    own = [
        *("--dbpath", "/var/lib/m1/srv/my db/data", "--port", "PORT"),
        *("--logpath", "/var/lib/m1/srv/my db/data/mongod.log"),
        *("--pidfilepath", "/var/lib/m1/srv/my db/data/mongod.pid", "--fork"),
    ]
    from_file = taken(config="/etc/mongod.conf", flags="config")
    (words,) = (w for w in commands(from_file) if "--dbpath" in w)
    assert words == ["/usr/bin/mongod", "--config", "/etc/mongod.conf", *own]
    engine = {"directoryForIndexes": True, "journalCompressor": "zlib"}
    storage = {"directoryPerDB": True, "wiredTiger": {"engineConfig": engine}}
    (words,) = (w for w in commands(taken(security={"keyFile": "/k"}, storage=storage)) if "--dbpath" in w)
    assert words[1:] == [
        *("--replSet", "carts", "--bind_ip", "localhost,HOST", "--keyFile", "/k", "--directoryperdb"),
        *("--wiredTigerDirectoryForIndexes", "--wiredTigerJournalCompressor", "zlib", *own),
    ]


def started(**options: Any) -> list[str]:
    """What the member's mongod is started with of its original's, the paths and the port left out."""
    (words,) = (w for w in commands(taken(**options)) if "--dbpath" in w)
    return words[1 : words.index("--dbpath")]


TLS = {"mode": "requireTLS", "certificateKeyFile": "/my cert.pem", "CAFile": "/ca.pem"}


def test_what_the_set_asks_of_its_members_goes_along_when_the_original_got_it_by_flags() -> None:
    plain = ["--replSet", "carts", "--bind_ip", "localhost,HOST"]
    assert started() == plain
    tls = ["--tlsMode", "requireTLS", "--tlsCertificateKeyFile", "/my cert.pem", "--tlsCAFile", "/ca.pem"]
    assert started(net={"tls": TLS}) == [*plain, *tls]
    parts: tuple[tuple[dict[str, Any], list[str]], ...] = (
        ({"security": {"clusterAuthMode": "x509"}}, ["--clusterAuthMode", "x509"]),
        ({"security": {"keyFile": "/k", "authorization": "enabled"}}, ["--keyFile", "/k"]),
        ({"sharding": {"clusterRole": "configsvr"}}, ["--configsvr"]),
        ({"net": {"ipv6": True}}, ["--ipv6"]),
        ({"net": {"tls": {"clusterFile": "/c"}}}, ["--tlsClusterFile", "/c"]),
        ({"net": {"tls": {"allowInvalidHostnames": True}}}, ["--tlsAllowInvalidHostnames"]),
        ({"net": {"tls": {"allowInvalidHostnames": False}}}, []),
        ({"setParameter": {"authenticationMechanisms": "MONGODB-X509"}},
         ["--setParameter", "authenticationMechanisms=MONGODB-X509"]),
    )  # fmt: skip
    for options, wanted in parts:
        assert started(**options) == [*plain, *wanted]


def test_what_is_production_s_own_stays_there() -> None:
    """A second server that writes where production writes would harm it."""
    own = {"diagnosticDataCollectionDirectoryPath": "/var/lib/mongodb/diagnostic.data"}
    assert started(setParameter=own, net={"port": 27017, "bindIp": "10.0.0.5"}) == started()


def test_a_password_is_left_for_the_operator_to_put_in() -> None:
    told = started(net={"tls": {"certificateKeyFilePassword": "<password>"}})
    assert told[-2:] == ["--tlsCertificateKeyFilePassword", "PASSWORD"]


def test_of_a_file_and_flags_each_says_its_part() -> None:
    file = {"config": "/etc/mongod.conf", "security": {"keyFile": "/k"}, "net": {"tls": TLS}}
    assert started(**file, flags="config") == ["--config", "/etc/mongod.conf"]
    assert started(**file, flags="config dbpath replSet keyFile bind_ip_all") == [
        *("--config", "/etc/mongod.conf", "--replSet", "carts", "--bind_ip", "localhost,HOST"),
        *("--keyFile", "/k"),
    ]
    assert started(**file, flags="config sslMode sslPEMKeyFile") == [
        *("--config", "/etc/mongod.conf", "--tlsMode", "requireTLS"),
        *("--tlsCertificateKeyFile", "/my cert.pem"),
    ]


@pytest.mark.parametrize(
    ("listens", "wanted"),
    [
        ("127.0.0.1,10.0.0.5", []),
        ("127.0.0.1,/run/m.sock,10.0.0.5", ["--bind_ip", "127.0.0.1,10.0.0.5"]),
        ("10.0.0.5, /run/m.sock", ["--bind_ip", "10.0.0.5"]),
        ("/run/m.sock", ["--bind_ip", "localhost,HOST"]),
    ],
)
def test_production_s_unix_socket_is_not_taken_away_from_it(listens: str, wanted: list[str]) -> None:
    """mongod puts its own in the place of one that is there."""
    file = {"config": "/etc/mongod.conf", "net": {"bindIp": listens}}
    assert started(**file, flags="config") == ["--config", "/etc/mongod.conf", *wanted]


def test_of_a_file_that_an_old_backup_says_nothing_of_no_socket_is_taken() -> None:
    assert started(config="/c") == ["--config", "/c", "--bind_ip", "localhost,HOST"]


def test_it_says_how_far_back_the_oplog_has_to_reach() -> None:
    (text,) = (s.text for s in member_steps(taken(), "m1", ZONE) if "oplog begins before" in s.text)
    assert "2024-05-01 14:00:00 CEST" in text
    early = taken()
    early = replace(early, record=replace(early.record, as_of=NOON - timedelta(minutes=5)))
    assert any("2024-05-01 13:55:00 CEST" in s.text for s in member_steps(early, "m1", ZONE))


def test_nobody_joins_a_server_that_runs_alone() -> None:
    alone = taken()
    alone.record.server.pop("replica_set")
    with pytest.raises(Refused, match="in no replica set"):
        member_steps(alone, "m1", ZONE)


@pytest.mark.parametrize(
    "recorded", [{"options": "[]"}, {"options": "{"}, {"options": "[" * 20000}, {"dbpath": None}]
)
def test_a_record_that_no_mongod_wrote_is_refused_in_words(recorded: dict[str, str | None]) -> None:
    backup = taken()
    server = {name: value for name, value in (SERVER | recorded).items() if value is not None}
    with pytest.raises(VerificationFailed):
        member_steps(replace(backup, record=replace(backup.record, server=server)), "m1", ZONE)


@pytest.mark.parametrize("options", [{"setParameter": 5}, {"setParameter": ["tlsX"]}, {"net": 5}])
def test_what_is_no_table_of_settings_holds_none(options: dict[str, object]) -> None:
    assert commands(taken(**options)) == commands(taken())
