"""A replica's applier is paused under a lock, and runs again whatever breaks or dies."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.engines.clock import Timer
from tests.unit.engines.mysql.lock_server import CONNECT, Server, Session, serving
from tests.unit.engines.watchdog import Killed
from zbackup.config.lock import Lock
from zbackup.engines.marker_file import MarkerFile
from zbackup.engines.mysql.engine import MysqlEngine
from zbackup.engines.mysql.lock.applier import heal, marker_file, paused
from zbackup.engines.mysql.server.connection import ConnectionLost, StatementFailed
from zbackup.model.errors import DatabaseError, LockNotTaken, Refused

__all__ = ["serving"]
Serve = Callable[..., Server]
VERSIONS = ["9.7.4", "8.0.20", "10.11.18-MariaDB"]
LIMITS = Lock.model_construct()


@pytest.fixture
def note(tmp_path: Path) -> MarkerFile[list[str]]:
    return marker_file(tmp_path / "run" / "shop.applier-stopped")


def replica(serving: Serve, **like: Any) -> Server:
    return serving(appliers={"east": True, "idle": False, "west": True}, **like)


def runs_again(server: Server, note: MarkerFile[list[str]]) -> bool:
    """As before: what did not run does not, either. The watchdog has had its time."""
    server.clock.sleep(400)
    return server.appliers == {"east": True, "idle": False, "west": True} and note.read() is None


@pytest.mark.parametrize("version", VERSIONS)
def test_it_stands_still_under_the_body_where_it_ran_before(
    version: str, note: MarkerFile[list[str]], serving: Serve
) -> None:
    server = replica(serving, version=version)
    with paused(CONNECT, LIMITS, note):
        assert not any(server.appliers.values()) and note.read() == ["east", "west"]
        assert server.watchdogs[0].alive
    assert server.watchdogs[0].status == 0 and any(server.appliers.values())
    assert not any(text.startswith("START") for text in server.by_watchdog), "there is no need"
    server.appliers["east"] = False
    server.clock.sleep(400)
    assert not [session for session in server.sessions if session.ours]
    assert not server.appliers["east"], "it is over: nobody starts what is stopped later"


def test_a_watchdog_and_a_note_are_there_before_it_is_stopped(
    note: MarkerFile[list[str]], serving: Serve
) -> None:
    server = replica(serving)
    seen = list[object]()

    def look(_: int, session: Session) -> None:
        if server.texts[-1].startswith("STOP"):
            seen.append((note.read(), server.watchdogs[0].alive, server.watchdogs[0].ignores))

    server.before = look
    with paused(CONNECT, LIMITS, note):
        pass
    ready = (["east", "west"], True, {"SIGINT", "SIGTERM", "SIGHUP"})
    assert seen == [ready, ready]


@pytest.mark.parametrize("appliers", [{}, {"": False}])
def test_where_none_runs_none_is_stopped(
    appliers: dict[str, bool], note: MarkerFile[list[str]], serving: Serve
) -> None:
    server = serving(appliers=appliers)
    with paused(CONNECT, LIMITS, note):
        assert not server.watchdogs and note.read() is None
    assert server.texts == ["SHOW REPLICA STATUS"]


def test_one_that_is_to_stop_somewhere_is_left_alone(note: MarkerFile[list[str]], serving: Serve) -> None:
    server = replica(serving, until="SQL_AFTER_GTIDS")
    with pytest.raises(Refused, match="started UNTIL SQL_AFTER_GTIDS"), paused(CONNECT, LIMITS, note):
        pytest.fail("it was stopped")
    assert not any(text.startswith("STOP") for text in server.texts)
    assert runs_again(server, note)


def test_one_that_does_not_stop_in_time_is_started_again(note: MarkerFile[list[str]], serving: Serve) -> None:
    server = replica(serving, stop_s=500)
    began = server.clock.now
    said = "the applier did not stop within 30 s"
    with pytest.raises(LockNotTaken, match=said), paused(CONNECT, LIMITS, note):
        pytest.fail("it did not stop")
    assert server.clock.now - began < 40 and runs_again(server, note)
    assert not any(text.startswith("START") for text in server.texts), "its watchdog did it"


def test_without_a_watchdog_nothing_is_stopped(note: MarkerFile[list[str]], serving: Serve) -> None:
    server = replica(serving, watchdog_fails="it cannot log in")
    with pytest.raises(LockNotTaken, match="it cannot log in"), paused(CONNECT, LIMITS, note):
        pytest.fail("it was stopped")
    assert not any(text.startswith("STOP") for text in server.texts) and runs_again(server, note)


@pytest.mark.parametrize("failure", [KeyboardInterrupt, LockNotTaken])
def test_without_its_watchdog_it_is_started_by_us(
    failure: type[BaseException], note: MarkerFile[list[str]], serving: Serve
) -> None:
    """Not by the next run only, which may come tomorrow."""
    server = replica(serving)
    with pytest.raises(failure), paused(CONNECT, LIMITS, note):
        server.watchdog_dead = True
        raise failure("the body failed")
    assert server.appliers == {"east": True, "idle": False, "west": True} and runs_again(server, note)


def test_where_nobody_can_start_it_the_note_stays(note: MarkerFile[list[str]], serving: Serve) -> None:
    server = replica(serving)
    with pytest.raises(KeyboardInterrupt), paused(CONNECT, LIMITS, note):
        server.watchdog_dead, server.starts = True, False
        raise KeyboardInterrupt
    assert note.read() == ["east", "west"]
    server.starts = True
    heal(CONNECT, note)
    assert runs_again(server, note)


def test_one_that_does_not_run_again_is_told_with_its_reason(
    note: MarkerFile[list[str]], serving: Serve
) -> None:
    server = replica(serving)
    said = "does not run again: channel 'east': a row is missing; channel 'west'"
    with pytest.raises(DatabaseError, match=said), paused(CONNECT, LIMITS, note):
        server.starts = False
    assert note.read() == ["east", "west"], "the next run tries again"


def test_a_channel_that_is_gone_meanwhile_is_not_missed(note: MarkerFile[list[str]], serving: Serve) -> None:
    server = replica(serving)
    with paused(CONNECT, LIMITS, note):
        del server.appliers["west"]
    assert server.appliers == {"east": True, "idle": False} and note.read() is None


def test_one_who_is_stopped_meanwhile_does_not_keep_it_stopped(
    note: MarkerFile[list[str]], serving: Serve
) -> None:
    """Also where the server ends sessions that are silent for a short time."""
    server = replica(serving, silence=30)
    with paused(CONNECT, LIMITS, note):
        server.clock.sleep(30 + 30 + 10 + 20 - 5)
        assert not server.appliers["east"]
        assert server.sessions[0].alive, "the first session is still there to start it"
        server.clock.sleep(20)
        assert server.appliers == {"east": True, "idle": False, "west": True}
    assert runs_again(server, note)


def test_a_server_that_is_away_for_a_while_is_waited_for(note: MarkerFile[list[str]], serving: Serve) -> None:
    """Restarted, for instance: who died cannot, and its watchdog's session ended with the server."""
    server = replica(serving)

    def restart(number: int, session: Session) -> None:
        if server.texts[-1].startswith("STOP") and "west" in server.texts[-1]:
            for each in server.clock.sessions:
                each.end(0)
            raise ConnectionLost("the server ended the connection")

    server.after = restart
    with pytest.raises(LockNotTaken), paused(CONNECT, LIMITS, note):
        pytest.fail("it was lost")
    assert runs_again(server, note) and len([s for s in server.clock.sessions if s.alive and not s.ours]) == 1


@pytest.mark.parametrize("role", ["replica", "primary"])
def test_the_lock_is_held_only_while_it_stands_still(role: str, tmp_path: Path, serving: Serve) -> None:
    """The two can deadlock; a server that is none's replica has none to stop."""
    server = replica(serving)

    def look(_: int, session: Session) -> None:
        running = any(server.appliers.values())
        if server.holder and server.texts[-1] != "FLUSH TABLES WITH READ LOCK":
            assert running == (role == "primary"), server.texts[-1]

    server.before = server.after = look
    engine = MysqlEngine(instance="shop", connect=CONNECT, lock=LIMITS, run_dir=tmp_path / "run")
    with engine.consistent(cast(Any, SimpleNamespace(role=role)), "ftwrl") as held:
        held.confirm()
    asked = server.texts.index("FLUSH TABLES WITH READ LOCK")
    assert any(text.startswith("STOP") for text in server.texts[:asked]) == (role == "replica")
    assert server.appliers["east"] and not server.holder


def _lost(session: Session) -> BaseException:
    session.end(0)
    return ConnectionLost("the server ended the connection")


BREAKS: dict[str, Callable[[Session], BaseException]] = {
    "refused": lambda _: StatementFailed("refused", 1064),
    "lost": _lost,
    "interrupted": lambda _: KeyboardInterrupt(),
}


def _paused_once(server: Server, note: MarkerFile[list[str]]) -> None:
    with paused(CONNECT, LIMITS, note):
        server.clock.sleep(1)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("how", BREAKS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_whatever_breaks_it_runs_again(
    version: str, how: str, when: str, note: MarkerFile[list[str]], serving: Serve
) -> None:
    whole = replica(serving, version=version)
    _paused_once(whole, note)
    for broken in range(1, len(whole.said) + 1):
        server = replica(serving, version=version)

        def fault(number: int, session: Session, broken: int = broken) -> None:
            if number == broken:
                raise BREAKS[how](session)

        setattr(server, when, fault)
        error = KeyboardInterrupt if how == "interrupted" else (DatabaseError, LockNotTaken)
        with pytest.raises(error):
            _paused_once(server, note)
        assert runs_again(server, note), f"{whole.texts[broken - 1]}: {how} {when}"


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("watchdog", ["lives", "dies too"])
def test_killed_at_any_statement_somebody_starts_it(
    when: str, watchdog: str, note: MarkerFile[list[str]], serving: Serve
) -> None:
    """The watchdog; if that dies as well, the next run, by the note."""
    whole = replica(serving)
    _paused_once(whole, note)
    for broken in range(1, len(whole.said) + 1):
        server = replica(serving)

        def kill(number: int, session: Session, broken: int = broken, server: Server = server) -> None:
            if number == broken:
                server.watchdog_dead = watchdog == "dies too"
                server.kill()
                raise Killed

        setattr(server, when, kill)
        with pytest.raises(Killed):
            _paused_once(server, note)
        if watchdog == "dies too":
            server.killed, server.before, server.after = False, whole.before, whole.after
            heal(CONNECT, note)
        assert runs_again(server, note), whole.texts[broken - 1]


def test_a_note_stays_while_the_server_is_away(note: MarkerFile[list[str]], serving: Serve) -> None:
    server = replica(serving)
    heal(CONNECT, note)
    assert not server.said, "there is nothing to heal"
    note.write(["east"])
    server.away, server.appliers["east"] = True, False
    heal(CONNECT, note)
    assert note.read() == ["east"]
    server.away = False
    heal(CONNECT, note)
    assert runs_again(server, note)


@pytest.mark.parametrize(("minutes", "well"), [(2, True), (20, False)])
def test_a_watchdog_insists_for_five_minutes(
    minutes: int, well: bool, note: MarkerFile[list[str]], serving: Serve
) -> None:
    server = replica(serving)
    began = server.clock.now
    with pytest.raises(KeyboardInterrupt), paused(CONNECT, LIMITS, note):
        server.starts = False
        Timer(server.clock, minutes * 60, lambda: setattr(server, "starts", True)).start()
        raise KeyboardInterrupt
    assert server.clock.now - began < 320 and server.watchdogs[0].status == (0 if well else 1)
    assert server.appliers["east"] == well == (note.read() is None)
    assert len([session for session in server.clock.sessions if session.alive]) == 1, "and fills no server up"


def test_a_watchdog_that_is_let_in_no_more_keeps_its_session(
    note: MarkerFile[list[str]], serving: Serve
) -> None:
    """All connections are taken, say, or the password is another by now."""
    server = replica(serving)
    with pytest.raises(KeyboardInterrupt), paused(CONNECT, LIMITS, note):
        server.starts, server.away = False, True
        Timer(server.clock, 60, lambda: setattr(server, "starts", True)).start()
        raise KeyboardInterrupt
    assert server.watchdogs[0].status == 0 and runs_again(server, note)


def test_a_watchdog_needs_no_new_session_however_long_it_waited(
    note: MarkerFile[list[str]], serving: Serve
) -> None:
    """Also where the server ends sessions that are silent for a short time."""
    server = replica(serving, silence=30)
    with pytest.raises(KeyboardInterrupt), paused(CONNECT, LIMITS, note):
        server.clock.sleep(60)
        server.away = True
        raise KeyboardInterrupt
    assert server.watchdogs[0].status == 0 and runs_again(server, note)


def test_a_start_that_overtook_the_stop_is_given_again(note: MarkerFile[list[str]], serving: Serve) -> None:
    """What was sent just before zbackup died may reach the server after what its watchdog sent."""
    server = replica(serving)

    def kill(_: int, session: Session) -> None:
        if server.texts[-1].startswith("STOP"):
            stop = Timer(server.clock, 0.5, lambda: server.appliers.update(east=False))
            stop.start()
            server.kill()
            raise Killed

    server.before = kill
    with pytest.raises(Killed), paused(CONNECT, LIMITS, note):
        pytest.fail("it was killed")
    assert runs_again(server, note)
    assert sum(text.startswith("START") for text in server.by_watchdog) == 4, "both channels, at once as well"
