"""Archived log that is put behind a backup: where it goes two ways, is damaged, or was removed."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest

from tests.unit.samples import PLAIN, at, backup
from zbackup.jobs.context import Context
from zbackup.jobs.restore import archived_log as room
from zbackup.jobs.restore.archived_log import ADDED_AT, ArchiveWish, archived_bytes, log_members
from zbackup.model.added_log import NotContinued
from zbackup.model.archive import ArchivedFile, ArchiveInventory, Chunk, LogFileId, server_key, tail_hash
from zbackup.model.errors import NotFound, NotRecoverable, Refused, VerificationFailed
from zbackup.plan.recovery.archived import Carrier, Chain
from zbackup.proc.pipeline import Meter

BACKUP = backup(1, 5, 5, log_id="a", log_from="binlog.000001:4", log_to="binlog.000001:10")
HELD = b"0123456789"
ALL = HELD + b"abcdefghij"
METER = Meter()


class Archive:
    """Files by what is in them; `damaged` ones cannot be read."""

    def __init__(self) -> None:
        self.content: dict[LogFileId, bytes] = {}
        self.listed: list[ArchivedFile] = []
        self.damaged: set[LogFileId] = set()

    def file(
        self, content: bytes, epoch: int, number: int = 1, *, head: str = "0", upto: float | None = 9
    ) -> ArchivedFile:
        identity = LogFileId(
            server=server_key(PLAIN.server_uuid), epoch=epoch, number=number, follows=None, head=head * 32,
            name=f"binlog.{number:06}",
        )  # fmt: skip
        complete = None if upto is None else at(upto)
        chunk = Chunk(
            begin=0,
            end=len(content),
            sha256="0" * 64,
            tail=tail_hash(content),
            read=at(20),
            complete_to=complete,
        )
        made = ArchivedFile(file=identity, last=chunk, complete_to=complete)
        self.content[identity] = content
        self.listed.append(made)
        return made

    def read_log(self, file: LogFileId, begin: int, end: int, meter: Meter) -> Iterator[bytes]:
        for offset in range(begin, end):
            if file in self.damaged and offset >= 15:
                raise VerificationFailed(f"{file.name} is damaged")
            yield self.content[file][offset : offset + 1]

    def archived(self) -> ArchiveInventory:
        return ArchiveInventory(address="there", files=tuple(self.listed))

    def proven_to(self, archived: ArchivedFile) -> Any:
        return at(3)


@pytest.fixture
def archive() -> Any:
    return Archive()


def chain(*files: ArchivedFile, **more: Any) -> Chain:
    return Chain(files=files, complete_to=files[-1].complete_to, **more)


def context(**recovery: Any) -> tuple[Context, list[str]]:
    notes: list[str] = []
    made_of = SimpleNamespace(zone=ZoneInfo("UTC"), recovery=SimpleNamespace(**recovery))
    made_of.progress = SimpleNamespace(note=notes.append, phase=lambda *_: None)
    return cast(Context, made_of), notes


def two_ways(archive: Any, seconds: float, counts: Chain, *others: Chain, record: Any = None) -> None:
    ctx, _ = context()
    carrier = Carrier(backup=replace(BACKUP, record=record or BACKUP.record), chains=(counts, *others))
    room._require_one_way(ctx, archive, carrier, counts, at(seconds), cast(Any, None))


def test_of_two_ways_the_operator_chooses(archive: Any) -> None:
    counts = chain(archive.file(ALL, 7))
    other = chain(archive.file(ALL[:-1] + b"X", 3))
    with pytest.raises(Refused) as told:
        two_ways(archive, 8, counts, other)
    said = str(told.value)
    assert "two ways from binlog.000001 on: in epoch 7 up to binlog.000001:20, in epoch 3 up to" in said
    assert "with --epoch 7 or --epoch 3, or restore to 2024-05-01 12:00:05" in said
    two_ways(archive, 5, counts, other)
    with pytest.raises(Refused):
        two_ways(archive, 5.1, counts, other)
    unknown = replace(BACKUP.record, complete_to=None)
    with pytest.raises(Refused, match=r"--epoch 3$"):
        two_ways(archive, 5, counts, other, record=unknown)


def test_what_is_the_start_of_the_other_is_no_other_way(archive: Any) -> None:
    two_ways(archive, 8, chain(archive.file(ALL, 7)), chain(archive.file(ALL[:15], 3)))


@pytest.mark.parametrize("content", [b"X" + ALL[1:], ALL[:9] + b"X" + ALL[10:]])
def test_a_file_that_does_not_begin_with_what_the_backup_holds_is_none_of_it(
    archive: Any, content: bytes
) -> None:
    two_ways(archive, 8, chain(archive.file(ALL, 7)), chain(archive.file(content, 3)))


def test_a_file_of_another_log_is_no_other_way(archive: Any) -> None:
    two_ways(archive, 8, chain(archive.file(ALL, 7)), chain(archive.file(ALL[:-1] + b"X", 3, head="1")))


def test_what_cannot_be_read_proves_nothing(archive: Any) -> None:
    counts, other = chain(archive.file(ALL, 7)), chain(archive.file(b"01234567890", 3))
    archive.read_log = _damaged
    two_ways(archive, 8, counts, other)


def _damaged(*_: object) -> Iterator[bytes]:
    raise VerificationFailed("damaged")


def test_a_fork_is_another_way_and_what_is_common_counts(archive: Any) -> None:
    first = archive.file(ALL, 3, upto=6)
    counts = chain(first, archive.file(b"more", 7, 2))
    forked = replace(counts, forks=((archive.file(b"else", 3, 2, upto=9),),))
    with pytest.raises(Refused, match=r"from binlog.000002 on: in epoch 7 .* in epoch 3 .*12:00:06"):
        two_ways(archive, 8, forked)
    two_ways(archive, 6, forked)
    two_ways(archive, 8, counts)


def oplog(epoch: int, *ends: str, complete: float | None = None) -> tuple[Any, ...]:
    done = None if complete is None else at(complete)
    return tuple(
        SimpleNamespace(end=end, complete_to=done, file=SimpleNamespace(epoch=epoch, begin=f"begin of {end}"))
        for end in ends
    )


def histories(held: set[str], counts: Any, *others: Any, seconds: float = 8, record: Any = None) -> None:
    ctx, _ = context(contains=lambda _, position: position in held)
    carrier: Any = SimpleNamespace(
        backup=SimpleNamespace(record=record or BACKUP.record), chains=(counts, *others)
    )
    room._require_one_way(ctx, cast(Any, None), carrier, counts, at(seconds), cast(Any, None))


def way(files: tuple[Any, ...], *forks: tuple[Any, ...]) -> Any:
    return SimpleNamespace(files=files, forks=forks, end=files[-1].end)


def test_of_an_oplog_the_entries_tell(archive: Any) -> None:
    counts, other = way(oplog(7, "9")), way(oplog(3, "8x"))
    with pytest.raises(Refused) as told:
        histories({"9"}, counts, other)
    said = str(told.value)
    assert "two ways behind begin of 8x: in epoch 7 up to 9, in epoch 3 up to 8x" in said
    assert said.endswith("--epoch 7 or --epoch 3, or restore to 2024-05-01 12:00:05 UTC or before")
    histories({"9", "8x"}, counts, other)
    histories({"9"}, counts, other, seconds=5)
    histories({"9"}, counts)
    histories(set(), counts)
    with pytest.raises(Refused):
        histories({"9"}, way(oplog(7, "9"), oplog(3, "8x")))
    histories({"9"}, counts, way(oplog(7, "8x")))
    with pytest.raises(Refused, match=r"--epoch 3$"):
        histories({"9"}, counts, other, seconds=5, record=replace(BACKUP.record, complete_to=None))


def test_nothing_is_asked_of_the_oplog_that_counts() -> None:
    """Each position that is asked for is looked for in a file, which may be long."""
    asked: list[str] = []

    def contains(_: object, position: str) -> bool:
        asked.append(position)
        return True

    ctx, _ = context(contains=contains)
    counts = way(oplog(7, "5", "9"))
    carrier: Any = SimpleNamespace(
        backup=SimpleNamespace(record=BACKUP.record), chains=(counts, way(oplog(3, "8")))
    )
    room._require_one_way(ctx, cast(Any, None), carrier, counts, at(8), cast(Any, None))
    assert asked == ["8"]


def test_what_both_of_two_oplogs_hold_is_good(archive: Any) -> None:
    common = oplog(3, "5", complete=7)
    counts, other = way(oplog(7, "9")), way((*common, *oplog(3, "8x", complete=9)))
    histories({"5"}, counts, other, seconds=7)
    with pytest.raises(Refused, match=r"behind begin of 8x: .*or restore to 2024-05-01 12:00:07"):
        histories({"5"}, counts, other, seconds=7.5)


def damaged(
    archive: Any,
    tried: Chain,
    number: int,
    good: int,
    *others: Chain,
    all_of_it: bool = False,
    record: Any = None,
    failure: VerificationFailed | None = None,
) -> Any:
    """What counts when the chain that was tried proves damaged there; and the notes."""
    ctx, notes = context()
    failure = failure or VerificationFailed("it is damaged")
    carrier = Carrier(backup=replace(BACKUP, record=record or BACKUP.record), chains=(tried, *others))
    damage = room._Damage(chain=tried, why=failure, number=number, good=good)
    wish = ArchiveWish(at(8), BACKUP.record, all=all_of_it)
    return room._before(ctx, carrier, damage, failure, wish), notes, failure


def test_what_lies_in_front_of_damage_counts(archive: Any) -> None:
    whole = chain(archive.file(ALL, 7, upto=6), archive.file(ALL, 7, 2, upto=9))
    other = chain(archive.file(ALL, 3))
    carrier, notes, _ = damaged(archive, whole, 1, 13, other)
    assert [(f.file.number, f.size) for f in carrier.chains[0].files] == [(1, 20), (2, 13)]
    assert carrier.chains[1:] == (other,)
    assert notes == ["archived log counts up to 2024-05-01 12:00:06 UTC only: it is damaged"]
    carrier, notes, _ = damaged(archive, whole, 0, 13)
    assert [(f.file.number, f.size) for f in carrier.chains[0].files] == [(1, 13)] and len(
        carrier.chains
    ) == 1
    assert "up to 2024-05-01 12:00:05" in notes[0]
    carrier, notes, _ = damaged(archive, whole, 1, 0)
    assert [(f.file.number, f.size) for f in carrier.chains[0].files] == [(1, 20)]
    carrier, notes, _ = damaged(archive, whole, 0, 13, record=replace(BACKUP.record, complete_to=None))
    assert notes == ["archived log counts only: it is damaged"]


@pytest.mark.parametrize("good", [0, 9, 10])
def test_where_no_more_is_good_than_the_backup_has_another_way_is_tried(archive: Any, good: int) -> None:
    whole, other = chain(archive.file(ALL, 7)), chain(archive.file(ALL, 3))
    carrier, notes, _ = damaged(archive, whole, 0, good, other)
    assert carrier.chains == (other,)
    assert notes == ["archived log of epoch 7 does not count: it is damaged"]
    with pytest.raises(VerificationFailed, match=r"^it is damaged$"):
        damaged(archive, whole, 0, good)
    assert damaged(archive, whole, 0, 11)[0].chains[0].files[0].size == 11


def test_of_what_is_of_another_log_nobody_is_told(archive: Any) -> None:
    another, other = chain(archive.file(ALL, 7)), chain(archive.file(ALL, 3))
    failure = NotContinued("it does not go on", 0)
    carrier, notes, _ = damaged(archive, another, 0, 0, other, failure=failure)
    assert carrier.chains == (other,) and notes == []


def test_who_wants_all_is_told_what_there_is(archive: Any) -> None:
    whole = chain(archive.file(ALL, 7, upto=6), archive.file(ALL, 7, 2))
    with pytest.raises(
        VerificationFailed, match=r"^it is damaged; what is archived in front .* 12:00:06 UTC \(--to"
    ):
        damaged(archive, whole, 1, 0, all_of_it=True)
    ctx, _ = context()
    carrier, failure = Carrier(backup=BACKUP, chains=(whole,)), VerificationFailed("it is damaged")
    for unknown in (room._Damage(), room._Damage(chain=whole), room._Damage(why=failure)):
        with pytest.raises(VerificationFailed, match=r"^it is damaged$"):
            room._before(ctx, carrier, unknown, failure, None)
    known = room._Damage(chain=whole, why=failure, number=1, good=13)
    assert room._before(ctx, carrier, known, failure, None).chains[0].files[1].size == 13


def test_a_file_that_is_gone_is_no_damage(archive: Any) -> None:
    whole = chain(archive.file(ALL, 7), archive.file(ALL, 7, 2))
    room._require_still_there(archive, room._Damage())
    room._require_still_there(archive, room._Damage(chain=whole, number=1))
    archive.listed.pop()
    with pytest.raises(
        NotFound, match=r"binlog.000002 .* was removed from the log archive at there meanwhile"
    ):
        room._require_still_there(archive, room._Damage(chain=whole, number=1))
    room._require_still_there(archive, room._Damage(chain=whole, number=0))


def test_a_file_says_where_it_ends_unless_it_is_cut(archive: Any) -> None:
    first, last = archive.file(ALL, 7), archive.file(ALL, 7, 2)
    ends: Callable[[Any], list[str]] = lambda files: [  # noqa: E731
        each.end for each in room._to_add(archive, files, METER, room._Damage())
    ]
    one, two = (
        SimpleNamespace(file=f.file, size=f.size, end_position=p) for f, p in ((first, "1,1@1"), (last, None))
    )
    assert ends(SimpleNamespace(files=(one, two), cut_off=False)) == ["1,1@1", ""]
    assert ends(SimpleNamespace(files=(two, one), cut_off=False)) == ["", "1,1@1"]
    assert ends(SimpleNamespace(files=(two, one), cut_off=True)) == ["", ""]
    assert ends(SimpleNamespace(files=(one, two), cut_off=True)) == ["1,1@1", ""]


def test_how_much_is_good_is_known_from_reading(archive: Any) -> None:
    tried = chain(archive.file(ALL, 7), archive.file(ALL, 7, 2))
    archive.damaged = {tried.files[1].file}
    damage = room._Damage()
    _, second = room._to_add(archive, tried, METER, damage)
    with pytest.raises(VerificationFailed) as failed:
        list(second.read(4, 20))
    assert (damage.why, damage.number, damage.good) == (failed.value, 1, 15)


def test_the_first_that_continues_the_backup_counts(archive: Any) -> None:
    """What the first one says is told where none does."""
    one, two = chain(archive.file(ALL, 7)), chain(archive.file(ALL, 3, upto=None))
    carrier = Carrier(backup=BACKUP, chains=(one, two))

    def added(*good: Chain) -> Any:
        def add(_: object, files: list[Any], __: object) -> str:
            tried = one if files[0].size and not tries else two
            tries.append(tried)
            if tried not in good:
                raise NotRecoverable(f"epoch {tried.files[0].file.epoch} does not continue it")
            return "the span"

        tries: list[Chain] = []
        ctx, _ = context(add_log=add)
        return room._added(ctx, archive, cast(Any, None), carrier, METER, room._Damage())

    assert added(one, two) == (one, at(3), "the span")
    assert added(two) == (two, None, "the span"), "a file that was cut is not asked"
    with pytest.raises(NotRecoverable, match="epoch 7 does not"):
        added()


def test_what_was_archived_meanwhile_counts_up_to_the_epoch_that_was_chosen(archive: Any) -> None:
    old = chain(archive.file(ALL[:12], 3))
    carrier = Carrier(backup=BACKUP, chains=(old,))
    assert room._as_it_is_now(archive, carrier, None).chains[0].files == old.files
    newer = archive.file(ALL, 7)
    epochs = [
        [f.file.epoch for c in room._as_it_is_now(archive, carrier, e).chains for f in c.files]
        for e in (None, 7, 3)
    ]
    assert epochs == [[7, 3], [7, 3], [3]]
    archive.listed = [newer]
    assert room._as_it_is_now(archive, carrier, 3) == carrier, (
        "what was chosen is tried, and says what is wrong"
    )


def test_what_the_backup_has_itself_is_not_fetched(archive: Any) -> None:
    assert (
        archived_bytes(
            Carrier(backup=BACKUP, chains=(chain(archive.file(ALL, 7), archive.file(b"abc", 7, 2)),))
        )
        == 13
    )
    oplog_backup = replace(BACKUP, record=replace(BACKUP.record, log_to="1714557720,1@1"))
    assert archived_bytes(Carrier(backup=oplog_backup, chains=(chain(archive.file(ALL, 7)),))) == 20
    less = replace(BACKUP, record=replace(BACKUP.record, log_to="binlog.000001:99"))
    assert archived_bytes(Carrier(backup=less, chains=(chain(archive.file(ALL, 7)),))) == 0


def test_which_members_the_log_is_on() -> None:
    record = replace(PLAIN, members=(("t/a", "/srv/a"), ("t/b", "/srv/b"), ("t/c", "/srv/c")), server={})
    assert log_members(record) == [0, 1, 2]
    on_b = replace(
        record, server={"log_bin_basename": "/srv/b/binlog", "log_bin_index": "/srv/c/binlog.index"}
    )
    assert log_members(on_b) == [1, 2]
    assert log_members(replace(on_b, server=dict(on_b.server) | {"plain_log": "/srv/a/plain"})) == [0]
    assert log_members(replace(record, server={"dbpath": "/srv/b"})) == [0, 1, 2]
    assert log_members(replace(record, server={"dbpath": "/srv/b"}), ADDED_AT) == [1]
    assert log_members(replace(record, server={"log_bin_basename": "/elsewhere/binlog"})) == [0, 1, 2]
