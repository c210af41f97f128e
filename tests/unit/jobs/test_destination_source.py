"""Choosing from what lies at a destination, and what is said where it does not do."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest

from tests.unit.jobs.test_prune_at import HOUR, Place, hourly, of_server
from tests.unit.plan.histories import made
from tests.unit.samples import NOON, PLAIN, at
from zbackup.catalog.local import Catalog
from zbackup.destinations.copies import Copies, StreamStep
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.restore import destination_source as room
from zbackup.jobs.restore.destination_source import DestinationSource, latest_backups
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.ship.archived import NO_ARCHIVE, ArchivedCopies
from zbackup.model.backup import Backup
from zbackup.model.errors import NotFound, NotRecoverable, Refused, UsageError, VerificationFailed
from zbackup.model.log import ClusterTime
from zbackup.model.moment import Moment
from zbackup.model.record import ARCHIVED
from zbackup.model.target import LATEST, BackupAsItIs, BeforeTransaction, UnseenTransaction
from zbackup.model.transaction_name import parse_transaction

UTC = ZoneInfo("UTC")
GTID = parse_transaction(f"{PLAIN.server_uuid}:78")


class Host:
    """What lies there, and what anybody is told."""

    def __init__(self, backups: Sequence[Backup], unreadable: tuple[tuple[str, str], ...] = ()) -> None:
        self.place = Place(backups)
        self.copies = Copies(tuple(backups), unreadable)
        cast(Any, self.place).copies = lambda: cast(Any, SimpleNamespace(to_restore=lambda: self.copies))
        cast(Any, self.place).size = lambda step: 100
        cast(Any, self.place).stream_steps = lambda copies: [StreamStep(copy, None) for copy in copies]
        self.notes: list[str] = []
        self.checked: list[object] = []
        recovery = SimpleNamespace(check_program=self.checked.append, check_openable=self.checked.append)
        reader = SimpleNamespace(effective_target=lambda moment: moment)
        self.ctx = cast(
            Context,
            SimpleNamespace(
                instance="shop",
                clock=SimpleNamespace(now=lambda: NOON + 99 * HOUR),
                zone=UTC,
                progress=SimpleNamespace(note=self.notes.append, phase=lambda *_: None),
                recovery=recovery,
                log_reader=reader,
                log_search=SimpleNamespace(check_name=self._check),
            ),
        )
        destination = ShipDestination(adapter=cast(Any, self.place), tag="tag")
        self.source = DestinationSource(destination)
        self.destination = destination

    def choose(self, target: Any, there: ArchivedCopies | None = None, **options: Any) -> Any:
        there = there or ArchivedCopies(self.copies, NO_ARCHIVE, ())
        return room._choose(self.ctx, self.destination, there, target, RestoreOptions(**options))

    @staticmethod
    def _check(name: object) -> None:
        if name != GTID:
            raise UsageError("that means nothing there")


def then(hours: float) -> Moment:
    return Moment(NOON + hours * HOUR, "then", UTC)


LATEST_OF_ALL = Moment(NOON, LATEST, UTC, is_now=True)


def test_latest_is_where_the_log_ends_that_leads_farthest() -> None:
    behind = made(4, NOON + 4 * HOUR, purpose="log")
    host = Host([*hourly(3), behind])
    assert host.source.latest(host.ctx, RestoreOptions()).at == NOON + 4 * HOUR
    choice = host.choose(LATEST_OF_ALL)
    assert (choice.base.name, choice.log.name, choice.others) == ("zbackup-3", "zbackup-4", ())
    unknown = [replace(b, record=replace(b.record, log_id="", log_from="", log_to="")) for b in hourly(3)]
    alone = Host(unknown)
    assert alone.source.latest(alone.ctx, RestoreOptions()).at == NOON + 3 * HOUR
    assert alone.choose(LATEST_OF_ALL).log.name == "zbackup-3"


def test_where_none_can_be_read_that_is_said() -> None:
    target = BackupAsItIs("zbackup-1", NOON)
    for unreadable, said in (
        ((), "at zfs:vault/b$"),
        ((("a", "needs the key 12"),), "can be read: needs the key"),
    ):
        host = Host([], unreadable)
        for job in (
            lambda host=host: host.choose(target),
            lambda host=host: host.source.latest(host.ctx, RestoreOptions(accept_older=True)),
            lambda host=host: host.source.transaction(host.ctx, GTID, ""),
        ):
            with pytest.raises(NotRecoverable, match=f"no committed backup of shop .*{said}"):
                job()
    only_log = Host([made(1, NOON, purpose="log")])
    with pytest.raises(NotRecoverable, match="no committed backup"):
        latest_backups(only_log.ctx, only_log.destination, RestoreOptions())


def test_what_cannot_be_read_is_told_and_all_others_count() -> None:
    host = Host(hourly(3), (("shop@9", "it was changed"),))
    assert host.choose(then(2.5)).base.name == "zbackup-2"
    assert host.notes == ["shop@9 and so its backup cannot be read: it was changed"]


def test_what_is_chosen_can_be_opened() -> None:
    host = Host(hourly(3))
    host.choose(then(2.5))
    assert host.checked == [hourly(3)[1].record]


def test_a_moment_that_nothing_there_reaches_is_refused_with_the_last_that_is() -> None:
    backups = hourly(3)
    unfinished = replace(backups[2].record, backup="backup-4", as_of=None, complete_to=None)
    host = Host([*backups, replace(backups[2], record=unfinished)])
    with pytest.raises(NotRecoverable) as told:
        host.choose(then(9))
    said = (
        "the backups at zfs:vault/b do not reach that moment: the last one they reach is 2024-05-01 15:00:00"
    )
    assert str(told.value).startswith(said) and str(told.value).endswith("(--to latest)")
    chain = SimpleNamespace(why="a file is missing", files=())
    carrier: Any = SimpleNamespace(backup=backups[-1], chains=(chain,))
    archived = ArchivedCopies(host.copies, NO_ARCHIVE, ((backups[-1], carrier),))
    with pytest.raises(NotRecoverable, match=r"^the backups and archived log at .*; a file is missing$"):
        host.choose(then(9), ArchivedCopies(Copies(tuple(backups[:-1]), ()), NO_ARCHIVE, archived.carried))


def test_a_moment_in_a_gap_there_is_not_said_to_be_behind_the_last_that_is_reached() -> None:
    reset = made(3, NOON + 3 * HOUR, log=("another log", 1, 0))
    with pytest.raises(NotRecoverable) as told:
        Host([*hourly(2), reset]).choose(then(2.5))
    said = "reach that moment: their log has a gap there, and they go on behind it (zbackup window shop --at "
    assert said in str(told.value) and "the last one" not in str(told.value)


def test_later_log_that_cannot_be_looked_at_is_asked_about_where_all_is_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host(hourly(3))
    unknown = ArchivedCopies(host.copies, NO_ARCHIVE, (), "it is not mounted")
    with pytest.raises(Refused, match="--accept-older"):
        host.choose(LATEST_OF_ALL, unknown)
    host.choose(LATEST_OF_ALL, unknown, accept_older=True)
    host.choose(then(2.5), unknown)
    monkeypatch.setattr(room, "_with_archive", lambda *_: unknown)
    with pytest.raises(Refused, match="--accept-older"):
        host.source.latest(host.ctx, RestoreOptions())
    assert host.source.latest(host.ctx, RestoreOptions(accept_older=True)).at == NOON + 3 * HOUR


def test_of_two_servers_a_label_names_none() -> None:
    def labelled(backups: Sequence[Backup]) -> list[Backup]:
        return [replace(b, record=replace(b.record, server={"label": "before"})) for b in backups]

    mine = labelled(hourly(1))
    others = of_server(hourly(1), 2, dataset="x/", identity="another")
    host = Host([*mine, *others])
    assert host.source.labelled(host.ctx, "before").name == "backup-1", "another is called zbackup-1, too"
    both = Host([*mine, *labelled(others)])
    with pytest.raises(NotRecoverable, match="2 servers have the label before"):
        both.source.labelled(both.ctx, "before")
    with pytest.raises(NotFound, match="see zbackup list --at offsite"):
        host.source.labelled(host.ctx, "after")
    with pytest.raises(NotFound, match="see zbackup list --at offsite"):
        host.source.backup(host.ctx, "zbackup-9")
    elsewhere = replace(host.source, address="s3://far/away")
    with pytest.raises(NotFound, match=r"see zbackup list --from s3://far/away$"):
        elsewhere.backup(host.ctx, "zbackup-9")


def test_a_transaction_is_looked_for_by_records() -> None:
    later = replace(hourly(3)[2].record, gtid=f"{PLAIN.server_uuid}:1-99")
    backups = [*hourly(2), replace(hourly(3)[2], record=later)]
    host = Host(backups)
    found = host.source.transaction(host.ctx, GTID, "")
    assert found == UnseenTransaction(GTID, NOON + 3 * HOUR)
    assert host.choose(found).log.name == "zbackup-3"
    with pytest.raises(UsageError):
        host.source.transaction(host.ctx, parse_transaction("0-1-5"), "")


def test_what_another_server_has_of_that_name_changes_nothing_of_what_was_possible_first() -> None:
    """Where the log is out of sight, a record's GTIDs tell who may have it, and no time does."""
    mine = hourly(3)
    mine[2] = replace(mine[2], record=replace(mine[2].record, gtid=f"{PLAIN.server_uuid}:1-99"))
    others = of_server(mine, 10, dataset="x/", identity="another")
    others = [replace(b, record=replace(b.record, log_id="another")) for b in others]
    host = Host([*mine, *others])
    found = host.choose(UnseenTransaction(GTID, NOON + 99 * HOUR))
    assert (found.base, found.log) == (mine[1], mine[2])


def test_what_is_kept_is_told_of_where_something_is() -> None:
    host = Host([])
    ctx = cast(Any, host.ctx)
    ctx.clones, ctx.zfs = "tank/zbackup", SimpleNamespace(exists=lambda name: name == "tank/zbackup/r1.copy")
    for name in ("r2", "r1"):
        room._note_kept(ctx, name)
    assert len(host.notes) == 1 and host.notes[0].startswith(
        "what was fetched is kept in tank/zbackup/r1.copy"
    )


def test_a_plan_says_how_much_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(hourly(3))
    options = RestoreOptions(name="x")
    plan = host.source.plan(host.ctx, then(2.5), options)
    assert (plan.base.name, plan.log and plan.log.name, plan.fetch, plan.replay) == (
        "zbackup-2",
        "zbackup-3",
        400,
        None,
    )
    as_it_is = host.source.plan(host.ctx, host.source.backup(host.ctx, "zbackup-1"), options)
    assert as_it_is.as_it_is and as_it_is.replay and as_it_is.fetch == 200 and as_it_is.log == as_it_is.base
    there = replace(host.source, run_at_destination=True)
    assert there.plan(host.ctx, then(2.5), options).fetch == 0
    carrier: Any = SimpleNamespace(backup=hourly(3)[2], since=lambda _: "the log behind it")
    holder = replace(hourly(3)[2], record=replace(hourly(3)[2].record, server={ARCHIVED: "1"}))
    carried = ArchivedCopies(Copies(tuple(hourly(2)), ()), NO_ARCHIVE, ((holder, carrier),))
    monkeypatch.setattr(room, "_with_archive", lambda *_: carried)
    monkeypatch.setattr(room, "archived_bytes", lambda since: 7 if since == "the log behind it" else 0)
    assert host.source.plan(host.ctx, then(2.5), options).fetch == 407
    assert there.plan(host.ctx, then(2.5), options).fetch == 7


def test_an_archive_that_cannot_be_looked_at_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(hourly(3))
    archive = replace(NO_ARCHIVE, address="there", problems=("odd", "and odd"))
    for unknown in ("", "it is not mounted"):
        found = ArchivedCopies(host.copies, archive, (), unknown)
        monkeypatch.setattr(room, "archived_copies", lambda *_, found=found: found)
        room._with_archive(host.ctx, cast(Any, host.place), None)
    odd = "in the log archive at there: odd"
    assert host.notes == [odd, "archived log is not read: it is not mounted", odd]


def test_what_only_names_claim_is_no_success() -> None:
    host = Host([])
    said, proven = made(1, NOON + 3 * HOUR), made(2, NOON + 2 * HOUR)
    target = then(2.5)
    with pytest.raises(
        VerificationFailed, match=r"reaches 2024-05-01 14:30.*up to 2024-05-01 14:00:00 UTC \(--to"
    ):
        room._require_proven(host.ctx, target, said, proven)
    nothing = replace(proven, record=replace(proven.record, complete_to=None))
    with pytest.raises(VerificationFailed, match="up to no known moment"):
        room._require_proven(host.ctx, target, said, nothing)
    room._require_proven(host.ctx, target, said, said)
    room._require_proven(host.ctx, target, proven, proven)
    room._require_proven(host.ctx, replace(target, text=LATEST), said, proven)
    room._require_proven(host.ctx, BackupAsItIs("x", target.at), said, proven)


def test_a_cluster_time_that_only_names_claim_is_no_success() -> None:
    """mongod replays what there is: nothing behind this would notice that it is less."""

    def reaching(hours: float, log_to: str) -> Backup:
        backup = made(1, NOON + hours * HOUR)
        return replace(backup, record=replace(backup.record, log_to=log_to))

    ctx, second = Host([]).ctx, int((NOON + 2.5 * HOUR).timestamp())
    target = ClusterTime(second, 7)
    said, cut = reaching(3, f"{second + 1800},1@1"), reaching(2, f"{second - 1800},1@1")
    with pytest.raises(VerificationFailed, match=r"reaches 2024-05-01 14:30.*up to 2024-05-01 14:00:00 UTC"):
        room._require_proven(ctx, target, said, cut)
    with pytest.raises(VerificationFailed):
        room._require_proven(ctx, target, said, reaching(2.5, f"{second},6@1"))
    room._require_proven(ctx, target, said, reaching(2, f"{second},7@1"))
    room._require_proven(ctx, target, said, reaching(3, f"{second - 9},1@1"))
    room._require_proven(ctx, target, cut, cut)


def test_two_ways_and_an_early_end_are_told() -> None:
    host = Host([])

    def file(name: str, epoch: int, head: str) -> Any:
        identity = SimpleNamespace(name=name, epoch=epoch, head=head, begin=None)
        return SimpleNamespace(file=identity, size=9)

    first = file("binlog.000001", 7, "a")
    counts = SimpleNamespace(
        files=(first,), forks=((file("binlog.000002", 3, "c"),),), why="a file is missing", end="E"
    )
    same, another = (SimpleNamespace(files=(file("binlog.000001", 5, head),)) for head in ("a", "b"))
    carrier: Any = SimpleNamespace(chains=(counts, same, another))
    room._note_ways(host.ctx, LATEST_OF_ALL, carrier)
    assert [note.partition(":")[0] for note in host.notes] == [
        "the archived log counts up to E",
        "binlog.000002 was archived another way, too, up to 9 (epoch 3)",
        "binlog.000001 was archived another way, too, up to 9 (epoch 5)",
    ]
    host.notes.clear()
    for target in (then(2), BackupAsItIs("x", NOON)):
        room._note_ways(host.ctx, target, carrier)
    counts.why = ""
    room._note_ways(host.ctx, LATEST_OF_ALL, carrier)
    assert len(host.notes) == 6


def test_another_log_says_what_the_backups_alone_lead_to(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host([])

    def another(*_: object) -> None:
        raise NotRecoverable("it is another log")

    monkeypatch.setattr(room, "with_archived_log", another)
    nowhere: Any = None
    for backup, said in (
        (
            made(1, at(5)),
            r"^it is another log; the backups alone lead up to 2024-05-01 12:00:05 UTC \(--to that\)$",
        ),
        (
            replace(made(1, at(5)), record=replace(made(1, at(5)).record, complete_to=None)),
            r"^it is another log$",
        ),
    ):
        catalog = Catalog((), (backup,), ())
        with pytest.raises(NotRecoverable, match=said):
            host.source._with_log(host.ctx, nowhere, "x", catalog, nowhere, nowhere)


def test_what_was_possible_first_is_chosen() -> None:
    """By what had arrived when the target was first reached; of a name or of all there is, by all."""
    host = Host(hourly(4))
    assert host.choose(then(2.5)).log.name == "zbackup-3"
    asked: list[int] = []
    real = room.choose

    def choose(ctx: Any, backups: Sequence[Backup], target: Any, base: str) -> Any:
        asked.append(len(backups))
        return real(ctx, backups, target, base)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "choose", choose)
        host.choose(then(2.5))
        host.choose(BackupAsItIs("zbackup-1", NOON))
        host.choose(LATEST_OF_ALL)
    assert asked == [3, 4, 4]


def test_a_base_that_ends_where_the_transaction_begins_does_not_hold_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host([])
    base = made(1, NOON)
    for start, held in ((base.record.log_to, False), ("binlog.000001:99", True)):
        found = cast(BeforeTransaction, SimpleNamespace(transaction=SimpleNamespace(start=start)))
        monkeypatch.setattr(room, "locate_in", lambda *_, found=found: found)
        if held:
            with pytest.raises(NotRecoverable, match="already contains transaction"):
                room._found(host.ctx, GTID, Catalog((), (), ()), base)
        else:
            assert room._found(host.ctx, GTID, Catalog((), (), ()), base) is found
