"""A copy out of a clone: what is refused before anything is done, how its server is entered, who is asked."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.fast.right import portrait
from tests.fast.world import World
from tests.unit.copied import BESIDE, DIFFERENCE, ORDERS, STEP
from zbackup.features.copyback.after_restore import copy_and_destroy, require_possible
from zbackup.features.copyback.copy import CopyReport, copy
from zbackup.features.copyback.copying import CopiedTable, CopyPlan, CopyWish, Difference
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.clones.clone_datasets import describe, find_clone
from zbackup.jobs.clones.lifecycle import stop
from zbackup.jobs.context import Context
from zbackup.jobs.dev_clones.create import CreateOptions, create
from zbackup.model.errors import DatabaseError, Refused, UsageError
from zbackup.model.recovery import Entrance
from zbackup.model.table_name import TableName

ALL = TableName("shop", "*")
WISH = CopyWish(tables=(ORDERS,), changed=True)
NEW = replace(STEP, action="new")
PLAN = CopyPlan(steps=(STEP, NEW), notes=("it is old",))
DONE = CopiedTable(source=ORDERS, into=ORDERS, action="rows", inserted=2, refused=1)


@dataclass
class FakeCopier:
    """zbackup.ports.Copier and its session. `knows`: the clone's server lets it in."""

    world: World
    knows: bool = False
    plan_: CopyPlan = PLAN
    may: bool = True
    acted: int = 0
    compared: list[object] = field(default_factory=list)
    asked: list[Entrance] = field(default_factory=list)
    entered: list[tuple[Entrance, set[str]]] = field(default_factory=list)
    wishes: list[CopyWish] = field(default_factory=list)

    def require_account(self, schemas: Any = ()) -> str:
        if not self.may:
            raise DatabaseError(f"the account may not copy into {schemas}")
        return ""

    def admits(self, entrance: Entrance, wish: CopyWish) -> Entrance | None:
        self.asked.append(entrance)
        return entrance if self.knows else None

    @contextmanager
    def session(self, entrance: Entrance, wish: CopyWish, progress: object) -> Iterator["FakeCopier"]:
        self.entered.append((entrance, set(self.world.state.servers)))
        self.wishes.append(wish)
        yield self

    def plan(self) -> CopyPlan:
        return self.plan_

    def compare(self, step: object) -> Difference:
        self.compared.append(step)
        return DIFFERENCE

    def act(self, plan: CopyPlan) -> tuple[CopiedTable, ...]:
        self.acted += 1
        return (DONE,)


@pytest.fixture
def copier(world: World) -> FakeCopier:
    return FakeCopier(world)


@pytest.fixture
def ctx(world: World, copier: FakeCopier) -> Context:
    """A dev clone whose server runs."""
    made = world.context(copier=lambda: copier)
    snapshot(made)
    list(create(made, CreateOptions(name="dev")))
    world.notes.clear()
    return made


def never(report: CopyReport) -> None:
    raise AssertionError("nobody is to be asked")


def declined(report: CopyReport) -> None:
    raise Refused("no")


def change(ctx: Context, **changes: Any) -> None:
    found = find_clone(ctx, "dev")
    assert found
    describe(ctx, replace(found[0], **changes))


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (replace(WISH, replace=True), "leave out --missing and --changed"),
        (CopyWish(tables=(ORDERS,), replace=True, where="id > 7"), "--replace with --where"),
        (CopyWish(tables=(ORDERS, BESIDE), into=ORDERS), "is one table"),
        (CopyWish(tables=(ALL,), into=ORDERS), "is one table"),
    ],
)
def test_wishes_that_contradict_each_other_are_refused(
    world: World, ctx: Context, copier: FakeCopier, wish: CopyWish, said: str
) -> None:
    before = portrait(world)
    for job in (lambda: copy([ctx], "dev", wish, never), lambda: require_possible(ctx, wish)):
        with pytest.raises(UsageError, match=said):
            job()
    assert portrait(world) == before and copier.entered == []


@pytest.mark.parametrize(
    "wish",
    [
        CopyWish(tables=(ORDERS,), replace=True),
        CopyWish(tables=(ORDERS,), where="id > 7"),
        CopyWish(tables=(ORDERS,), into=BESIDE),
        CopyWish(tables=(ORDERS, BESIDE), into=TableName("other", "*")),
    ],
)
def test_any_other_wish_is_done(ctx: Context, copier: FakeCopier, wish: CopyWish) -> None:
    require_possible(ctx, wish)
    copy([ctx], "dev", wish, None)
    found = find_clone(ctx, "dev")
    assert copier.acted == 1 and found and copier.wishes == [replace(wish, clone=found[0].id, given=True)]


@pytest.mark.parametrize(
    ("login", "parent", "given"), [("", "", False), ("zbackup_clone", "", True), ("", "dev0", True)]
)
def test_a_copy_knows_whether_people_could_write_to_the_clone(
    ctx: Context, copier: FakeCopier, login: str, parent: str, given: bool
) -> None:
    change(ctx, login=login, parent=parent)
    copy([ctx], "dev", CopyWish(tables=(ORDERS,)), None)
    assert [wish.given for wish in copier.wishes] == [given]


def test_what_cannot_be_copied_is_refused_before_a_server_is_touched(
    world: World, ctx: Context, copier: FakeCopier
) -> None:
    with pytest.raises(Refused, match="copies no tables of mysql"):
        copy([replace(ctx, copier=None)], "dev", WISH, never)
    with pytest.raises(Refused, match="copies no tables of mysql"):
        require_possible(replace(ctx, copier=None), WISH)
    copier.may = False
    for job in (lambda: copy([ctx], "dev", WISH, never), lambda: require_possible(ctx, WISH)):
        with pytest.raises(DatabaseError, match=r"may not copy into \('shop',\)"):
            job()
    copier.may = True
    for changes, said in (({"masked": True}, "is masked"), ({"masked": False, "state": "resetting"}, "dev")):
        change(ctx, **changes)
        with pytest.raises(Refused, match=said):
            copy([ctx], "dev", WISH, never)
    assert copier.entered == [] and set(world.state.servers) == {"dev"}


def test_a_dry_run_changes_nothing_and_asks_nobody(ctx: Context, copier: FakeCopier, world: World) -> None:
    report = copy([ctx], "dev", WISH, never, dry_run=True)
    assert (copier.acted, report.tables, report.differences) == (0, (), {ORDERS: DIFFERENCE})
    assert copier.compared == [STEP], "a new table has nothing to be compared with"
    assert "it is old" in world.notes and report.refused == 0


def test_whoever_is_asked_sees_what_differs_and_can_end_it(ctx: Context, copier: FakeCopier) -> None:
    seen: list[CopyReport] = []
    report = copy([ctx], "dev", replace(WISH, changed=False, missing=True), seen.append)
    assert [r.differences for r in seen] == [{ORDERS: DIFFERENCE}] and report.tables == (DONE,)
    assert report.refused == 1
    with pytest.raises(Refused, match="no"):
        copy([ctx], "dev", WISH, declined)
    assert copier.acted == 1
    copier.plan_ = CopyPlan(steps=(NEW,))
    copy([ctx], "dev", WISH, never)
    assert copier.acted == 2


def test_nobody_asked_for_missing_rows_means_none_is_compared_first(ctx: Context, copier: FakeCopier) -> None:
    report = copy([ctx], "dev", replace(WISH, changed=False, missing=True), None)
    assert copier.compared == [] and report.differences == {ORDERS: Difference(missing=3, changed=None)}


@pytest.mark.parametrize("accounts", [False, True], ids=["developers'", "production's"])
def test_a_server_that_knows_us_is_left_running(
    world: World, ctx: Context, copier: FakeCopier, *, accounts: bool
) -> None:
    if accounts:
        change(ctx, login="")
    copier.knows = True
    copy([ctx], "dev", WISH, None)
    ((entrance, servers),) = copier.entered
    assert copier.asked == [entrance] and servers == {"dev"}
    assert (entrance.user, bool(entrance.password)) == (("", False) if accounts else ("zbackup_clone", True))
    assert not any("is stopped" in note for note in world.notes)


def test_one_that_does_not_is_stopped_and_started_again(
    world: World, ctx: Context, copier: FakeCopier
) -> None:
    copy([ctx], "dev", WISH, None)
    ((entrance, _),) = copier.entered
    assert entrance.socket.endswith("for-us-alone") and set(world.state.servers) == {"dev"}
    assert any("its server is stopped, and started again" in note for note in world.notes)
    with pytest.raises(Refused):
        copy([ctx], "dev", WISH, declined)
    assert set(world.state.servers) == {"dev"}, "also where the copy failed"


def test_one_that_was_stopped_stays_so(world: World, ctx: Context, copier: FakeCopier) -> None:
    stop([ctx], "dev")
    world.notes.clear()
    copier.knows = True
    copy([ctx], "dev", WISH, None)
    assert copier.asked == [] and copier.entered[0][0].socket.endswith("for-us-alone")
    assert not world.state.servers and not any("is stopped" in note for note in world.notes)


def test_what_production_did_not_take_keeps_the_clone(ctx: Context, world: World) -> None:
    copy_and_destroy(ctx, "dev", WISH, None)
    assert find_clone(ctx, "dev")
    assert any("the clone dev is kept: zbackup copy dev shop.orders --changed" in n for n in world.notes)
