"""The base and the log that lead to the state before one transaction: what holds for every set of backups."""

from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.examples import examples
from tests.unit.samples import NOON, at, backup, lacking_one
from zbackup.model.backup import Backup
from zbackup.model.errors import NotFound, NotRecoverable
from zbackup.model.log import Transaction, position_of
from zbackup.model.record import ARCHIVED
from zbackup.model.target import BeforeTransaction
from zbackup.model.transaction_name import parse_transaction
from zbackup.plan.recovery.before_transaction import covering, plan_before, plan_unseen, with_known_log
from zbackup.plan.recovery.coverage import continues
from zbackup.plan.recovery.recovery import RecoveryPlan

BERLIN = ZoneInfo("Europe/Berlin")
NOW = at(1000)


def held(number: int, first: int, last: int, log: str = "a", **changes: object) -> Backup:
    """Backup `number`, holding the log from one offset to another; times play no part."""
    ends = {"log_from": f"binlog.000001:{first}", "log_to": f"binlog.000001:{last}"}
    return backup(number, 7, 7, log_id=log, **ends, **changes)


def before(start: int, end: int, *logs: str) -> BeforeTransaction:
    found = Transaction(start=f"binlog.000001:{start}", end=f"binlog.000001:{end}", committed=NOON)
    name = parse_transaction(f"binlog.000001:{start}")
    return BeforeTransaction(name=name, transaction=found, logs=frozenset(logs or ("a",)))


def plan(target: BeforeTransaction, backups: list[Backup], base: str = "") -> RecoveryPlan:
    return plan_before(target, NOW, backups, BERLIN, base=base)


names, growths = st.sampled_from(["a", "a", "b"]), st.integers(0, 20)
kinds = st.sampled_from(["good", "good", "log", "incomplete"])


@st.composite
def logs(draw: st.DrawFn, spoilt: bool = True) -> list[Backup]:
    """Backups as they come to be: each log only grows, and only loses its beginning; some are spoilt."""
    made: list[Backup] = []
    ends = {"a": (0, 0), "b": (0, 0)}
    for number in range(1, draw(st.integers(0, 8)) + 1):
        log = draw(names)
        last = ends[log][1] + draw(growths)
        ends[log] = (draw(st.integers(ends[log][0], last)), last)
        kind = draw(kinds) if spoilt else "good"
        one = held(number, *ends[log], log, purpose="log" if kind == "log" else "base")
        made.append(lacking_one(one) if kind == "incomplete" else one)
    return draw(st.permutations(made))


@given(logs(), st.integers(0, 100), st.integers(1, 5), st.sampled_from(["a", "b"]))
@settings(max_examples=examples(300))
def test_every_plan_keeps_the_rules(backups: list[Backup], start: int, length: int, log: str) -> None:
    target = before(start, start + length, log)
    bases = [
        b
        for b in backups
        if b.complete
        and b.record.purpose == "base"
        and b.record.log_id == log
        and position_of(b.record.log_to) <= position_of(target.transaction.start)
    ]
    try:
        found = plan(target, backups)
    except NotRecoverable as failure:
        # The live log is not read behind a backup that lost a part: the data may have been rolled back.
        assert not bases or ("has lost its snapshot of" in str(failure) and any(map(_lost_part, backups)))
        return
    assert found.base in bases
    reaching = [
        (b, h)
        for b in bases
        for h in with_known_log(backups)
        if continues(h, b) and position_of(h.record.log_to) >= position_of(target.transaction.end)
    ]
    if found.log is None:
        assert not reaching
    else:
        assert (found.base, found.log) in reaching
        newest = max(position_of(b.record.log_to) for b, _ in reaching)
        assert position_of(found.base.record.log_to) == newest
        assert found.log.createtxg == min(h.createtxg for b, h in reaching if b == found.base)


def _lost_part(backup: Backup) -> bool:
    return bool(backup.lost_parts)


@given(logs(spoilt=False))
def test_what_covers_a_log_holds_all_of_it_and_no_more_than_needed(backups: list[Backup]) -> None:
    holders = [b for b in backups if b.record.log_id == "a"]
    chosen = covering(holders)
    assert _offsets(chosen) == _offsets(holders)
    assert sorted(chosen, key=lambda b: position_of(b.record.log_to), reverse=True) == chosen
    for one in chosen:
        others = [b for b in chosen if b is not one]
        assert len(chosen) == 1 or _offsets(others) != _offsets(holders)


def _offsets(backups: list[Backup]) -> set[int]:
    spans = [(position_of(b.record.log_from)[1], position_of(b.record.log_to)[1]) for b in backups]
    return {2 * n for first, last in spans for n in range(first, last + 1)} | {
        2 * n + 1 for first, last in spans for n in range(first, last)
    }


def test_a_base_that_ends_where_it_begins_is_the_best_there_is() -> None:
    found = plan(before(20, 30), [held(1, 0, 10), held(2, 0, 20), held(3, 0, 29), held(4, 0, 30)])
    assert (found.base.name, found.log and found.log.name) == ("zbackup-2", "zbackup-4")
    assert "zbackup-2 is the newest backup before the transaction" in found.reason


def test_the_base_that_is_asked_for_is_taken() -> None:
    found = plan(before(20, 30), [held(1, 0, 10), held(2, 0, 20), held(4, 0, 30)], "zbackup-1")
    assert (found.base.name, found.reason[:23]) == ("zbackup-1", "zbackup-1 was asked for")


@pytest.mark.parametrize(
    ("backups", "base", "said"),
    [
        ([], "", "run zbackup snapshot first"),
        (
            [held(1, 0, 25)],
            "",
            "no backup is that old: binlog.000001:20, committed 2024-05-01 14:00:00 CEST;",
        ),
        ([held(1, 0, 10, "b")], "", "no backup leads there"),
        ([held(1, 0, 10), held(2, 0, 21)], "zbackup-2", "zbackup-2 holds binlog.000001:20, committed 20"),
        ([held(1, 0, 10), held(2, 0, 11, "b")], "zbackup-2", "the log that zbackup-2 holds does not lead to"),
    ],
)
def test_what_cannot_be_is_said(backups: list[Backup], base: str, said: str) -> None:
    with pytest.raises(NotRecoverable) as refusal:
        plan(before(20, 30), backups, base)
    assert said in str(refusal.value)


def test_a_base_that_is_not_there_is_not_found() -> None:
    with pytest.raises(NotFound):
        plan(before(20, 30), [held(1, 0, 10)], "zbackup-7")


@given(logs(), st.integers(0, 100), st.integers(1, 5))
@settings(max_examples=examples(300))
def test_by_records_alone_the_same_is_chosen(backups: list[Backup], start: int, length: int) -> None:
    """Where one log has it. That the log source has it is certain then, not only likely."""
    name = parse_transaction(f"binlog.000001:{start}")
    # No transaction may be cut by the end of a backup's log.
    ends = {position_of(b.record.log_to)[1] for b in backups}
    target = next((before(start, end) for end in range(start + 1, start + length + 1) if end in ends), None)
    alone = [b for b in backups if b.record.log_id == "a"]
    try:
        found = plan_unseen(name, alone)
    except NotRecoverable:
        assert target is None or not _reached(target, alone)
        return
    assert found.log
    if target:
        seen = plan(target, alone)
        assert (found.base, found.log) == (seen.base, seen.log)


def _reached(target: BeforeTransaction, backups: list[Backup]) -> bool:
    try:
        return plan(target, backups).log is not None
    except NotRecoverable:
        return False


@pytest.mark.parametrize(
    ("text", "backups", "base", "said"),
    [
        ("binlog.000001:20", [], "", "there is no finished backup"),
        (
            "binlog.000001:20",
            [held(1, 0, 20)],
            "",
            "no backup there holds binlog.000001:20: the ne",
        ),
        ("mysqld-bin.000001:20", [held(1, 0, 9), held(2, 0, 25)], "", "no backup there holds mysqld-bin.000"),
        ("binlog.000001:20", [held(1, 0, 25)], "", "every backup there holds binlog.000001:20 already"),
        (
            "binlog.000001:20",
            [held(1, 0, 9), held(2, 0, 25)],
            "zbackup-2",
            "zbackup-2 holds binlog.000001:20",
        ),
        ("binlog.000001:20", [held(1, 0, 9), held(2, 15, 25)], "", "without a gap in the log"),
        ("0-1-5", [held(1, 0, 9, gtid="")], "", "no GTIDs were recorded with these backups"),
        (
            "binlog.000001:20",
            [held(1, 0, 9), held(2, 0, 25), held(3, 0, 9, "b"), held(4, 0, 25, "b")],
            "",
            "is in 2 logs: say which with --base",
        ),
    ],
)
def test_what_cannot_be_by_records_alone_is_said(
    text: str, backups: list[Backup], base: str, said: str
) -> None:
    with pytest.raises(NotRecoverable) as refusal:
        plan_unseen(parse_transaction(text), backups, base=base)
    assert said in str(refusal.value)


def test_a_gtid_is_looked_for_in_what_was_recorded_of_them() -> None:
    backups = [held(n, 0, n * 10, gtid=f"0-1-{n}") for n in range(1, 5)]
    found = plan_unseen(parse_transaction("0-1-3"), backups)
    assert (found.base.name, found.log and found.log.name) == ("zbackup-2", "zbackup-3")
    with pytest.raises(NotFound):
        plan_unseen(parse_transaction("0-1-3"), backups, base="zbackup-9")


def test_of_parts_that_only_just_touch_the_longest_is_enough() -> None:
    parts = [held(1, 0, 10), held(2, 5, 15), held(3, 10, 20)]
    assert covering(parts) == [parts[2], parts[0]]
    assert covering([]) == []
    assert covering([held(1, 0, 4), held(2, 1, 6), parts[2]]) == [parts[2], held(2, 1, 6), held(1, 0, 4)]


def test_what_is_read_continues_the_base_that_was_chosen() -> None:
    """Archived log behind an older backup counts as taken then, and holds the transaction, too."""
    archived = held(1, 0, 30, purpose="log", server={ARCHIVED: "1"})
    backups = [held(1, 0, 5), archived, held(2, 0, 15), held(3, 0, 30)]
    found = plan_unseen(parse_transaction("binlog.000001:20"), backups)
    assert (found.base, found.log) == (backups[2], backups[3])
    gtids = [held(1, 0, 5, gtid="0-1-1"), archived]
    assert plan_unseen(parse_transaction("0-1-9"), gtids).log is archived, "no listing tells which are in it"


def test_a_backup_of_which_no_log_is_known_is_no_base_for_a_transaction() -> None:
    unknown = backup(1, 7, 7)
    with pytest.raises(NotFound, match="there is no finished backup zbackup-1 to start from"):
        plan_unseen(parse_transaction("binlog.000001:20"), [unknown, held(2, 0, 30)], base="zbackup-1")
    unfinished = backup(3, None, None, log_id="a", log_from="binlog.000001:0", log_to="binlog.000001:40")
    assert with_known_log([unknown, unfinished, lacking_one(held(2, 0, 30))]) == []


def test_what_is_said_of_a_transaction_that_no_log_holds_yet() -> None:
    found = plan(before(20, 30), [held(1, 0, 10), held(2, 0, 30)])
    assert (
        found.reason
        == "zbackup-1 is the newest backup before the transaction, zbackup-2 the first that holds it"
    )
    found = plan(before(20, 30), [held(1, 0, 10)])
    assert (found.log, found.reason) == (
        None,
        "zbackup-1 is the newest backup before the transaction; no later one holds it yet",
    )
    for gtid, told in (("", "none"), ("0-1-7", "0-1-7")):
        with pytest.raises(NotRecoverable) as refusal:
            plan_unseen(parse_transaction("binlog.000001:20"), [held(1, 0, 20, gtid=gtid)])
        assert str(refusal.value) == (
            f"no backup there holds binlog.000001:20: the newest ends at binlog.000001:20, GTIDs {told}"
        )
