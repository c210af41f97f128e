"""One transaction taken back: who is asked, what is done, and the clone for what the log does not tell."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.fast.right import portrait, require_nothing_left
from tests.fast.server import UUID, position
from tests.fast.world import World
from zbackup.features.undo import undo as room
from zbackup.features.undo.undo import UndoOptions, UndoReport, undo
from zbackup.features.undo.undoing import ImagesIncomplete, UndoneTable, UndoPlan, UndoWish
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.context import Context
from zbackup.model.errors import DatabaseError, NotRecoverable, Refused
from zbackup.model.log import ClusterTime, Transaction
from zbackup.model.recovery import Entrance
from zbackup.model.table_name import TableName
from zbackup.model.target import BeforeTransaction
from zbackup.model.transaction_name import Gtid

ORDERS = TableName("shop", "orders")
SEEN = UndoneTable(table=ORDERS, updated=3)
DONE = UndoneTable(table=ORDERS, updated=2, refused=1)
NAME = Gtid("mysql", UUID, 7)
AT = ClusterTime(1714557720, 1)


@dataclass
class FakeUndoer:
    """zbackup.ports.Undoer and its session. `incomplete`: what the log alone does not tell."""

    world: World
    seen: tuple[UndoneTable, ...] = (SEEN,)
    incomplete: bool | None = None
    acted: int = 0
    asked: list[tuple[Sequence[Any], UndoWish, Entrance | None]] = field(default_factory=list)

    def find(self, at: ClusterTime) -> Transaction:
        return Transaction(start="1,1@1", end="", committed=at.at)

    @contextmanager
    def session(
        self, subject: Transaction, files: Sequence[Any], wish: UndoWish, entrance: Entrance | None, _: object
    ) -> Iterator["FakeUndoer"]:
        self.asked.append((files, wish, entrance))
        if entrance is None and self.incomplete is not None:
            failure = ImagesIncomplete("not all that was overwritten is in the log")
            failure.tables, failure.by_clone = (ORDERS,), self.incomplete
            raise failure
        assert entrance is None or list(self.world.state.servers) == ["shop-undo"]
        yield self

    def plan(self) -> UndoPlan:
        return UndoPlan(tables=self.seen, transactions=1, notes=("it was long ago",))

    def statements(self) -> Iterator[str]:
        return iter(("UPDATE shop.orders",))

    def act(self) -> tuple[UndoneTable, ...]:
        self.acted += 1
        return (DONE,)


class Account:
    """zbackup.ports.Copier, as far as an undo asks it."""

    may = True

    def require_account(self) -> str:
        if not self.may:
            raise DatabaseError("there is no account to copy with")
        return ""


@pytest.fixture
def undoer(world: World) -> FakeUndoer:
    return FakeUndoer(world)


@pytest.fixture
def ctx(world: World, undoer: FakeUndoer, monkeypatch: pytest.MonkeyPatch) -> Context:
    """Two backups, and a transaction between them, which is found in the log of both."""
    made = world.context(copier=Account, undoer=lambda: undoer)
    snapshot(made)
    world.commit()
    snapshot(made)
    first = made.catalog().backups[0]
    number = len(world.content_of(first))
    place = Transaction(start=position(number), end=position(number + 1), committed=world.now)
    found = BeforeTransaction(name=NAME, transaction=place, logs=frozenset((first.record.log_id,)))
    monkeypatch.setattr(room, "locate", lambda *_: found)
    monkeypatch.setattr(room, "search_behind", lambda *_: iter(()))
    world.notes.clear()
    return made


def never(report: UndoReport) -> None:
    raise AssertionError("nobody is to be asked")


def test_without_an_account_or_an_engine_for_it_nothing_is_looked_for(
    world: World, ctx: Context, undoer: FakeUndoer, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = portrait(world)
    monkeypatch.setattr(Account, "may", False)
    with pytest.raises(DatabaseError, match="no account"):
        undo(ctx, NAME, UndoOptions(), never)
    none = cast(Context, SimpleNamespace(undoer=None, engine_name="mysql"))
    with pytest.raises(Refused, match="takes back no transactions of mysql"):
        undo(none, NAME, UndoOptions(), never)
    assert portrait(world) == before and undoer.asked == []


def test_a_dry_run_says_what_would_be_done_and_does_nothing(
    world: World, ctx: Context, undoer: FakeUndoer
) -> None:
    report = undo(ctx, NAME, UndoOptions(dry_run=True), never)
    assert (report.statements, report.tables, undoer.acted) == (("UPDATE shop.orders",), (SEEN,), 0)
    assert "it was long ago" in world.notes


def test_whoever_is_asked_sees_the_plan_and_can_end_it(ctx: Context, undoer: FakeUndoer) -> None:
    seen: list[UndoReport] = []
    report = undo(ctx, NAME, UndoOptions(fire_triggers=True), seen.append)
    assert [r.tables for r in seen] == [(SEEN,)] and undoer.acted == 1
    assert (report.tables, report.left, report.statements) == ((DONE,), 1, ())
    ((files, wish, _),) = undoer.asked
    assert files and wish == UndoWish(name=str(NAME), fire_triggers=True)

    def declined(_: UndoReport) -> None:
        raise Refused("no")

    with pytest.raises(Refused, match="no"):
        undo(ctx, NAME, UndoOptions(), declined)
    undoer.seen = (UndoneTable(table=ORDERS, already=3),)
    report = undo(ctx, NAME, UndoOptions(), never)
    assert report.tables == undoer.seen and undoer.acted == 1, "there is nothing to be changed"


@pytest.mark.parametrize(("name", "option"), [(NAME, "--before"), (AT, "--to-timestamp")])
def test_where_no_clone_would_tell_the_other_way_is_said(
    world: World, ctx: Context, undoer: FakeUndoer, name: Any, option: str
) -> None:
    undoer.incomplete = False
    before = portrait(world)
    with pytest.raises(Refused) as refused:
        undo(ctx, name, UndoOptions(), never)
    assert f"zbackup restore shop {option} {name} --table shop.orders --missing --changed" in str(
        refused.value
    )
    assert portrait(world) == before


def test_by_its_time_it_needs_no_files_of_a_log(ctx: Context, undoer: FakeUndoer) -> None:
    undo(ctx, AT, UndoOptions(dry_run=True), never)
    ((files, wish, _),) = undoer.asked
    assert files == () and wish == UndoWish(name=str(AT))


def test_what_the_log_does_not_tell_a_clone_does_which_is_gone_afterwards(
    world: World, ctx: Context, undoer: FakeUndoer
) -> None:
    undoer.incomplete = True
    report = undo(ctx, NAME, UndoOptions(), lambda _: None)
    assert report.tables == (DONE,) and undoer.acted == 1
    assert [bool(entrance) for _, _, entrance in undoer.asked] == [False, True]
    assert any("a server is restored to just before it" in note for note in world.notes)
    require_nothing_left(world)

    def declined(_: UndoReport) -> None:
        raise Refused("no")

    with pytest.raises(Refused, match="no"):
        undo(ctx, NAME, UndoOptions(), declined)
    require_nothing_left(world)


def test_a_log_that_was_pruned_meanwhile_is_told(
    ctx: Context, undoer: FakeUndoer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = SimpleNamespace(id=ctx.catalog().backups[0].record.log_id, files=["it"])
    others = SimpleNamespace(id="another", files=["no"])
    monkeypatch.setattr(room, "known_logs", lambda *_: iter((others, wanted)))
    undo(ctx, NAME, UndoOptions(dry_run=True), never)
    assert undoer.asked[0][0] == ("it",)
    monkeypatch.setattr(room, "known_logs", lambda *_: iter((others,)))
    with pytest.raises(NotRecoverable, match="was pruned just now"):
        undo(ctx, NAME, UndoOptions(), never)
