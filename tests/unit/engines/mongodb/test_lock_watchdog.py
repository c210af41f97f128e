"""A lock is released by its watchdog, or the next run, where zbackup itself cannot; never another's."""

from collections.abc import Callable

import pytest

from tests.unit.engines.clock import Timer
from tests.unit.engines.mongodb.lock_server import CONNECT, Mongod, serving
from tests.unit.engines.mongodb.test_lock import held_once, holding, in_order, number_of, transaction
from tests.unit.engines.watchdog import Killed
from zbackup.engines.mongodb.lock.lock import heal
from zbackup.engines.mongodb.server.connection import ConnectionLost
from zbackup.model.errors import DatabaseError

__all__ = ["serving"]
Serve = Callable[..., Mongod]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("watchdog", ["lives", "dies too"])
def test_killed_at_any_command_somebody_releases_it(when: str, watchdog: str, serving: Serve) -> None:
    """The watchdog; if that dies as well, the next run, by the note."""
    whole = serving()
    held_once(whole)
    for broken in range(1, len(whole.said) + 1):
        server = serving()

        def kill(number: int, broken: int = broken, server: Mongod = server) -> None:
            if number == broken:
                server.watchdog_dead = watchdog == "dies too"
                server.kill()
                raise Killed

        setattr(server, when, kill)
        with pytest.raises(Killed):
            held_once(server)
        if watchdog == "dies too":
            server.killed, server.before, server.after = False, whole.before, whole.after
            heal(CONNECT, server.note)
        assert in_order(server), number_of(whole, broken)


def test_killed_before_it_asked_its_watchdog_releases_nobody_elses_lock(serving: Serve) -> None:
    server = serving(transactions=[transaction()])

    def kill(_: int) -> None:
        server.lock_as_another()
        server.kill()
        raise Killed

    server.before = kill
    with pytest.raises(Killed), holding(server):
        pytest.fail("a lock was granted")
    assert server.locks == ["another's"] and in_order(server)


def test_a_note_releases_nobody_elses_lock(serving: Serve) -> None:
    server = serving()
    server.note.write(server.end)
    server.write()
    server.lock_as_another()
    with pytest.raises(DatabaseError, match="another program may have as well"):
        heal(CONNECT, server.note)
    assert server.locks == ["another's"] and server.note.path.exists()
    server.locks.clear()
    heal(CONNECT, server.note)
    assert not server.note.path.exists()


def test_where_there_is_no_note_nobody_is_asked(serving: Serve) -> None:
    server = serving()
    server.lock_as_another()
    heal(CONNECT, server.note)
    assert server.locks == ["another's"] and not server.said
    server.note.write(server.end)
    server.ended = True
    heal(CONNECT, server.note)
    assert server.note.path.exists(), "a server that cannot be reached may be locked"


@pytest.mark.parametrize(("minutes", "well"), [(2, True), (20, False)])
@pytest.mark.parametrize("trouble", ["ended", "refuses"])
def test_a_watchdog_insists_for_five_minutes(trouble: str, minutes: int, well: bool, serving: Serve) -> None:
    server = serving()
    with pytest.raises(ConnectionLost), holding(server):
        began = server.clock.now
        setattr(server, trouble, True)
        Timer(server.clock, minutes * 60, lambda: setattr(server, trouble, False)).start()
        raise ConnectionLost("cut off from a server that goes on")
    assert server.clock.now - began < 360 and server.watchdogs[0].status == (0 if well else 1)
    assert (server.ours == 0) == well == (not server.note.path.exists())
    assert len([session for session in server.sessions if not session.closed]) == 1


def test_a_server_that_has_ended_is_not_asked_to_unlock_for_ten_minutes(serving: Serve) -> None:
    server = serving()
    with holding(server):
        began = server.clock.now
        server.ended = server.watchdog_dead = True
        server.locks.clear()
    assert server.clock.now - began < 60
    assert server.note.path.exists(), "the next run looks"
    server.ended = False
    heal(CONNECT, server.note)
    assert in_order(server)


def test_one_that_reaches_the_server_after_zbackup_has_died_is_released(serving: Serve) -> None:
    """It was sent, and the watchdog sees neither a lock nor one that waits yet."""
    server = serving()

    def kill(_: int) -> None:
        if server.said[-1] == "fsync":
            Timer(server.clock, 2, server.grant).start()
            server.kill()
            raise Killed

    server.before = kill
    with pytest.raises(Killed), holding(server):
        pytest.fail("it was killed")
    assert server.held_for and in_order(server)
