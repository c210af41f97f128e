"""Options that a mongod on a clone is started with."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.samples import PLAIN
from zbackup.config.recovery import RecoverySettings as RecoveryTable
from zbackup.engines.mongodb.clone.clone_server import require_private
from zbackup.engines.mongodb.clone.program import find_program, series
from zbackup.engines.mongodb.clone.server_options import OwnPaths, Shape, arguments
from zbackup.engines.mongodb.recovery.recover import MongoRecovery
from zbackup.model.errors import Refused, VerificationFailed
from zbackup.model.recovery import Serving

PLACE = OwnPaths(home=Path("/clones/x"), run=Path("/run/zbackup/x"))
RECORDED = {"dbpath": "/var/lib/mongodb"}
SOCKET = "/run/zbackup/x/mongod.sock"
GIB = 1024**3


def options(shape: Shape, **recorded: str) -> list[str]:
    return arguments(RECORDED | recorded, PLACE, shape)


def test_a_server_of_our_own_has_no_network_and_belongs_to_no_set() -> None:
    for purpose in ("open", "replay"):
        given = options(Shape(purpose=purpose, memory=GIB), authorization="enabled")  # type: ignore[arg-type]
        assert f"--bind_ip={SOCKET}" in given and "--nounixsocket" in given
        assert not [o for o in given if o.startswith(("--port", "--replSet", "--keyFile", "--auth"))]


def test_nothing_expires_on_a_clone() -> None:
    for purpose in ("open", "replay", "serve"):
        given = options(Shape(purpose=purpose, memory=GIB))  # type: ignore[arg-type]
        assert "--setParameter=ttlMonitorEnabled=false" in given


def test_only_a_replay_recovers_from_the_oplog() -> None:
    wanted = "--setParameter=recoverFromOplogAsStandalone=true"
    assert wanted in options(Shape(purpose="replay", memory=GIB))
    assert "--setParameter=takeUnstableCheckpointOnShutdown=true" in options(
        Shape(purpose="replay", memory=GIB)
    )
    assert "--setParameter=replWriterThreadCount=4" in options(Shape(purpose="replay", memory=GIB, workers=4))
    for purpose in ("open", "serve"):
        assert wanted not in options(Shape(purpose=purpose, memory=GIB))  # type: ignore[arg-type]


def test_a_port_is_on_the_loopback_interface_only() -> None:
    given = options(Shape(purpose="serve", memory=GIB, port=3307))
    assert f"--bind_ip=127.0.0.1,{SOCKET}" in given and "--port=3307" in given


def test_a_member_of_a_cluster_is_reached_where_the_others_know_it() -> None:
    given = options(Shape(purpose="serve", memory=GIB, port=27100, host="db1.example", role="shardsvr"))
    assert f"--bind_ip=127.0.0.1,db1.example,{SOCKET}" in given and "--shardsvr" in given
    given = options(Shape(purpose="serve", memory=GIB, port=27100, host="127.0.0.1"))
    assert f"--bind_ip=127.0.0.1,{SOCKET}" in given
    assert f"--bind_ip={SOCKET}" in options(Shape(purpose="replay", memory=GIB, host="db1.example"))


def test_logins_are_asked_for_as_at_the_original() -> None:
    assert "--auth" in options(Shape(purpose="serve", memory=GIB, auth=True))
    open_to_all = options(Shape(purpose="serve", memory=GIB))
    assert "--auth" not in open_to_all and "--filePermissions=0777" not in open_to_all


def test_a_key_is_named_where_it_may_log_in() -> None:
    given = options(Shape(purpose="serve", memory=GIB, port=1, auth=True, key=True, replica_set="rescue"))
    assert "--replSet=rescue" in given and {"--auth", "--keyFile=/clones/x/key"} <= set(given)
    given = options(Shape(purpose="serve", memory=GIB, port=1, replica_set="rescue"))
    assert "--replSet=rescue" in given and "--keyFile=/clones/x/key" not in given
    given = options(Shape(purpose="replay", memory=GIB, auth=True, key=True))
    assert {"--auth", "--keyFile=/clones/x/key"} <= set(given) and "--filePermissions=0777" not in given


def test_without_a_login_there_is_no_port_where_the_original_asks_for_one() -> None:
    asking = replace(PLAIN, server={"authorization": "enabled"})
    with pytest.raises(Refused, match="leave out --port"):
        require_private("never", asking, Serving(port=27018))
    require_private("never", asking, Serving())
    require_private("original", asking, Serving(port=27018))
    require_private("never", PLAIN, Serving(port=27018))


def test_read_only_is_mongod_s_own_mode_for_looking_at_backups() -> None:
    assert "--queryableBackupMode" in options(Shape(purpose="serve", memory=GIB, read_only=True))


def test_the_journal_is_read_with_the_compressor_it_was_written_with() -> None:
    written = json.dumps({"storage": {"wiredTiger": {"engineConfig": {"journalCompressor": "zlib"}}}})
    for purpose in ("open", "replay", "serve"):
        given = options(Shape(purpose=purpose, memory=GIB), options=written)  # type: ignore[arg-type]
        assert "--wiredTigerJournalCompressor=zlib" in given
    assert not [o for o in options(Shape(purpose="open", memory=GIB)) if "Compressor" in o]


@pytest.mark.parametrize(("memory", "said"), [(GIB, "1"), (GIB // 2, "0.5"), (1, "0.25")])
def test_the_cache_is_what_was_configured_but_never_less_than_mongod_takes(memory: int, said: str) -> None:
    assert f"--wiredTigerCacheSizeGB={said}" in options(Shape(purpose="open", memory=memory))


def test_the_layout_of_the_files_is_kept() -> None:
    storage = {"directoryPerDB": True, "wiredTiger": {"engineConfig": {"directoryForIndexes": True}}}
    given = options(Shape(purpose="open", memory=GIB), options=json.dumps({"storage": storage}))
    assert {"--directoryperdb", "--wiredTigerDirectoryForIndexes"} <= set(given)
    plain = options(Shape(purpose="open", memory=GIB), options=json.dumps({"storage": {"dbPath": "/x"}}))
    assert not {"--directoryperdb", "--wiredTigerDirectoryForIndexes"} & set(plain)


def test_a_clone_is_reached_by_its_port_or_else_by_its_socket() -> None:
    recovery = MongoRecovery(table=RecoveryTable(workers=2))
    assert recovery.connection(Path("/run/z b/x"), 3307) == (
        "/run/z b/x/mongod.sock",
        "mongosh 'mongodb://127.0.0.1:3307/?directConnection=true'",
    )
    assert recovery.connection(Path("/run/z b/x"), 0)[1] == (
        "mongosh 'mongodb://%2Frun%2Fz%20b%2Fx%2Fmongod.sock/?directConnection=true'"
    )


# the program


def program(directory: Path, says: str) -> str:
    file = directory / "mongod"
    file.write_text(f"#!/bin/sh\necho '{says}'\n")
    file.chmod(0o755)
    return str(file)


def test_a_program_of_the_same_series_is_taken(rooted: Path) -> None:
    found = program(rooted, "db version v6.0.27")
    assert find_program((found,), "", "6.0.5") == (found,)
    assert find_program(None, found, "6.0.5") == (found,)


def test_another_series_is_refused(rooted: Path) -> None:
    with pytest.raises(
        Refused,
        match=r"is version 7\.0, but the files are of 6\.0: name a mongod of 6\.0 in recovery\.server",
    ):
        find_program((program(rooted, "db version v7.0.2"),), "", "6.0.5")


def test_another_program_is_refused(rooted: Path) -> None:
    with pytest.raises(Refused, match="does not look like mongod"):
        find_program((program(rooted, "hello"),), "", "6.0.5")
    with pytest.raises(Refused, match="cannot be used"):
        find_program((str(rooted / "nothing"),), "", "6.0.5")


def test_a_series_is_two_numbers() -> None:
    assert series("6.0.27-rc1") == "6.0"


def test_files_that_mongod_encrypted_are_refused() -> None:
    record = replace(PLAIN, engine="mongodb", server=RECORDED | {"encryption": "all files"})
    with pytest.raises(Refused, match="encrypted by mongod"):
        MongoRecovery(table=RecoveryTable(workers=2)).check_program(record)


@pytest.mark.parametrize("settings", ["[]", "5", '"text"', "{", "[" * 20000, "{}" * 2])
def test_recorded_settings_that_are_none_are_refused_in_words(settings: str) -> None:
    with pytest.raises(VerificationFailed, match="recorded settings cannot be understood"):
        options(Shape(purpose="open", memory=GIB), options=settings)


@pytest.mark.parametrize("settings", [{"storage": 5}, {"storage": {"wiredTiger": []}}, {"storage": None}])
def test_what_is_no_table_of_settings_holds_none(settings: dict[str, object]) -> None:
    shape = Shape(purpose="open", memory=GIB)
    assert options(shape, options=json.dumps(settings)) == options(shape)
