"""A search of a destination's logs: what it leaves, and what it leaves alone."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.plan.histories import at_hour, made
from tests.unit.samples import backup
from zbackup.destinations.copies import Copies
from zbackup.jobs.clones import clone_datasets, temporary
from zbackup.jobs.restore import search_copies
from zbackup.jobs.restore.archived_log import DAMAGED
from zbackup.jobs.restore.search_log import require_all_read
from zbackup.jobs.ship.archived import NO_ARCHIVE, ArchivedCopies
from zbackup.model.backup import Backup
from zbackup.model.errors import NotRecoverable, Taken, VerificationFailed
from zbackup.model.log_entry import LogFilter, LogRead

ZFS = SimpleNamespace(filesystems=lambda _: [], require_unused=lambda _: None)


class Host:
    """Copies by their ids, of which one has the name that a search uses; each search makes another."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, there: str) -> None:
        self.there, self.destroyed = there, list[str]()
        monkeypatch.setattr(clone_datasets, "find_clone", self._find)
        monkeypatch.setattr(clone_datasets, "destroy", self._destroy)
        monkeypatch.setattr(search_copies, "remote_holds", self._nothing)
        monkeypatch.setattr(temporary, "working_on", self._nothing)
        monkeypatch.setattr(temporary, "fetched_guids", lambda *_: {"1"})
        monkeypatch.setattr(search_copies, "fetch", self._fetch)
        self.failure: Exception | None = None
        self.makes = "made"

    def search(self) -> None:
        ctx, target = (
            cast(Any, SimpleNamespace(instance="shop", **more))
            for more in ({"clones": "tank/zb", "zfs": ZFS}, {"adapter": SimpleNamespace(here=""), "limit": 0})
        )
        held = backup(1, 7, 7, log_id="a", log_from="binlog.000001:4", log_to="binlog.000001:20")
        there = ArchivedCopies(Copies((held,), ()), NO_ARCHIVE, ())
        with search_copies._brought(ctx, target, cast(Any, None), there, held):
            pass

    def _find(self, _: object, name: str) -> tuple[SimpleNamespace, str] | None:
        if name != "shop-search.copy" or not self.there:
            return None
        about = {"id": self.there, "name": name, "kind": "copy", "instance": "shop"}
        return SimpleNamespace(**about), SimpleNamespace(name="dataset")

    def _destroy(self, _: object, clone: SimpleNamespace, __: object) -> None:
        self.destroyed.append(clone.id)
        self.there = ""

    @contextmanager
    def _nothing(self, *_: object) -> Iterator[None]:
        yield

    def _fetch(self, *_: object) -> None:
        self.there = self.makes or self.there
        if self.failure:
            raise self.failure


def test_what_was_made_is_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, there="")
    host.search()
    assert host.destroyed == ["made"]


def test_what_was_made_is_gone_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, there="")
    host.failure = OSError()
    with pytest.raises(OSError):
        host.search()
    assert host.destroyed == ["made"]


def test_what_was_gone_on_with_is_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, there="begun")
    host.makes = ""
    host.search()
    assert host.destroyed == ["begun"]


def test_what_another_has_made_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, there="another's")
    host.makes, host.failure = "", Taken("it holds what was fetched for another restore")
    with pytest.raises(Taken):
        host.search()
    assert host.destroyed == []


class Searched:
    """Backups whose log is read one after the other, and after what."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *backups: Backup, here: str = "") -> None:
        self.read: list[tuple[str, str]] = []
        self.follows: dict[str, str] = {}
        self.ends = {"backup-3": "binlog.000003:100", "backup-4": ""}
        place = SimpleNamespace(address="zfs:vault/b", here=here, connect=lambda: nullcontext(session))
        self.unreadable: tuple[tuple[str, str], ...] = ()
        copies = SimpleNamespace(to_restore=lambda: Copies(backups, self.unreadable))
        session = SimpleNamespace(copies=lambda: copies)
        self.target = cast(Any, SimpleNamespace(adapter=place, limit=0))
        monkeypatch.setattr(search_copies, "_brought", self._brought)
        monkeypatch.setattr(search_copies, "in_one_backup", self._in_one)

    def search(self, **wanted: Any) -> list[str]:
        self.read.clear()
        found = search_copies.search_copies(cast(Any, None), self.target, LogFilter(**wanted))
        assert [each.name for each in found if isinstance(each, LogRead)] == [name for name, _ in self.read]
        return [name for name, _ in self.read]

    @contextmanager
    def _brought(self, *asked: Any) -> Iterator[tuple[Any, Any, str]]:
        yield None, SimpleNamespace(backups=(None, asked[-1])), "shop-search"

    def _in_one(
        self, _: object, __: object, backup: Backup, wanted: LogFilter, _name: str
    ) -> Iterator[LogRead]:
        name = backup.record.backup
        self.read.append((name, wanted.after))
        self.follows[name] = wanted.follows
        yield LogRead(name=name, size=1, end=self.ends.get(name, f"{name}'s end"))


def test_the_fewest_backups_are_fetched_that_hold_what_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log goes on where the part before it ended, and so what was read of it is not told again."""
    old = [made(n, at_hour(n), log=("old", 1, n)) for n in (1, 2)]
    new = [made(n, at_hour(n), log=("new", n, n)) for n in (3, 4, 5)]
    host = Searched(monkeypatch, *old, *new, made(6, at_hour(6), log=("", 0, 0)))
    assert host.search() == ["backup-2", "backup-3", "backup-4", "backup-5"]
    upto = "binlog.000003:100"
    assert [after for _, after in host.read] == ["", "", upto, upto]
    assert host.search(backwards=True) == ["backup-5", "backup-4", "backup-3", "backup-2"]
    assert {after for _, after in host.read} == {""}
    assert host.search(since=at_hour(4)) == ["backup-4", "backup-5"]
    archived = replace(old[1], record=replace(old[1].record, complete_to=at_hour(4)))
    unknown = replace(new[0], record=replace(new[0].record, complete_to=None))
    assert Searched(monkeypatch, archived, *new[1:]).search(since=at_hour(4)) == [
        "backup-2",
        "backup-4",
        "backup-5",
    ]
    assert search_copies._until(unknown) == at_hour(3)
    with pytest.raises(NotRecoverable, match="no backup at zfs:vault/b holds a log"):
        host.search(since=at_hour(9))


@pytest.mark.parametrize("backwards", [False, True])
def test_what_was_purged_between_two_backups_that_are_left_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, *, backwards: bool
) -> None:
    """Those in between, which held it, are gone; or what leads on was taken for another log."""
    kept = [made(n, at_hour(n), log=(log, first, n)) for log, first, n in KEPT]
    host = Searched(monkeypatch, *kept)

    def follows(**wanted: Any) -> dict[str, str]:
        host.follows.clear()
        host.search(backwards=backwards, **wanted)
        return {name: end for name, end in host.follows.items() if end}

    lost = {"backup-6": "binlog.000002:100", "backup-9": "binlog.000006:100"}
    assert follows() == lost
    assert follows(since=at_hour(3)) == lost, "it is wanted though the backup in front of it is not read"
    assert follows(until=at_hour(6)) == {"backup-6": "binlog.000002:100"}
    assert follows(until=at_hour(2)) == {}


KEPT = (("old", 1, 2), ("new", 4, 4), ("new", 4, 6), ("new", 8, 9), ("newest", 1, 11))


@pytest.mark.parametrize("backwards", [False, True])
def test_an_archive_that_cannot_be_looked_at_is_log_that_was_not_read(
    monkeypatch: pytest.MonkeyPatch, backwards: bool
) -> None:
    """It may hold the drop that is looked for. What a backup reaches needs no archive."""
    host = Searched(monkeypatch, *(made(n, at_hour(n), log=("new", n, n)) for n in (3, 4)))
    seen = search_copies.archived_copies

    def sealed(*asked: Any) -> ArchivedCopies:
        return replace(seen(*asked), unknown="it is sealed")

    monkeypatch.setattr(search_copies, "archived_copies", sealed)
    ctx: Any = SimpleNamespace(progress=None)
    for until, lacks in ((None, True), (at_hour(9), True), (at_hour(3), False)):
        wanted = LogFilter(until=until, backwards=backwards)
        reads = [each for each in search_copies.search_copies(ctx, host.target, wanted) if each]
        problems = [isinstance(each, LogRead) and each.problem for each in reads]
        said = "the log archive at zfs:vault/b was not read: it is sealed"
        rest = ["", ""]
        lacking = [said] if lacks else []
        assert problems == ([*lacking, *rest] if backwards else [*rest, *lacking])


@pytest.mark.parametrize("backwards", [False, True])
def test_archived_log_that_is_damaged_is_log_that_was_not_read(
    monkeypatch: pytest.MonkeyPatch, backwards: bool
) -> None:
    """A drop that is looked for may lie behind the damage: an earlier one is not the last."""
    cut = made(3, at_hour(3), log=("new", 3, 3))
    cut = replace(cut, record=replace(cut.record, server=cut.record.server | {DAMAGED: "it is damaged"}))
    host = Searched(monkeypatch, cut)
    found = search_copies.search_copies(cast(Any, None), host.target, LogFilter(backwards=backwards))
    reads = [each for each in found if isinstance(each, LogRead)]
    assert [bool(each.problem) for each in reads] == ([True, False] if backwards else [False, True])
    with pytest.raises(
        VerificationFailed, match="not all of the log was read: archived log was not read: it"
    ):
        require_all_read(reads)


def test_backups_that_cannot_be_read_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    host = Searched(monkeypatch, made(3, at_hour(3), log=("new", 3, 3)))
    host.unreadable = (("vault/b@z4", "no record"),)
    ctx: Any = SimpleNamespace(progress=SimpleNamespace(note=notes.append))
    assert len(list(search_copies.search_copies(ctx, host.target, LogFilter()))) == 1
    assert notes == ["vault/b@z4 and so its backup cannot be read: no record"]


def test_what_is_here_is_cloned_and_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was archived behind it is put to it; of its datasets those that the log is on are enough."""
    done: list[str] = []

    def does(what: str) -> Any:
        return lambda *asked: (
            done.append(f"{what} {len(asked[-2].snapshots) if what != 'archived' else ''}") or what
        )

    monkeypatch.setattr(search_copies, "fetch", lambda *asked: does("fetched")(*asked[:-1]))
    monkeypatch.setattr(search_copies, "clone_at_destination", does("cloned"))
    monkeypatch.setattr(search_copies, "with_archived_log", does("archived"))
    monkeypatch.setattr(search_copies, "at_destination", lambda *_: SimpleNamespace(instance="there"))
    for name in ("own_name", "remote_holds"):
        monkeypatch.setattr(search_copies, name, lambda *_: nullcontext("shop-search"))
    monkeypatch.setattr(clone_datasets, "find_clone", lambda *_: None)
    held = backup(1, 7, 7, log_id="a", log_from="binlog.000001:4", log_to="binlog.000001:20")
    ctx: Any = SimpleNamespace(instance="shop")
    for here, carrier, wanted in (
        ("", None, ("shop", "fetched", ["fetched 1"])),
        ("vault", None, ("there", "cloned", ["cloned 1"])),
        ("vault", object(), ("there", "archived", ["cloned 1", "archived "])),
    ):
        done.clear()
        there: Any = SimpleNamespace(real=lambda b: b, carrier=lambda _, c=carrier: c, copies=None)
        target: Any = SimpleNamespace(adapter=SimpleNamespace(here=here), limit=0)
        with search_copies._brought(ctx, target, cast(Any, None), there, held) as (at, catalog, _):
            assert (at.instance, catalog, done) == wanted
