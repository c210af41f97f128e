"""The end of a stopped server's log, when a switch is taken up; and what a clone cannot bring along."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.plan.histories import at_hour, made
from zbackup.features.switch import end_of_log, inspect, steps
from zbackup.features.switch import switch as room
from zbackup.model.backup import Backup
from zbackup.model.errors import CommandFailed, Refused
from zbackup.model.record import STOPPED, Record
from zbackup.model.recovery import OUTSIDE

WHY = "switch to good"


def end(number: int, *, finished: bool = True) -> Backup:
    taken = made(number, at_hour(number), purpose="log")
    record = replace(taken.record, server=taken.record.server | {STOPPED: WHY})
    return replace(taken, record=record if finished else replace(record, as_of=None))


def taken_up(
    monkeypatch: pytest.MonkeyPatch, known: list[Backup], fails: bool = False, mounted: int = 2
) -> list[str]:
    """What is done, in order."""
    done: list[str] = []

    def take(*_: Any) -> Backup:
        if fails:
            raise CommandFailed(("zfs", "snapshot"), 1, "no room")
        done.append("take")
        return end(9)

    first = made(1, at_hour(1))
    datasets = [SimpleNamespace(guid=n, name=s.dataset) for n, s in enumerate(first.snapshots)]
    catalog = SimpleNamespace(datasets=datasets, backups=(first, *known))
    monkeypatch.setattr(end_of_log, "_catalog", lambda *_: catalog)
    monkeypatch.setattr(end_of_log, "mounted", lambda _: dict.fromkeys(["data", "log"][:mounted], ""))
    monkeypatch.setattr(end_of_log, "snapshot_log", take)
    monkeypatch.setattr(end_of_log, "discard", lambda _, backup: done.append(f"discard {backup.name}"))
    told = SimpleNamespace(phase=lambda *_: None, note=lambda _: None)
    ctx = cast(Any, SimpleNamespace(progress=told))
    end_of_log._snapshot(ctx, cast(Any, None), {d.guid: d.name for d in datasets}, (WHY, None), None)
    return done


def test_one_of_an_earlier_run_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server may have been started, and written to, in between."""
    assert taken_up(monkeypatch, [end(2)]) == ["take", "discard zbackup-2"]
    assert taken_up(monkeypatch, [end(2, finished=False)]) == ["discard zbackup-2", "take"]
    assert taken_up(monkeypatch, []) == ["take"]


def test_it_stays_when_none_can_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert taken_up(monkeypatch, [end(2)], fails=True) == []


def test_none_is_taken_of_a_log_that_is_not_mounted_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run that was cut short had unmounted it, and its snapshot is the end of the log."""
    assert taken_up(monkeypatch, [end(2)], mounted=1) == []


class Place:
    """What was production's before, with backups of it; `did` is what happens, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *backups: Backup) -> None:
        self.did: list[str] = []
        self.notes: list[str] = []
        self.like: list[Record] = []
        self.given: list[list[str]] = []
        self.behind = ""
        first = made(1, at_hour(1))
        datasets = tuple(
            SimpleNamespace(guid=n, name=s.dataset, mountpoint=f"/{n}") for n, s in enumerate(first.snapshots)
        )
        self.catalog = SimpleNamespace(datasets=datasets, backups=backups)
        self.home = {d.guid: d.name for d in datasets}
        monkeypatch.setattr(end_of_log, "_catalog", lambda *_: self.catalog)
        monkeypatch.setattr(end_of_log, "snapshot_log", self._take)
        monkeypatch.setattr(end_of_log, "discard", lambda _, backup: self.did.append(backup.name))
        progress = SimpleNamespace(phase=lambda *_: None, note=self.notes.append)
        self.ctx = cast(Any, SimpleNamespace(progress=progress))

    def snapshot(self, *, since: Any = None, facts: Any = None) -> None:
        end_of_log._snapshot(self.ctx, cast(Any, None), self.home, (WHY, since), facts)

    def _take(self, _: object, __: object, backups: list[Backup], record: Record, ___: str) -> Backup:
        self.did.append("take")
        self.like.append(record)
        self.given.append([b.name for b in backups])
        taken = end(9)
        server = taken.record.server | ({"log_behind": self.behind} if self.behind else {})
        return replace(taken, record=replace(taken.record, server=server))


def test_it_is_taken_as_of_the_newest_of_what_is_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose backups were put aside, or are older than the switch, they tell nothing of it."""
    first, second = made(1, at_hour(1)), made(2, at_hour(2))
    aside = made(3, at_hour(3))
    aside = replace(aside, snapshots=tuple(replace(s, dataset=f"x/{s.dataset}") for s in aside.snapshots))
    place = Place(monkeypatch, first, second, aside)
    place.snapshot()
    assert place.like[0].backup == "backup-2" and place.given == [["zbackup-1", "zbackup-2", "zbackup-3"]]
    assert place.notes == ["took zbackup-9, which holds the log up to its end"]
    place.behind = "it does not answer"
    place.snapshot(since=second.record.taken)
    assert place.like[1].backup == "backup-2"
    assert "what was read of the log before that (it does not answer)" in place.notes[1]
    place.snapshot(since=at_hour(2.5))
    assert len(place.like) == 2, "there is none since"


def test_of_earlier_runs_one_alone_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no end of this way stays, and its log is gone on from."""
    other = end(3)
    other = replace(other, record=replace(other.record, server={STOPPED: "another"}))
    place = Place(monkeypatch, made(1, at_hour(1)), end(2), other)
    place.snapshot()
    assert (place.did, place.given) == (["take", "zbackup-2"], [["zbackup-1", "zbackup-3"]])


def test_where_datasets_were_renamed_already_nothing_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(monkeypatch, made(1, at_hour(1)))
    place.home = dict(place.home) | {0: "elsewhere"}
    place.snapshot()
    assert place.did == [] and place.notes == []


def test_what_the_server_said_before_it_was_stopped_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one says nothing of this log."""
    backup = made(1, at_hour(1))
    place = Place(monkeypatch, backup)
    said = {
        "server_uuid": backup.record.server_uuid,
        "server": {"a": "b"},
        "role": "replica",
        "position": "p",
    }
    place.snapshot(facts=SimpleNamespace(**said))
    place.snapshot(facts=SimpleNamespace(**said | {"server_uuid": "another"}))
    place.snapshot()
    mine, others, silent = place.like
    assert (mine.role, mine.position, mine.server["a"], mine.server[STOPPED]) == ("replica", "p", "b", WHY)
    assert (others.role, others.position, others.server[STOPPED]) == (backup.record.role, "", WHY)
    assert others == silent and "a" not in others.server


def test_production_that_goes_on_keeps_its_own_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    switch: Any = SimpleNamespace(at=at_hour(0))
    clone: Any = SimpleNamespace(name="good")
    why = end_of_log._there(clone, switch)
    own = end(2)
    own = replace(own, record=replace(own.record, server={STOPPED: why}))
    place = Place(monkeypatch, made(1, at_hour(1)), own, end(3))
    end_of_log.discard_production(place.ctx, clone, switch)
    assert place.did == ["zbackup-2"]

    def fails(*_: object) -> None:
        raise CommandFailed(("zfs",), 1, "busy")

    monkeypatch.setattr(end_of_log, "discard", fails)
    end_of_log.discard_production(place.ctx, clone, switch)
    assert "the snapshot of its log is left" in place.notes[0]


def test_tables_that_would_stay_behind_are_found(tmp_path: Path) -> None:
    ctx: Any = SimpleNamespace(mountpoint=tmp_path)
    clone: Any = SimpleNamespace(name="r1")
    inspect._require_all_inside(ctx, clone)
    kept = tmp_path / "r1" / OUTSIDE / "0" / "shop"
    kept.mkdir(parents=True)
    (tmp_path / "r1" / OUTSIDE / "0.path").write_text("/elsewhere")
    inspect._require_all_inside(ctx, clone)
    (kept / "orders.ibd").touch()
    with pytest.raises(Refused, match=r"tables of r1 lie in /elsewhere \(DATA DIRECTORY\)"):
        inspect._require_all_inside(ctx, clone)


def test_what_a_recovery_cannot_bring_along_is_told() -> None:
    def remarks(role: str, engine: str) -> list[str]:
        return [each[:20] for each in room._remarks(SimpleNamespace(role=role, engine=engine))]  # type: ignore[arg-type]

    assert remarks("replica", "mongodb") == ["it was a replica, an", "a member of a set ha"]
    assert remarks("primary", "mysql") == ["replicas of the serv"]


def test_each_root_is_renamed_by_its_own_guid() -> None:
    left = (SimpleNamespace(name="tank/a", guid=1), SimpleNamespace(name="tank/b", guid=2))
    switch: Any = SimpleNamespace(leaving=left)
    assert [steps._guid_of(switch, each.name) for each in left] == [1, 2]
