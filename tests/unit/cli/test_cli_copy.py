"""zbackup copy as it reads its words and says what it did."""

import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.copied import BESIDE, DONE, ORDERS, PLANNED
from zbackup.clock import SystemClock
from zbackup.features.copyback import after_restore, command
from zbackup.features.copyback import copy as job
from zbackup.features.copyback.copy import CopyReport, require_sensible
from zbackup.features.copyback.copying import CopyWish, Difference
from zbackup.model.errors import Taken, UsageError
from zbackup.model.table_name import TableName

WISH = CopyWish(tables=(ORDERS,), moment="20260101T000000")


def test_a_plan_shows_each_statement_and_each_row_that_differs() -> None:
    assert command.plan_text(PLANNED).splitlines() == [
        "shop.orders -> shop.orders",
        "  UPDATE `shop`.`orders` SET ...;",
        "  note: triggers run",
        "  shop.orders lacks 2 rows, and 30 differ",
        "    id=1",
        "      state: wrong -> paid",
        "    ... and 29 more",
    ]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Difference(missing=2, changed=None), "shop.orders lacks 2 rows; those that it has are not compared"),
        (Difference(missing=0, changed=30, inserts=False), "30 rows of shop.orders differ"),
        (Difference(missing=2, changed=30, inserts=False), "; 2 that it lacks stay away (--missing)"),
    ],
)
def test_a_plan_counts_what_was_compared_and_says_what_is_left_away(found: Difference, said: str) -> None:
    report = replace(PLANNED, differences={ORDERS: found})
    assert said in (line := command.plan_text(report).splitlines()[-1])
    assert ("differ" in line) == (found.changed is not None) and "0 differ" not in line
    assert command.shape(report, dry_run=True)["tables"][0]["difference"]["changed"] == found.changed


def test_a_report_says_what_was_not_taken_and_ends_so() -> None:
    said = command.text(DONE).splitlines()
    assert said[0].split() == ["Table", "Into", "How", "Inserted", "Updated"]
    assert "  not taken  id=7: Duplicate entry" in said
    assert f"  {ORDERS} is what {BESIDE} was" in said
    assert "1 rows or views: id=7" in str(command.incomplete(DONE))
    assert command.incomplete(PLANNED) is None


def test_a_restore_for_tables_reads_all_that_copying_takes_before_it_begins() -> None:
    """An upgrade in the hours that it may take puts other modules in their place."""
    look = (
        "from zbackup.registry import annex; annex('copyback.after_restore'); import sys; print(*sys.modules)"
    )
    loaded = subprocess.run((sys.executable, "-c", look), capture_output=True, text=True, check=True).stdout
    assert {command.__name__, job.__name__} <= set(loaded.split())


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, ""),
        ({"into": BESIDE}, " --into shop.orders_restored"),
        ({"missing": True, "changed": True}, " --missing --changed"),
    ],
)
def test_a_clone_whose_copy_fails_is_kept_and_the_command_that_goes_on_is_told(
    monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], words: str
) -> None:
    said: list[str] = []
    gone: list[str] = []
    telling = SimpleNamespace(note=said.append, phase=lambda *_: None)
    ctx: Any = SimpleNamespace(everywhere=tuple, progress=telling, engine_name="mysql")
    monkeypatch.setattr(after_restore, "destroy", lambda _, name: gone.append(name))

    def copied(found: CopyReport | Exception) -> None:
        def act(*_: object) -> CopyReport:
            if isinstance(found, Exception):
                raise found
            return found

        monkeypatch.setattr(after_restore, "copy", act)
        after_restore.copy_and_destroy(ctx, "good", replace(WISH, **more), command.confirmed(yes=True))

    with pytest.raises(Taken):
        copied(Taken("production has it"))
    copied(DONE)
    kept = f"the clone good is kept: zbackup copy good shop.orders{words} goes on, "
    assert said == [kept + "zbackup clone destroy good removes it"] * 2 and not gone
    copied(PLANNED)
    assert len(said) == 2 and gone == ["good"]


def test_nothing_is_copied_where_local_times_may_be_others(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    ctx: Any = SimpleNamespace(
        progress=SimpleNamespace(note=said.append), clock=SystemClock(), engine_name="mysql"
    )
    monkeypatch.setattr(after_restore, "copy_and_destroy", lambda *_: DONE)
    recovered = SimpleNamespace(other_zone="", other_settings="")
    report: Any = SimpleNamespace(recovered=recovered, clone=SimpleNamespace(name="good"))
    assert after_restore.bring_back(ctx, report, WISH, yes=True) is DONE and not said
    recovered.other_zone = "the original's own time zone is another one on this host"
    assert after_restore.bring_back(ctx, report, WISH, yes=True) is None
    assert "good is kept: check them, then run zbackup copy good shop.orders" in said[0]
    recovered.other_zone, recovered.other_settings = "", "max_sort_length is 4 and was 9"
    assert after_restore.bring_back(ctx, report, WISH, yes=True) is None
    assert "rows in good may differ" in said[1]


@pytest.mark.parametrize(("changed", "yes", "looks"), [(False, True, 0), (False, False, 1), (True, True, 1)])
def test_rows_are_looked_at_first_where_somebody_is_asked_or_they_may_differ(
    monkeypatch: pytest.MonkeyPatch, changed: bool, yes: bool, looks: int
) -> None:
    looked: list[object] = []
    shown: list[CopyReport] = []
    session = SimpleNamespace(
        plan=lambda: PLANNED.plan,
        compare=lambda step: looked.append(step) or Difference(missing=5, changed=None),
        act=lambda _: DONE.tables,
    )
    copier = SimpleNamespace(require_account=lambda _: "", session=lambda *_: nullcontext(session))
    telling = SimpleNamespace(note=print, phase=lambda *_: None)
    ctx: Any = SimpleNamespace(copier=lambda: copier, progress=telling, instance="shop")
    clone = SimpleNamespace(id="c", masked=False, login="", parent="")
    for name, answer in (
        ("find", (ctx, None, None)),
        ("find_again", (clone, None)),
        ("require_ready", None),
        ("working_on", nullcontext()),
        ("entered", nullcontext()),
    ):
        monkeypatch.setattr(job, name, lambda *_, answer=answer: answer)
    wish = replace(WISH, missing=True, changed=changed)
    report = job.copy((), "good", wish, None if yes else shown.append)
    assert (len(looked), len(shown)) == (looks, 0 if yes else 1)
    # Of those that were put back as they were found, three: two are there, and one was not taken.
    assert report.differences[ORDERS].missing == (5 if looks else 3)
    assert BESIDE not in report.differences


def test_nobody_is_overwritten_unasked() -> None:
    ask = command.confirmed(yes=False)
    assert ask and command.confirmed(yes=True) is None
    with pytest.raises(UsageError, match="--yes"):
        ask(PLANNED)
    view = replace(PLANNED.plan.steps[0], action="view")
    assert not replace(PLANNED.plan, steps=(view,)).overwrites
    assert replace(PLANNED.plan, steps=(replace(view, overwrites=True),)).overwrites


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (replace(WISH, replace=True, missing=True), "leave out --missing"),
        (replace(WISH, replace=True, where="a > 1"), "drop the other rows"),
        (replace(WISH, tables=(ORDERS, BESIDE), into=BESIDE), "name a schema alone"),
        (replace(WISH, tables=(TableName("shop", "*"),), into=BESIDE), "name a schema alone"),
    ],
)
def test_wishes_that_contradict_each_other(wish: CopyWish, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        require_sensible(wish)
    require_sensible(WISH)
