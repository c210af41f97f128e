"""Continuity of binlog files, by the GTIDs in both."""

import random
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.engines.binlog.builder import SERVER, Builder
from tests.unit.engines.binlog.test_find_by_name import previous
from tests.unit.examples import examples
from zbackup.engines.mysql.binlog import events
from zbackup.engines.mysql.binlog.continuity import break_between
from zbackup.engines.mysql.binlog.errors import BinlogDamaged

Transactions = Sequence[tuple[int, int]]
"""The domain and the number of each; MySQL has numbers alone."""


def mysql(path: Path, before: Sequence[int], held: Sequence[int]) -> Path:
    builder = Builder()
    earlier = {str(SERVER): [(number, number + 1) for number in before]} if before else {}
    builder.event(events.PREVIOUS_GTIDS, previous(earlier, tagged=False))
    for number in held:
        builder.mysql(1_700_000_000_000_000 + number, number)
    path.write_bytes(builder.data)
    return path


def mariadb(path: Path, before: Transactions, held: Transactions) -> Path:
    builder = Builder(mariadb=True)
    last = dict(before)
    entries = [struct.pack("<IIQ", domain, 1, number) for domain, number in last.items()]
    builder.event(events.GTID_LIST, struct.pack("<I", len(entries)) + b"".join(entries))
    for domain, number in held:
        builder.maria(1_700_000_000 + number, number, domain=domain)
    path.write_bytes(builder.data)
    return path


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.integers(0, 2), max_size=5), min_size=2, max_size=5), st.randoms())
def test_a_file_goes_on_from_the_one_before_it_and_from_no_other_state(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[int]], chosen: random.Random
) -> None:
    """Whatever was committed in between, in whichever order, and in whichever of MariaDB's domains."""
    home = tmp_path_factory.mktemp("log")
    numbers: dict[int, int] = {}
    log: list[tuple[int, int]] = []
    made: list[tuple[Path, Path, int]] = []
    for index, domains in enumerate(files):
        held = []
        for domain in domains:
            numbers[domain] = numbers.get(domain, 0) + 1
            held.append((domain, numbers[domain]))
        one = [len(log) + n + 1 for n in range(len(held))]
        chosen.shuffle(one)
        made.append(
            (
                mysql(home / f"mysql.{index}", range(1, len(log) + 1), one),
                mariadb(home / f"mariadb.{index}", log, held),
                len(held),
            )
        )
        log += held
    for index, (my, maria, _) in enumerate(made):
        for other, (your, marias, _) in enumerate(made[index + 1 :], index + 1):
            between = sum(count for _, _, count in made[index + 1 : other])
            for one_file, following in ((my, your), (maria, marias)):
                why = break_between(one_file, following)
                assert ("missing" in why or "begins behind" in why) == bool(between), (why, between)
        if index and made[index - 1][2]:
            assert break_between(my, made[index - 1][0])


def test_which_transactions_are_missing_is_told(tmp_path: Path) -> None:
    one = mysql(tmp_path / "1", [1, 2], [3, 4])
    assert break_between(one, mysql(tmp_path / "2", range(1, 5), [])) == ""
    why = break_between(one, mysql(tmp_path / "3", [*range(1, 6), 7, 9, 11, 12, 14], []))
    assert why == (
        f"transactions that lie between them are missing ({SERVER}:5, {SERVER}:7, {SERVER}:9 and 2 more)"
    )
    why = break_between(one, mysql(tmp_path / "4", [1, 2], [3]))
    assert why == f"it knows nothing of transactions in front of it ({SERVER}:3-4)"


def test_a_domain_that_was_deleted_breaks_nothing(tmp_path: Path) -> None:
    one = mariadb(tmp_path / "1", [(0, 7), (5, 3)], [(0, 8)])
    assert break_between(one, mariadb(tmp_path / "2", [(0, 8)], [])) == ""
    assert "5-1-3" in break_between(
        mariadb(tmp_path / "3", [], [(0, 8), (5, 3)]), mariadb(tmp_path / "4", [(0, 8)], [])
    )


def test_the_last_number_counts_and_not_the_highest(tmp_path: Path) -> None:
    """Where gtid_strict_mode is off."""
    one = mariadb(tmp_path / "1", [(0, 7)], [(0, 9), (0, 8)])
    assert break_between(one, mariadb(tmp_path / "2", [(0, 8)], [])) == ""
    assert "ends at 0-1-8" in break_between(one, mariadb(tmp_path / "3", [(0, 9)], []))


def test_without_gtids_nothing_is_told(tmp_path: Path) -> None:
    builder = Builder()
    builder.event(events.PREVIOUS_GTIDS, bytes(8))
    builder.mysql(1_700_000_000_000_000, 1, anonymous=True)
    (tmp_path / "1").write_bytes(builder.data)
    (tmp_path / "2").write_bytes(Builder().data)
    assert break_between(tmp_path / "1", mysql(tmp_path / "3", [], [])) == ""
    assert break_between(tmp_path / "1", tmp_path / "2") == ""
    assert break_between(tmp_path / "2", tmp_path / "1") == ""


def test_a_list_that_makes_no_sense_is_damage(tmp_path: Path) -> None:
    builder = Builder()
    builder.event(events.PREVIOUS_GTIDS, b"\xff" * 8)
    (tmp_path / "1").write_bytes(builder.data)
    with pytest.raises(BinlogDamaged, match="Previous_gtids"):
        break_between(mysql(tmp_path / "2", [], []), tmp_path / "1")
