"""Semi-sync replication is named where commits wait for replicas, or may wait for long."""

import pytest

from zbackup.engines.mysql.server.assess import semi_sync_warnings

MYSQL = {
    "rpl_semi_sync_source_enabled": "ON",
    "rpl_semi_sync_source_timeout": "10000",
    "rpl_semi_sync_source_wait_for_replica_count": "1",
    "Rpl_semi_sync_source_clients": "1",
    "Rpl_semi_sync_source_status": "ON",
}
MARIADB = {
    "rpl_semi_sync_master_enabled": "ON",
    "rpl_semi_sync_master_timeout": "10000",
    "Rpl_semi_sync_master_clients": "1",
    "Rpl_semi_sync_master_status": "ON",
}
WORLDS = pytest.mark.parametrize(("world", "word"), [(MYSQL, "source"), (MARIADB, "master")])


@WORLDS
def test_one_with_its_replicas_is_fine(world: dict[str, str], word: str) -> None:
    assert semi_sync_warnings(world) == ()
    assert semi_sync_warnings({}) == ()
    assert semi_sync_warnings(world | {f"rpl_semi_sync_{word}_enabled": "OFF"}) == ()


@WORLDS
def test_one_whose_replica_is_gone_is_named_with_its_timeout_and_count(
    world: dict[str, str], word: str
) -> None:
    (said,) = semi_sync_warnings(world | {f"Rpl_semi_sync_{word}_clients": "0"})
    assert "0 of 1 replicas are connected, timeout 10 s" in said
    assert f"SET GLOBAL rpl_semi_sync_{word}_enabled = OFF" in said and "each commit waits" in said


def test_fewer_than_have_to_answer_are_too_few() -> None:
    (said,) = semi_sync_warnings(MYSQL | {"rpl_semi_sync_source_wait_for_replica_count": "2"})
    assert "1 of 2 replicas" in said
    old = {key.replace("source", "master"): value for key, value in MYSQL.items()}
    del old["rpl_semi_sync_master_wait_for_replica_count"]
    (said,) = semi_sync_warnings(old | {"rpl_semi_sync_master_wait_for_slave_count": "3"})
    assert "1 of 3 replicas" in said


@WORLDS
def test_one_that_has_gone_on_without_waits_for_nobody(world: dict[str, str], word: str) -> None:
    off = {f"Rpl_semi_sync_{word}_status": "OFF", f"Rpl_semi_sync_{word}_clients": "0"}
    assert semi_sync_warnings(world | off) == ()


@WORLDS
def test_a_timeout_without_end_is_named(world: dict[str, str], word: str) -> None:
    (said,) = semi_sync_warnings(world | {f"rpl_semi_sync_{word}_timeout": "1000000000"})
    assert "1 of 1 replicas are connected, timeout 1000000 s" in said and "when a replica is lost" in said
