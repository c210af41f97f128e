"""A lock is asked for in the right order, waited for within bounds, and gone afterwards, whatever breaks."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.engines.mysql.lock_server import CONNECT, RELEASES, TAKES, Server, Session, locked, serving
from zbackup.config.lock import Lock
from zbackup.engines.mysql.lock.lock import CONFIRM_S
from zbackup.engines.mysql.server.connection import ConnectionLost, StatementFailed
from zbackup.model.errors import DatabaseError, LockNotTaken
from zbackup.model.record import LockKind

__all__ = ["serving"]
Serve = Callable[..., Server]
MARIADB, MYSQL = "10.11.18-MariaDB", "9.7.4"
FTWRL, START, BLOCK = "FLUSH TABLES WITH READ LOCK", "BACKUP STAGE START", "BACKUP STAGE BLOCK_COMMIT"
INSTANCE = "LOCK INSTANCE FOR BACKUP"
ALL: list[tuple[str, LockKind]] = [
    (MYSQL, "ftwrl"), (MYSQL, "backup-lock"), (MYSQL, "none"),
    (MARIADB, "ftwrl"), (MARIADB, "backup-stage"), (MARIADB, "none"),
]  # fmt: skip
TAKEN = {"ftwrl": FTWRL, "backup-stage": BLOCK, "backup-lock": INSTANCE}


def limits(**changed: Any) -> Lock:
    return Lock.model_construct(**({"hold": 10.0} | changed))


def refused(match: str, kind: LockKind, **changed: Any) -> str:
    """No lock is granted; what is said then."""
    with pytest.raises(LockNotTaken, match=match) as raised, locked(CONNECT, limits(**changed), kind):
        pytest.fail("a lock was granted")
    return str(raised.value)


def gone(server: Server) -> bool:
    """Everybody can go on: no lock, and no session of ours (once the last one is cleared away)."""
    server.clock.sleep(server.clearing + 0.1)
    return not server.sessions


def long_statement(**changed: Any) -> dict[str, Any]:
    row = {"Id": 900, "User": "app", "Time": 60, "Command": "Query", "State": "executing"}
    return row | {"Info": "SELECT COUNT(*) FROM orders"} | changed


@pytest.mark.parametrize(("version", "kind"), ALL)
def test_it_is_held_while_the_body_runs_and_gone_when_it_has_ended(
    version: str, kind: LockKind, serving: Serve
) -> None:
    server = serving(version=version, clearing=2.0)
    with locked(CONNECT, limits(), kind) as lock:
        assert bool(server.holder) == (kind != "none")
        assert lock.position == "binlog.000001:4" and lock.gtid == "a:1-3"
        assert lock.facts == {} and lock.kind == kind
        server.clock.sleep(3)
    assert [s.id for s in server.sessions if s.listed_until > server.clock.now + 1] == [1]
    assert lock.held_ms == 3000, "as long as others waited for it, not until its session was cleared away"
    assert gone(server)
    if kind != "none":
        assert server.held_for[-1] == pytest.approx(3)


@pytest.mark.parametrize(("version", "kind"), ALL)
def test_the_logs_are_flushed_when_nobody_commits_any_more(
    version: str, kind: LockKind, serving: Serve
) -> None:
    """The binlog may name what the redo log on disk does not have yet."""
    server = serving(version=version)
    server.after = lambda _, session: None if server.holder else server.commit()
    with locked(CONNECT, limits(), kind):
        stands_still = bool(server.holder and server.holder.stops_commits)
        assert stands_still == (kind in ("ftwrl", "backup-stage"))
        assert (server.unflushed == 0) == stands_still


def test_the_session_that_has_the_lock_is_asked_nothing(serving: Serve) -> None:
    """Questions about the log may wait for what no KILL frees."""
    for version, kind in ALL:
        server = serving(version=version)
        with locked(CONNECT, limits(), kind) as lock:
            holder = server.holder.id if server.holder else 0
            lock.confirm()
        said = {text for number, text in server.said if number == holder}
        assert all(text.startswith(("SET SESSION", *TAKES, *RELEASES)) for text in said), said
        assert not any("log_status" in text for text in server.texts)


@pytest.mark.parametrize(("version", "kind"), [each for each in ALL if each[1] != "none"])
def test_a_lock_that_is_never_granted_is_given_up(version: str, kind: LockKind, serving: Serve) -> None:
    server = serving(version=version, free_in={TAKEN[kind]: 1e9})
    began = server.clock.now
    said = refused(f"the lock {kind} was not granted within 30 s", kind)
    assert server.clock.now - began <= 35
    assert server.clock.now - began >= 25, "it may be granted up to then"
    assert "longest statement" not in said
    assert gone(server)


@pytest.mark.parametrize(("version", "kind"), [each for each in ALL if each[1] != "none"])
@pytest.mark.parametrize("free_in", [0.0, 1.0, 9.0, 25.0])
def test_one_that_comes_in_time_is_taken(
    version: str, kind: LockKind, free_in: float, serving: Serve
) -> None:
    server = serving(version=version, free_in={TAKEN[kind]: free_in})
    began = server.clock.now
    with locked(CONNECT, limits(), kind) as lock:
        assert server.holder and server.clock.now - began == pytest.approx(lock.lock_wait_ms / 1000)
        assert free_in <= lock.lock_wait_ms / 1000 <= 30
        assert lock.seconds_left() == 10 - CONFIRM_S, "what was waited for is not held"
        lock.confirm()
    assert gone(server)


def test_two_stages_that_each_wait_have_one_limit_together(serving: Serve) -> None:
    """The server counts each of them for itself: the session is ended from outside."""
    server = serving(version=MARIADB, free_in={START: 20.0, BLOCK: 20.0})
    began = server.clock.now
    refused("backup-stage was not granted within 30 s", "backup-stage")
    assert server.clock.now - began <= 31 and gone(server)


def test_a_lock_that_comes_when_it_was_given_up_is_not_used(serving: Serve) -> None:
    """Somebody may have been told to kill the session that has it, and does so when it is held."""
    server = serving(version=MARIADB, free_in={START: 20.0, BLOCK: 20.0}, can_kill=False)
    refused("backup-stage was not granted within 30 s", "backup-stage")
    assert gone(server)


def test_ftwrl_gives_way_to_those_that_wait_behind_it_each_time_for_longer(serving: Serve) -> None:
    server = serving(free_in={FTWRL: 1e9})
    asked = list[float]()

    def note(_: int, session: Session) -> None:
        if server.texts[-1] == FTWRL:
            others = [s for s in server.sessions if s.alive and s.id not in (1, session.id)]
            assert not others, "two of ours wait"
            asked.append(server.clock.now - began)

    server.before, began = note, server.clock.now
    refused("not granted within 30 s", "ftwrl")
    # Waits 2, 4, 8 and the rest, with 2 s between, in which others go first.
    assert asked == pytest.approx([0, 4, 10, 20], abs=1)
    assert [session.patience for session in server.asked] == [2, 4, 8, 10]


@pytest.mark.parametrize(("version", "kind"), [(MYSQL, "backup-lock"), (MARIADB, "backup-stage")])
def test_the_others_are_asked_for_once(version: str, kind: LockKind, serving: Serve) -> None:
    server = serving(version=version, free_in={TAKEN[kind]: 20.0})
    with locked(CONNECT, limits(), kind):
        assert server.texts.count(TAKEN[kind]) == 1


def test_only_ftwrl_minds_long_statements(serving: Serve) -> None:
    """The other locks do not wait for readers."""
    server = serving(running=[long_statement()])
    refused("of app, 60 s: SELECT COUNT", "ftwrl", on_long_query="abort")
    assert FTWRL not in server.texts and gone(server)
    for kind in ("backup-lock", "none"):
        with locked(CONNECT, limits(on_long_query="abort"), kind):
            pass


def test_the_one_who_holds_it_up_is_named(serving: Serve) -> None:
    serving(free_in={INSTANCE: 1e9}, running=[long_statement()])
    refused(r"within 30 s; the longest statement is connection 900 of app", "backup-lock")


@pytest.mark.parametrize("wait", [1.0, 2.0, 30.0])
def test_a_server_that_refuses_the_lock_is_not_asked_again(wait: float, serving: Serve) -> None:
    server = serving()

    def refuse(_: int, session: Session) -> None:
        if server.texts[-1] == FTWRL:
            raise StatementFailed("no such statement", 1064)

    server.before = refuse
    refused("the lock ftwrl was not granted: no such statement", "ftwrl", wait=wait)
    assert server.texts.count(FTWRL) == 1 and gone(server)


def test_a_session_that_does_not_end_is_ended(serving: Serve) -> None:
    """Also after a long time under the lock, when the server would have closed the other session."""
    server = serving(silence=15)
    server.clearing = 1e6
    said = "session 2, which held the lock, did not end and was killed"
    with pytest.raises(LockNotTaken, match=said), locked(CONNECT, limits(hold=60.0), "ftwrl"):
        server.clock.sleep(50)
    assert "KILL 2" in server.texts and "KILL 1" not in server.texts
    assert [session.id for session in server.sessions] == [1]
    assert 5 < server.clock.now - 1050 < 6, "it is given some time to end by itself"


def test_a_session_that_takes_its_time_to_end_is_waited_for(serving: Serve) -> None:
    server = serving(clearing=4.0)
    with locked(CONNECT, limits(), "ftwrl"):
        pass
    assert not any("KILL" in text for text in server.texts)
    assert [session.id for session in server.sessions] == [1]


def test_a_body_that_fails_fails_as_it_did(serving: Serve) -> None:
    for failure in (KeyboardInterrupt(), SystemExit(3), ValueError("zfs")):
        server = serving()
        with pytest.raises(type(failure)), locked(CONNECT, limits(), "ftwrl"):
            raise failure
        assert gone(server)


def test_an_interrupt_is_one_also_when_a_session_has_to_be_killed(serving: Serve) -> None:
    """One that waits inside the server does not see that its client has gone."""
    server = serving(version=MARIADB)
    server.clearing = 1e6

    def interrupt(_: int, session: Session) -> None:
        if server.texts[-1] == BLOCK:
            raise KeyboardInterrupt

    server.before = interrupt
    with pytest.raises(KeyboardInterrupt), locked(CONNECT, limits(), "backup-stage"):
        pytest.fail("a lock was granted")
    assert [session.id for session in server.sessions] == [1]
    assert server.clock.now < 1001, "whoever waits behind it goes on at once"
    server = serving(clearing=1e6)
    with pytest.raises(KeyboardInterrupt), locked(CONNECT, limits(), "ftwrl"):
        raise KeyboardInterrupt
    assert [session.id for session in server.sessions] == [1]


def _lost(session: Session) -> BaseException:
    session.end(0)
    return ConnectionLost("the server ended the connection")


BREAKS: dict[str, Callable[[Session], BaseException]] = {
    "refused": lambda _: StatementFailed("refused", 1064),
    "not allowed": lambda _: DatabaseError("lacks a privilege"),
    "lost": _lost,
    "interrupted": lambda _: KeyboardInterrupt(),
}


def _held_once(server: Server, kind: LockKind) -> None:
    with locked(CONNECT, limits(), kind) as lock:
        server.clock.sleep(1)
        lock.confirm()


@pytest.mark.parametrize(("version", "kind"), ALL)
@pytest.mark.parametrize("how", BREAKS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_whatever_breaks_no_lock_stays(
    version: str, kind: LockKind, how: str, when: str, serving: Serve
) -> None:
    """Each statement in turn, before it takes effect and after; and what is told is what broke."""
    whole = serving(version=version)
    _held_once(whole, kind)
    for broken in range(1, len(whole.said) + 1):
        server = serving(version=version)

        def fault(number: int, session: Session, broken: int = broken) -> None:
            if number == broken:
                raise BREAKS[how](session)

        setattr(server, when, fault)
        text = whole.texts[broken - 1]
        try:
            _held_once(server, kind)
        except KeyboardInterrupt:
            assert how == "interrupted"
        except (DatabaseError, LockNotTaken):
            assert how != "interrupted", "an interrupt is nobody's failure"
            assert text not in RELEASES, "its session's end ends it, too"
        else:
            # What is said of a lock that is given back may fail: its session ends all the same.
            assert text in (*RELEASES, "SHOW PROCESSLIST")
        assert gone(server), f"{text}: {how} {when}"
        assert all(held_for < 11 for held_for in server.held_for)
