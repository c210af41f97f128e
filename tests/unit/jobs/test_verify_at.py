"""A verification at a destination: what it compares, reads and proves, and what it calls different."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.jobs.test_prune_at import Place
from tests.unit.plan.histories import at_hour, made
from tests.unit.samples import lacking_one
from zbackup.destinations.copies import Copies
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.ship import verify_at as room
from zbackup.jobs.ship.verify_at import VerifyReport, prove_at, verify_at
from zbackup.model.backup import Backup
from zbackup.model.errors import CommandFailed, ConnectionFailed, DatasetNotFound, Stopped, VerificationFailed
from zbackup.model.progress import Silent
from zbackup.model.shipped import SHIPPED
from zbackup.model.shipping import CheckedCopy
from zbackup.model.snapshot import Snapshot
from zbackup.proc.pipeline import Meter
from zbackup.zfs.stream_content import Content

BACKUPS = [made(number, at_hour(number)) for number in (1, 2, 3)]


class Copied(Place):
    """Copies can be read there; those of `other` hold other data than here."""

    other: frozenset[str] = frozenset()
    unreadable: tuple[tuple[str, str], ...] = ()
    failure: CommandFailed | None = None

    def copies(self) -> Copies:
        return Copies(tuple(self.backups), self.unreadable)

    def unopened(self, _: Snapshot) -> str:
        return ""

    def content(self, copy: Snapshot, most: int, meter: Meter, *, raw: bool | None = None) -> Content:
        if self.failure:
            raise self.failure
        return Content(size=most or 5000, sha256="other" if str(copy) in self.other else "", whole=not most)


class Bucket(Place):
    """It proves itself; what is called is how deep."""

    problems: tuple[str, ...] = ()

    def verify(self, *, deep: bool, meter: Meter) -> Iterator[CheckedCopy]:
        for backup in self.backups:
            meter.moved(10)
            yield CheckedCopy(
                backup=backup.record.backup, name=backup.name, problems=self.problems, read=10 if deep else 0
            )


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(room, "read_content", lambda _, most, __: Content(most or 5000, "", whole=not most))
    monkeypatch.setattr(room.ZfsStreams, "encrypted", lambda *_: False)
    monkeypatch.setattr(room, "source_datasets", lambda _: ())
    here = SimpleNamespace(
        shared=tmp_path, instance="shop", progress=Silent(), datasets=("tank/db",), backups=list(BACKUPS)
    )
    here.zfs = SimpleNamespace(runner=None, own_settings=lambda _: {f"{SHIPPED}offsite": "{}"})
    here.catalog = lambda: SimpleNamespace(backups=tuple(here.backups))
    return here


def destination(place: Place, **changes: Any) -> ShipDestination:
    return ShipDestination(adapter=cast(Any, place), tag="tag", **changes)


def verify(host: Any, place: Place, most: int = 0) -> VerifyReport:
    return verify_at(cast(Context, host), destination(place), most=most)


def test_of_all_that_is_on_both_sides_the_newest_whole_one_is_read(host: Any) -> None:
    host.backups = [BACKUPS[0], BACKUPS[1], lacking_one(BACKUPS[2])]
    report = verify(host, Copied(BACKUPS))
    assert (report.compared, report.alone, report.problems) == (tuple(BACKUPS), (), ())
    assert [(r.snapshot, r.size, r.whole, r.same) for r in report.read] == [
        (s, 5000, True, True) for s in BACKUPS[1].snapshots
    ]
    assert [(r.size, r.whole) for r in verify(host, Copied(BACKUPS), 7).read] == [(7, False)] * 2
    assert verify(host, Copied(BACKUPS), -1).read == ()
    host.backups = BACKUPS[1:2]
    report = verify(host, Copied(BACKUPS))
    assert (report.compared, report.alone) == ((BACKUPS[1],), (BACKUPS[0], BACKUPS[2]))


def test_other_data_is_told_of_the_snapshot_that_has_it(host: Any) -> None:
    place = Copied(BACKUPS)
    place.other = frozenset({str(BACKUPS[2].snapshots[1])})
    [problem] = verify(host, place).problems
    assert problem == f"{BACKUPS[2].snapshots[1]} holds other data at zfs:vault/b"


def test_another_snapshot_or_record_is_told_but_not_of_one_that_is_not_finished(host: Any) -> None:
    there = [
        replace(
            BACKUPS[0],
            snapshots=tuple(replace(s, guid=s.guid + n) for n, s in enumerate(BACKUPS[0].snapshots)),
        ),
        replace(BACKUPS[1], record=replace(BACKUPS[1].record, role="replica")),
        BACKUPS[2],
    ]
    problems = verify(host, Copied(there)).problems
    assert problems == (
        f"{BACKUPS[0].snapshots[1]} (guid {BACKUPS[0].snapshots[1].guid}) is another snapshot there",
        "zbackup-2 says something else of itself there",
    )
    unfinished = replace(BACKUPS[2], record=replace(BACKUPS[2].record, as_of=None, complete_to=None))
    host.backups = [unfinished]
    assert verify(host, Copied(BACKUPS)).problems == ()


def test_of_a_snapshot_that_is_another_there_no_data_is_compared(host: Any) -> None:
    newest = BACKUPS[2]
    there = replace(newest, snapshots=(newest.snapshots[0], replace(newest.snapshots[1], guid=1)))
    assert [r.snapshot for r in verify(host, Copied([there])).read] == [newest.snapshots[0]]


def test_what_cannot_be_read_there_is_told(host: Any) -> None:
    place = Copied(BACKUPS)
    place.unreadable = (("vault/b/x@y", "it is damaged"),)
    assert verify(host, place).problems == ("vault/b/x@y cannot be read: it is damaged",)
    assert verify(host, Copied([])).problems == ("there is no committed backup of shop at zfs:vault/b",)


def test_a_bucket_proves_itself_as_deep_as_it_was_asked(host: Any) -> None:
    bucket = Bucket(BACKUPS)
    assert [(c.name, c.read) for c in verify(host, bucket).proven] == [(b.name, 10) for b in BACKUPS]
    assert [c.read for c in verify(host, bucket, 7).proven] == [0, 0, 0]
    assert verify(host, bucket, 7).read == ()
    bucket.problems = ("a part is missing",)
    assert verify(host, bucket).problems == tuple(f"{b.name}: a part is missing" for b in BACKUPS)
    assert verify(host, Copied(BACKUPS)).proven == ()


def alone(host: Any) -> Any:
    """The host has nothing of the instance."""

    def gone() -> None:
        raise DatasetNotFound(("zfs", "list"), 1, "cannot open 'tank/db': dataset does not exist")

    host.catalog, host.members = gone, tuple
    return host


def test_a_host_without_the_instance_reads_the_newest_there_if_anything(host: Any) -> None:
    host = alone(host)
    assert [(c.name, c.read) for c in verify(host, Copied(BACKUPS), 7).proven] == [("zbackup-3", 14)]
    assert verify(host, Copied(BACKUPS), -1).proven == ()
    assert len(verify(host, Bucket(BACKUPS)).proven) == 3, "once"
    assert verify(host, Place(BACKUPS)).proven == ()
    assert verify(host, Copied([])).proven == ()
    place = Copied(BACKUPS)
    for failure in (ConnectionFailed(("ssh",), 255, "reset"), Stopped(("zfs",), 1, "stop")):
        place.failure = failure
        with pytest.raises(type(failure)):
            verify(host, place)


@pytest.mark.parametrize(
    ("backups", "place", "sample", "said"),
    [
        ([], Copied(BACKUPS), 7, "none of the 3 backups that are there is here, too"),
        ([lacking_one(b) for b in BACKUPS], Copied(BACKUPS), 0, "no data was read: "),
        ([lacking_one(b) for b in BACKUPS], Copied(BACKUPS), -1, ""),
        (BACKUPS, Copied(BACKUPS), 0, ""),
        ([], Bucket(BACKUPS), 0, ""),
        (BACKUPS, Copied([]), -1, "there is no committed backup of shop"),
    ],
)
def test_who_reads_no_report_is_told_of_what_was_not_done(
    host: Any, backups: list[Backup], place: Place, sample: int, said: str
) -> None:
    host.backups = backups
    wanted = destination(place, sample=sample)
    if not said:
        assert prove_at(cast(Context, host), wanted).problems == ()
        return
    with pytest.raises(VerificationFailed, match=said):
        prove_at(cast(Context, host), wanted)


def test_who_reads_no_report_is_told_of_the_first_problem_and_how_many_there_are(host: Any) -> None:
    bucket = Bucket(BACKUPS)
    bucket.problems = ("a part is missing",)
    with pytest.raises(VerificationFailed, match=r"^zbackup-1: a part is missing \(and 2 more\)$"):
        prove_at(cast(Context, host), destination(bucket, sample=0))
    bucket.backups = BACKUPS[:1]
    with pytest.raises(VerificationFailed, match=r"^zbackup-1: a part is missing$"):
        prove_at(cast(Context, host), destination(bucket, sample=0))


def test_what_never_had_anything_is_no_problem_and_what_lost_it_all_is(host: Any) -> None:
    host.zfs.own_settings = lambda _: {}
    assert prove_at(cast(Context, host), destination(Copied([]))).problems
    host = alone(host)

    def gone(_: str) -> dict[str, str]:
        raise DatasetNotFound(("zfs", "get"), 1, "cannot open 'tank/db': dataset does not exist")

    host.zfs.own_settings = gone
    with pytest.raises(VerificationFailed, match="there is no committed backup"):
        prove_at(cast(Context, host), destination(Copied([])))


def test_what_is_wrong_with_archived_log_is_a_problem_too(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        room, "check_log", lambda *_: SimpleNamespace(problems=("archived log: it is damaged",))
    )
    assert verify(host, Copied(BACKUPS)).problems == ("archived log: it is damaged",)
