"""Looking at real servers and holding them still. Needs no ZFS; run with pytest by name."""

import signal
import time
from dataclasses import replace

import pytest

from tests.lab.lock_rig import KINDS, Writers, busy, engine_of, held_by, room, server, sessions
from tests.lab.mysql_fixture import DatabaseServer
from tests.lab.servers.accounts import ZBACKUP_GRANTS
from tests.system.house import wait_until
from zbackup.engines.mysql.lock.lock import STOPS_COMMITS
from zbackup.engines.mysql.server.connection import PrivilegeMissing
from zbackup.model.errors import DatabaseError, LockNotTaken, Refused

__all__ = ["room", "server"]


def test_every_lock_holds_the_position_and_is_gone_afterwards(server: DatabaseServer) -> None:
    for kind in KINDS[server.settings.kind]:
        zbackup = engine_of(server, kind=kind)
        facts = zbackup.inspect()
        assert zbackup.choose_lock(facts).kind == kind
        with Writers(server) as writers:
            for _ in range(5):
                with zbackup.consistent(facts, kind) as held:
                    assert held.position
                    assert held.gtid or not server.settings.gtid
                    assert held.seconds_left() > 1
                    if kind in STOPS_COMMITS:
                        assert writers.stand_still()
                    else:
                        writers.more()
                    held.confirm()
                wait_until("all sessions are gone", lambda: sessions(server) == [], 2)
                assert held.lock_wait_ms < 3000
                assert writers.more() < 2
        assert kind == "none" or held.held_ms > 0


def test_inspection_tells_what_is_there(server: DatabaseServer) -> None:
    facts = engine_of(server).inspect()
    assert facts.flavor == server.settings.kind
    assert (facts.role, facts.blockers, facts.non_transactional) == ("primary", (), ())
    assert facts.data_paths[0].path == str(server.settings.datadir)
    assert facts.server["innodb_page_size"] == "16384"
    assert facts.server["uid"] == str(server.settings.datadir.stat().st_uid)
    wanted = "backup-lock" if facts.flavor == "mysql" else "backup-stage"
    assert engine_of(server).choose_lock(facts).kind == wanted


def test_tables_without_recovery_rule_gentle_locks_out(server: DatabaseServer) -> None:
    server.sql("CREATE TABLE shop.old (a INT) ENGINE=MyISAM")
    try:
        facts = engine_of(server).inspect()
        assert facts.non_transactional == ("shop.old (MyISAM)",)
        with pytest.raises(Refused, match=r"shop\.old \(MyISAM\)"):
            engine_of(server, kind="none").choose_lock(facts)
        auto = engine_of(server).choose_lock(facts)
        assert auto.kind == ("ftwrl" if facts.flavor == "mysql" else "backup-stage")
    finally:
        server.sql("DROP TABLE shop.old")


def test_a_killed_holder_frees_everybody_at_once(server: DatabaseServer) -> None:
    for kind in KINDS[server.settings.kind][:2]:
        with Writers(server) as writers, held_by(server, kind) as holder:
            if kind in STOPS_COMMITS:
                assert writers.stand_still()
            holder.kill()
            assert writers.more() < 2
            wait_until("the session is gone", lambda: sessions(server) == [], 2)


def test_a_stopped_holder_loses_the_lock_at_the_ceiling(server: DatabaseServer) -> None:
    for kind in KINDS[server.settings.kind][:2]:
        with Writers(server) as writers, held_by(server, kind, hold=3) as holder:
            holder.send_signal(signal.SIGSTOP)
            began = time.monotonic()
            if kind in STOPS_COMMITS:
                assert writers.stand_still()
            wait_until("the lock is gone", lambda: len(sessions(server)) <= 2, 5)
            assert writers.more() < 2
            assert time.monotonic() - began < 5.5


def test_a_lock_that_was_lost_is_not_confirmed(server: DatabaseServer) -> None:
    for kind in KINDS[server.settings.kind][:2]:
        zbackup = engine_of(server, kind=kind, hold=1)
        with zbackup.consistent(zbackup.inspect(), kind) as held:
            time.sleep(2.5)
            with pytest.raises(LockNotTaken, match="did not last"):
                held.confirm()
        wait_until("all sessions are gone", lambda: sessions(server) == [], 2)


def test_login_and_reach_fail_in_one_clear_line(server: DatabaseServer) -> None:
    wrong = engine_of(server)
    bad = replace(wrong, connect=replace(wrong.connect, password=lambda: "no-such-secret"))
    with pytest.raises(DatabaseError, match="check user and password") as refused:
        bad.inspect()
    assert "no-such-secret" not in str(refused.value) + repr(bad)
    away = replace(bad, connect=replace(wrong.connect, socket="/tmp/no/such.sock"))
    with pytest.raises(DatabaseError, match=r"socket /tmp/no/such\.sock.*is it running"):
        away.inspect()
    closed = replace(bad, connect=replace(wrong.connect, socket="", host="127.0.0.1", port=1))
    with pytest.raises(DatabaseError, match=r"127\.0\.0\.1:1.*is it running"):
        closed.inspect()


def _privileges(kind: str) -> list[tuple[str, str]]:
    return [
        (name.strip(), grants.partition(" ON ")[2])
        for grants in ZBACKUP_GRANTS[kind]
        for name in grants.partition(" ON ")[0].split(",")
    ]


def _use_everything(server: DatabaseServer) -> None:
    for kind in KINDS[server.settings.kind][:2]:
        zbackup = engine_of(server, on_long_query="kill")
        with zbackup.consistent(zbackup.inspect(), kind) as held:
            held.confirm()


def test_each_missing_privilege_is_named_with_its_grant(server: DatabaseServer) -> None:
    kind = server.settings.kind
    _use_everything(server)
    for privilege, where in _privileges(kind):
        if "SLAVE" in privilege and "ADMIN" in privilege:
            continue  # see test_a_missing_applier_privilege_is_named
        server.sql(f"REVOKE {privilege} ON {where} FROM zbackup@localhost")
        try:
            with (
                busy(server, "SELECT COUNT(*), SLEEP(60) FROM shop.orders WHERE id < 3"),
                pytest.raises(PrivilegeMissing) as missing,
            ):
                _use_everything(server)
        finally:
            server.sql(f"GRANT {privilege} ON {where} TO zbackup@localhost")
        assert f"GRANT {privilege} ON {where} TO 'zbackup'@'localhost'" in str(missing.value)
        assert "\n" not in str(missing.value)
    _use_everything(server)
