"""A server that replayed goes on as its users'."""

import pytest

from zbackup.engines.mysql.clone.after_replay import at_last, can_stay, taken_back
from zbackup.model.recovery import Limits, Serving


@pytest.mark.parametrize(
    ("serving", "stays"),
    [
        (Serving(), True),
        (Serving(read_only=True), True),
        (Serving(memory=1 << 30), True),
        (Serving(port=3307), False),
        (Serving(limits=Limits(nice=5)), False),
        (Serving(events_off=True), False),
        (Serving(restricted=True), False),
        (Serving(follows=True), False),
    ],
)
def test_it_stays_where_nothing_differs_that_only_a_start_can_say(serving: Serving, stays: bool) -> None:
    assert can_stay(serving) is stays


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_what_made_it_lazy_is_taken_back(flavor: str) -> None:
    said = taken_back(flavor, {"innodb_strict_mode": "OFF", "log_bin_trust_function_creators": "1; DROP"})
    assert "SET GLOBAL innodb_flush_log_at_trx_commit = DEFAULT" in said
    assert "SET GLOBAL sync_binlog = DEFAULT" in said
    assert "SET GLOBAL innodb_strict_mode = OFF" in said
    assert "SET GLOBAL log_bin_trust_function_creators = DEFAULT" in said, "nothing that is not a value"


@pytest.mark.parametrize(
    ("flavor", "recorded", "wanted"),
    [
        ("mysql", "ON", ["SET GLOBAL gtid_mode = ON"]),
        ("mysql", "OFF", ["SET GLOBAL gtid_mode = OFF"]),
        ("mysql", "ON_PERMISSIVE", []),
        ("mysql", "", []),
        ("mariadb", "ON", []),
    ],
)
def test_gtids_are_as_strict_as_they_were(flavor: str, recorded: str, wanted: list[str]) -> None:
    assert [s for s in taken_back(flavor, {"gtid_mode": recorded}) if "gtid_mode" in s] == wanted


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_the_log_is_written_out_before_the_door_is_closed(flavor: str) -> None:
    for read_only in (True, False):
        said = at_last(flavor, read_only=read_only)
        assert said[:2] == ["FLUSH LOCAL TABLES", "FLUSH LOCAL ENGINE LOGS"]
        assert bool(said[2:]) is read_only
