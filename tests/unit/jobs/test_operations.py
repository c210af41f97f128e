"""Orders: what may be ordered and by whom, and what is remembered of it."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.engines.mongodb.clone import clone_server as mongodb
from zbackup.engines.mysql.clone import clone_server as mysql
from zbackup.features.webpage.cloner import watched
from zbackup.features.webpage.operations import record
from zbackup.features.webpage.operations.order import (
    MOST_LEASE,
    CloneOrder,
    parse,
    require_lease,
    require_role,
)
from zbackup.features.webpage.operations.record import (
    EVERY_S,
    LET_GO_S,
    MOST_KEPT,
    MOST_NOTES,
    MOST_RUNNING,
    MOST_STILL_S,
    MOST_TEXT,
    Noted,
    Operations,
    ourselves,
)
from zbackup.model.errors import Refused, Taken, UsageError
from zbackup.model.operation import Operation
from zbackup.proc import secure_files
from zbackup.proc.detached import Process

T0 = datetime(2026, 11, 22, 2, 58, tzinfo=UTC)
GOOD = {
    "verb": "create",
    "id": "ab" * 16,
    "who": "ann",
    "instance": "shop",
    "clone": "dev1",
    "at": "2026-11-21T09:02:00+00:00",
    "lease": "14400",
}
ONE = Operation(id="ab" * 16, verb="create", instance="shop", clone="dev1", who="ann", began=T0)


def test_an_order() -> None:
    wanted = CloneOrder(
        verb="create",
        id="ab" * 16,
        who="ann",
        instance="shop",
        clone="dev1",
        at=datetime(2026, 11, 21, 9, 2, tzinfo=UTC),
        lease=14400.0,
    )
    assert parse(json.dumps(GOOD)) == wanted


@pytest.mark.parametrize(
    "changes",
    [
        *({"verb": verb} for verb in ("switch", "prune", "copy", "promote", "undo", "protect", "", "Create")),
        {"more": ""},
        {"lease": 14400},
        {"lease": "0"},
        {"lease": "-1"},
        {"lease": "1e9"},
        {"lease": "9" * 30},
        {"id": "../../etc/passwd"},
        {"id": ""},
        {"id": "AB" * 16},
        {"at": "yesterday"},
        {"at": "2026-11-21T09:02:00"},
        {"at": "9999-11-21T09:02:00+00:00"},
        {"verb": "restore", "at": ""},
        {"verb": "reset", "at": "2026-11-21T09:02:00+00:00"},
        {"who": "a\x1bb"},
        {"who": "a" * 200},
    ],
)
def test_no_order_that_is_ever_given(changes: dict[str, object]) -> None:
    with pytest.raises(Refused, match="not an order"):
        parse(json.dumps(GOOD | changes))


@pytest.mark.parametrize("name", ["../shop", "Shop", "a" * 64, "a b", "-x", "x\n", "shop.log"])
def test_a_name_that_no_clone_can_have(name: str) -> None:
    for verb in ("create", "destroy", "connect"):
        with pytest.raises(UsageError, match="cannot be a clone's name"):
            parse(json.dumps(GOOD | {"clone": name, "verb": verb}))


@pytest.mark.parametrize("at", ["", "latest"])
def test_a_reset_is_to_where_it_came_from_or_to_the_newest(at: str) -> None:
    assert parse(json.dumps(GOOD | {"verb": "reset", "at": at})).at == at


def test_only_a_new_clone_may_have_no_name_yet() -> None:
    assert parse(json.dumps(GOOD | {"clone": ""})).clone == ""
    with pytest.raises(UsageError):
        parse(json.dumps(GOOD | {"clone": "", "verb": "destroy"}))


@given(st.text() | st.dictionaries(st.sampled_from(sorted(GOOD)), st.text() | st.integers()).map(json.dumps))
def test_whatever_is_said_is_an_order_or_refused(line: str) -> None:
    with suppress(Refused, UsageError):
        assert parse(line).verb in ("create", "reset", "extend", "destroy", "restore", "connect")


def test_who_may_order() -> None:
    require_role(17, frozenset((0, 17)), clones=True)
    with pytest.raises(Refused, match="user id 18 may not ask for clones"):
        require_role(18, frozenset((0, 17)), clones=True)
    for uid in (0, 17):
        with pytest.raises(Refused, match="clones = true in \\[web\\]"):
            require_role(uid, frozenset((0, 17)), clones=False)


def test_no_lease_is_longer_than_a_page_may_give() -> None:
    month = MOST_LEASE.total_seconds()
    assert require_lease(None, None) is None
    assert require_lease(None, month * 9) == month * 9
    assert require_lease(month, None) == month
    assert require_lease(month * 2, month * 3) == month * 2
    with pytest.raises(Refused, match="more than 31 days"):
        require_lease(month + 1, 60.0)


@pytest.fixture
def operations() -> Iterator[Operations]:
    with TemporaryDirectory(prefix="zb") as home:
        yield Operations(Path(home, "run"))


def running(number: int) -> Operation:
    return replace(ONE, id=f"{number:032x}", process=ourselves(), began=T0 + timedelta(seconds=number))


def test_asking_twice_does_it_once(operations: Operations) -> None:
    assert operations.read() == ()
    assert operations.begin(running(1))
    assert not operations.begin(replace(running(1), clone="dev2"))
    assert [o.clone for o in operations.read()] == ["dev1"]


def test_too_many_at_once_are_not_begun(operations: Operations) -> None:
    for number in range(MOST_RUNNING):
        assert operations.begin(running(number))
    with pytest.raises(Taken, match="wait until one is done"):
        operations.begin(running(99))
    for number, verb in enumerate(("extend", "destroy"), 50):
        assert operations.begin(replace(running(number), verb=verb))  # type: ignore[arg-type]
    operations.write(replace(running(0), state="done"))
    assert operations.begin(running(99))


def test_the_oldest_are_forgotten_and_none_that_runs(operations: Operations) -> None:
    assert operations.begin(running(0))
    for number in range(1, MOST_KEPT + 10):
        assert operations.begin(running(number))
        operations.write(replace(running(number), state="done"))
    found = operations.read()
    assert len(found) == MOST_KEPT + 1
    assert found[0].id == running(MOST_KEPT + 9).id  # the newest first
    assert found[-1].state == "running"


def test_one_whose_process_is_gone_was_cut_short(operations: Operations) -> None:
    assert operations.begin(replace(ONE, process="999999999 1"))
    assert [(o.state, "ask again" in o.said) for o in operations.read()] == [("cut short", True)]
    assert operations.begin(running(2))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"id": "x"}', "x" * 100_000])
def test_a_record_that_makes_no_sense_is_left_out(operations: Operations, text: str) -> None:
    assert operations.begin(running(1))
    (operations.directory / "bad.json").write_text(text)
    assert len(operations.read()) == 1


def test_records_are_not_everybodys(operations: Operations) -> None:
    operations.begin(running(1))
    assert operations.directory.stat().st_mode & 0o777 == 0o750
    (file,) = operations.directory.iterdir()
    assert file.stat().st_mode & 0o777 == 0o640
    assert file.stat().st_uid == os.geteuid()


def test_how_far_it_is_is_written_down_and_bounded(operations: Operations) -> None:
    now = [0.0]
    operations.begin(running(1))
    noted = Noted(operations, running(1), lambda: now[0])
    noted.phase("cloning", "x\x1b[2J" + "y" * 5000)
    noted.advance(1, 10)
    (read,) = operations.read()
    assert (read.phase, read.done, len(read.detail)) == ("cloning", 0, MOST_TEXT)
    assert "\x1b" not in read.detail
    noted.note("y" * MOST_TEXT)
    assert operations.read()[0].notes == ("y" * MOST_TEXT,), "as long as it may be"
    now[0] += EVERY_S
    noted.advance(5, 10, "transactions")
    assert (operations.read()[0].done, operations.read()[0].unit) == (5, "transactions")
    for number in range(100):
        noted.note(f"note {number}")
    assert operations.read()[0].notes[-1] == "note 99"
    assert len(operations.read()[0].notes) == MOST_NOTES


def test_the_longest_texts_are_read_again(operations: Operations) -> None:
    operations.begin(running(1))
    noted = Noted(operations, running(1))
    for _ in range(MOST_NOTES):
        noted.note("🐬" * MOST_TEXT)
    noted.phase("🐬" * MOST_TEXT, "🐬" * MOST_TEXT)
    with noted.ending(lambda: T0) as say:
        say("🐬" * MOST_TEXT)
    assert [o.state for o in operations.read()] == ["done"]


def test_work_goes_on_where_nothing_can_be_written_down(operations: Operations) -> None:
    operations.begin(running(1))
    noted = Noted(operations, running(1))
    (operations.directory / f"{running(1).id}.json").unlink()
    operations.directory.rmdir()
    with noted.ending(lambda: T0) as say:
        noted.phase("cloning", "zbackup-1")
        noted.note("a note")
        noted.name("shop-dev1")
        say("it runs")
    assert noted.one.state == "done"


def test_how_it_ended_is_written_down(operations: Operations) -> None:
    operations.begin(running(1))
    noted = Noted(operations, running(1))
    with noted.ending(lambda: T0) as say:
        noted.name("shop-dev1")
        say("it runs")
    (read,) = operations.read()
    assert (read.state, read.said, read.clone, read.ended) == ("done", "it runs", "shop-dev1", T0)
    for failure, why in (
        (Refused("no room"), "no room"),
        (KeyboardInterrupt(), "it was told to end"),
        (MemoryError(), "MemoryError"),
    ):
        with (
            pytest.raises(type(failure)),
            Noted(operations, running(1)).ending(lambda: T0),
        ):
            raise failure
        assert [(o.state, o.said) for o in operations.read()] == [("failed", why)]


def test_what_hangs_is_ended_and_its_cause_is_in_the_history(operations: Operations) -> None:
    now, still = [100.0], []
    operations.begin(ONE)
    noted = Noted(operations, ONE, lambda: now[0])
    with pytest.raises(KeyboardInterrupt), noted.ending(lambda: T0):
        noted.phase("replaying", "binlog.000051")
        now[0] += MOST_STILL_S - 1
        noted.advance(1, 100)
        now[0] += MOST_STILL_S - 1
        noted.advance(1, 100)  # that tells of no progress
        noted.require_moving()
        still.append(now[0])
        now[0] += 2
        noted.require_moving()
    (one,) = operations.read()
    assert still, "a count that moved is progress"
    assert (one.state, one.said) == (
        "failed",
        "nothing moved for 25 hours in the phase replaying: it was ended",
    )


def test_no_server_is_ended_that_may_go_on_by_its_own_limit() -> None:
    """As mongod, which replays all of an oplog before it answers, and tells nobody how far it is."""
    assert max(mongodb.START_LIMIT_S, mysql.START_LIMIT_S) < MOST_STILL_S


def test_what_is_ended_has_time_to_clean_up_and_is_told_again_if_that_hangs(operations: Operations) -> None:
    now = [0.0]
    noted = Noted(operations, ONE, lambda: now[0])
    now[0] = MOST_STILL_S + 60
    with pytest.raises(KeyboardInterrupt, match=r"^nothing moved for 25 hours: it was ended$"):
        noted.require_moving()
    for _ in range(int(LET_GO_S / 60)):
        now[0] += 60
        noted.require_moving()
    now[0] += 60
    with pytest.raises(KeyboardInterrupt):
        noted.require_moving()


def test_somebody_looks_after_what_blocks() -> None:
    def ended() -> None:
        raise KeyboardInterrupt("nothing moved")

    reader, writer = os.pipe()
    try:
        with pytest.raises(KeyboardInterrupt, match="nothing moved"), watched(ended, 0.01):
            os.read(reader, 1)  # nobody writes
    finally:
        os.close(reader)
        os.close(writer)
    with watched(ended, 3600.0):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_process_that_one_may_not_see_runs(operations: Operations, monkeypatch: pytest.MonkeyPatch) -> None:
    """With hidepid=2 there is no /proc/PID of another user's for us."""
    with subprocess.Popen(("sleep", "600")) as other:
        one = replace(ONE, process=str(Process.of(other.pid)))
        operations.begin(one)
        assert operations.read()[0].state == "running"

        def forbidden(pid: int, number: int) -> None:
            assert (pid, number) == (other.pid, 0)
            raise PermissionError

        monkeypatch.setattr(Process, "of", lambda pid: None)
        monkeypatch.setattr(os, "kill", forbidden)
        monkeypatch.setattr(os, "access", lambda path, mode: False)
        assert operations.read()[0].state == "running"
        monkeypatch.undo()
        other.kill()
        other.wait()
        assert operations.read()[0].state == "cut short"


def test_another_process_that_has_the_number_by_now_is_not_ours(
    operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whosever it is: we can see it, and may not signal it."""

    def forbidden(pid: int, number: int) -> None:
        raise PermissionError

    pid, started = ourselves().split()
    operations.begin(replace(ONE, process=f"{pid} {int(started) - 1}"))
    monkeypatch.setattr(os, "kill", forbidden)
    assert operations.read()[0].state == "cut short"


@pytest.mark.parametrize(("uid", "group"), [(0, 4711), (1000, 100)])
def test_the_readers_group_can_read_what_root_writes(
    operations: Operations, monkeypatch: pytest.MonkeyPatch, uid: int, group: int
) -> None:
    """Who is not root has no other group to give."""
    made: list[tuple[int, object]] = []

    def make(path: Path, *, mode: int, owner: object) -> None:
        made.append((mode, owner))
        path.mkdir(parents=True)

    monkeypatch.setattr(record, "os", SimpleNamespace(geteuid=lambda: uid, getegid=lambda: 100))
    monkeypatch.setattr(record.grp, "getgrnam", lambda name: SimpleNamespace(gr_gid=4711))
    files = SimpleNamespace(make_directory=make, names=secure_files.names, replace=secure_files.replace)
    monkeypatch.setattr(record, "secure_files", files)
    operations.begin(ONE)
    assert made == [(0o2750, (uid, group))]
