"""fsyncLock is asked for in the right order, gone afterwards, whatever breaks, and never another's."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.engines.mongodb.lock_server import CONNECT, Mongod, note_says, serving
from zbackup.config.lock import Lock
from zbackup.engines.mongodb.lock.lock import locked
from zbackup.engines.mongodb.server.connection import CommandRefused, ConnectionLost, NotAnswered
from zbackup.model.errors import DatabaseError, LockNotTaken
from zbackup.model.record import LockKind

__all__ = ["serving"]
Serve = Callable[..., Mongod]


def holding(server: Mongod, kind: LockKind = "fsync", **changed: Any) -> Any:
    limits = Lock.model_construct(**({"hold": 10.0} | changed))
    return locked(CONNECT, limits, kind, server.note, oplog=server.replicates)


def refused(server: Mongod, match: str, **changed: Any) -> None:
    """No lock is granted, and nothing is left of having asked for it."""
    with pytest.raises(LockNotTaken, match=match), holding(server, **changed):
        pytest.fail("a lock was granted")


def in_order(server: Mongod) -> bool:
    """No lock of ours, once the watchdog has had its time, none of others taken away, and no note."""
    server.clock.sleep(100)
    return server.ours == 0 and server.wrongly_released == 0 and not server.note.path.exists()


def test_it_is_held_while_the_body_runs_and_gone_when_it_has_ended(serving: Serve) -> None:
    server = serving()
    with holding(server) as lock:
        assert server.locks == ["ours"] and note_says(server) == server.end
        assert lock.position == server.end and lock.gtid == "" and lock.kind == "fsync"
        server.clock.sleep(3)
        assert 0 < lock.seconds_left() < 7
        lock.confirm()
        assert lock.facts["oplog_first"] == "1000,1@2" and "oplog_wall" in lock.facts
        assert "oplog_after" not in lock.facts
    assert server.locks == [] and server.held_for == [3] and lock.held_ms == 3000
    assert server.watchdogs[0].status == 0 and server.said.count("fsyncUnlock") == 1
    server.lock_as_another()
    assert in_order(server) and server.locks == ["another's"], "it is over: nobody releases what comes later"


def test_a_watchdog_and_a_note_are_there_before_it_is_asked_for(serving: Serve) -> None:
    """Whatever dies from then on, somebody knows of the lock."""
    server = serving(free_in=1.0)
    seen = list[tuple[list[str], str | None]]()

    def look(number: int) -> None:
        if server.said[-1] == "fsync":
            seen.append((list(server.watchdogs[0].told), note_says(server)))
            server.write()

    server.before = look
    with holding(server) as lock:
        assert seen == [(["asking"], "1007,1@2")] and lock.lock_wait_ms == 1000
        assert note_says(server) == lock.position == "1008,1@2", "what was written until it was granted"
        assert server.watchdogs[0].told == ["asking", "locked"], "from now on the ceiling counts"
        assert lock.seconds_left() == 9


def test_a_watchdog_outlives_what_ends_zbackup(serving: Serve) -> None:
    """Ctrl-C, and a systemd that stops a unit, reach both."""
    server = serving()
    with holding(server):
        assert server.watchdogs[0].ignores == {"SIGINT", "SIGTERM", "SIGHUP"}


def test_the_server_is_told_for_how_long_to_wait(serving: Serve) -> None:
    server = serving(free_in=1e9)
    began = server.clock.now
    refused(server, "was not granted within 30 s: Fsync lock timed out")
    assert [order["fsyncLockAcquisitionTimeoutMillis"] for order in server.asked] == [30_000]
    assert server.clock.now - began == 30 and in_order(server)
    assert server.said.count("fsyncUnlock") == 0, "there is nothing to release"


def test_what_was_waited_for_before_is_not_waited_for_again(serving: Serve) -> None:
    server = serving(free_in=1e9, transactions=[transaction()])
    began = server.clock.now

    def end_them(_: int) -> None:
        if server.clock.now - began > 20:
            server.transactions = []

    server.before = end_them
    refused(server, "was not granted within 30 s")
    assert server.clock.now - began == pytest.approx(30, abs=1) and in_order(server)


def test_one_that_is_granted_when_nobody_waits_any_more_is_released(serving: Serve) -> None:
    """Older servers know no limit: only the watchdog can wait for it."""
    server = serving(free_in=50.0, gives_up=False)
    began = server.clock.now
    refused(server, "was not granted within 30 s: it does not answer")
    assert server.clock.now - began < 60
    assert server.held_for and max(server.held_for) < 5
    assert in_order(server)


def test_one_that_is_stopped_under_the_lock_loses_it_at_the_ceiling(serving: Serve) -> None:
    server = serving()
    said = r"did not last to the end \(its ceiling is 10 s\)"
    with pytest.raises(LockNotTaken, match=said), holding(server) as lock:
        server.clock.sleep(1000)
        assert server.locks == [] and server.held_for == [10]
        server.lock_as_another()
        lock.confirm()
    assert server.locks == ["another's"] and in_order(server)


def test_at_the_ceiling_it_does_not_count_any_more(serving: Serve) -> None:
    """The watchdog is about to release it, also where the server still says that it is locked."""
    server = serving(watchdog_dead=False)
    with pytest.raises(LockNotTaken, match="did not last"), holding(server) as lock:
        server.clock.now += 10  # the watchdog is not quite as quick
        assert server.ours == 1 and lock.is_over
        lock.confirm()
    assert in_order(server)


def test_without_its_watchdog_a_lock_past_its_ceiling_is_released_all_the_same(serving: Serve) -> None:
    server = serving()
    with pytest.raises(LockNotTaken, match="did not last"), holding(server) as lock:
        server.watchdog_dead = True
        server.clock.sleep(20)
        lock.confirm()
    assert in_order(server)


def test_a_lock_that_somebody_else_released_is_not_confirmed(serving: Serve) -> None:
    server = serving()
    with pytest.raises(LockNotTaken, match="did not last"), holding(server) as lock:
        server.locks.clear()
        lock.confirm()
    assert server.clock.now == 1000, "nobody looks for a lock that is to come"
    assert in_order(server)


def test_an_oplog_that_moved_under_the_lock_is_refused(serving: Serve) -> None:
    server = serving()
    said = "moved under the lock, from 1007,1@2 to 1008,1@2"
    with pytest.raises(LockNotTaken, match=said), holding(server) as lock:
        server.writes += 1
        lock.confirm()
    assert in_order(server)


def test_a_server_without_an_oplog_is_held_by_what_it_counts(serving: Serve) -> None:
    server = serving(replicates=False)
    with holding(server) as lock:
        assert (lock.position, dict(lock.facts)) == ("", {}) and note_says(server) == "7 writes of process 1"
        lock.confirm()
    assert in_order(server) and "entry" not in " ".join(server.said)


@pytest.mark.parametrize("replicates", [True, False])
def test_without_a_lock_both_ends_are_told(replicates: bool, serving: Serve) -> None:
    server = serving(replicates=replicates)
    with holding(server, "none") as lock:
        assert lock.seconds_left() == 600 and lock.kind == "none"
        server.clock.sleep(500)
        server.write()
        lock.confirm()
        facts = {"oplog_wall", "oplog_durable_wall", "oplog_after", "oplog_after_wall"}
        facts |= {"oplog_first", "oplog_first_wall"}
        assert set(lock.facts) == (facts if replicates else set())
        assert lock.position == ("1007,1@2" if replicates else "")
        if replicates:
            assert lock.facts["oplog_after"] == "1008,1@2"
    assert not server.asked and not server.watchdogs and not server.note.path.exists()


def test_it_does_not_nest_on_somebody_elses_lock(serving: Serve) -> None:
    server = serving(waiting=[{"microsecs_running": 4_000_000}, {"microsecs_running": 7_000_000}])
    server.lock_as_another()
    refused(server, r"locked by somebody else's fsyncLock; 2 operations wait behind it, the longest for 7 s:")
    assert not server.asked and server.locks == ["another's"] and in_order(server)
    server = serving()
    server.lock_as_another()
    refused(server, r"locked by somebody else's fsyncLock: let that backup end")
    assert server.locks == ["another's"] and in_order(server)


def test_two_that_lock_at_once_give_way_and_the_other_keeps_his(serving: Serve) -> None:
    server = serving()

    def other(_: int) -> None:
        if server.said[-1] == "fsync":
            server.lock_as_another()

    server.before = other
    refused(server, r"somebody else's fsyncLock at the same time \(1 more\)")
    assert server.locks == ["another's"] and in_order(server)


def test_another_lock_that_came_meanwhile_stays(serving: Serve) -> None:
    server = serving()
    with holding(server):
        server.lock_as_another()
    assert server.locks == ["another's"] and in_order(server)


@pytest.mark.parametrize("said", ["it cannot log in", "not ready within 20 s"])
def test_without_a_watchdog_nothing_is_asked_for(said: str, serving: Serve) -> None:
    server = serving(watchdog_fails=said)
    refused(server, said)
    assert not server.asked and in_order(server)


def test_a_watchdog_that_died_in_time_to_be_missed_ends_it(serving: Serve) -> None:
    server = serving()

    def die(_: int) -> None:
        server.watchdog_dead = server.said[-1] == "fsync"

    server.after = die
    refused(server, "the watchdog of the lock has ended: was it killed?")
    assert in_order(server)


def transaction(**changed: Any) -> dict[str, Any]:
    known = {"transaction": {"timeOpenMicros": 60_000_000}, "locks": {"Global": "w"}, "client": "1.2.3.4:5"}
    return known | {"effectiveUsers": [{"user": "app"}]} | changed


@pytest.mark.parametrize(("policy", "said"), [("abort", "are open: app at"), ("wait", "within 30 s, and")])
def test_a_transaction_that_would_hold_everybody_up_is_not_asked_behind(
    policy: str, said: str, serving: Serve
) -> None:
    server = serving(transactions=[transaction()])
    began = server.clock.now
    refused(server, said, on_long_query=policy)
    assert server.clock.now - began <= 31 and (policy == "wait") == (server.clock.now - began >= 29)
    assert not server.asked and in_order(server)


def test_a_client_without_a_user_is_told_by_what_it_calls_itself(serving: Serve) -> None:
    unknown = transaction(client=None, effectiveUsers=[], appName="shop")
    refused(serving(transactions=[unknown]), "are open: somebody at shop, open", on_long_query="abort")
    nobody = transaction(client=None, effectiveUsers=[])
    refused(serving(transactions=[nobody]), "somebody at a client", on_long_query="abort")


def test_one_that_is_open_for_just_so_long_counts(serving: Serve) -> None:
    long = transaction(transaction={"timeOpenMicros": 5_000_000})
    refused(serving(transactions=[long]), "are open", on_long_query="abort")
    short = transaction(transaction={"timeOpenMicros": 4_999_999})
    with holding(serving(transactions=[short]), on_long_query="abort"):
        pass


def held_once(server: Mongod) -> None:
    with holding(server) as lock:
        server.clock.sleep(1)
        lock.confirm()


BREAKS: dict[str, Callable[[], BaseException]] = {
    "refused": lambda: CommandRefused("refused", 2),
    "lost": lambda: ConnectionLost("the connection is lost"),
    "not answered": lambda: NotAnswered("it does not answer"),
    "interrupted": KeyboardInterrupt,
}


@pytest.mark.parametrize("how", BREAKS)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("replicates", [True, False])
def test_whatever_breaks_no_lock_stays(how: str, when: str, replicates: bool, serving: Serve) -> None:
    """Each command in turn, before it takes effect and after."""
    whole = serving(replicates=replicates)
    held_once(whole)
    for broken in range(1, len(whole.said) + 1):
        name = whole.said[broken - 1]
        if (name, how, when) == ("fsync", "refused", "after"):
            continue  # no server refuses what it did
        server = serving(replicates=replicates)

        def fault(number: int, broken: int = broken) -> None:
            if number == broken:
                raise BREAKS[how]()

        setattr(server, when, fault)
        try:
            held_once(server)
        except KeyboardInterrupt:
            assert how == "interrupted"
        except (DatabaseError, LockNotTaken):
            assert how != "interrupted", "an interrupt is nobody's failure"
            assert name != "fsyncUnlock", "then the watchdog does it"
        else:
            assert name == "fsyncUnlock"
        assert in_order(server), f"{number_of(whole, broken)}: {how} {when}"
        assert all(held_for <= 10 for held_for in server.held_for)


def number_of(server: Mongod, number: int) -> str:
    return f"command {number} ({server.said[number - 1]})"
