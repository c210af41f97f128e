"""Nothing that somebody else may have written ends in anything but a value within bounds or its refusal."""

from datetime import timedelta

import pytest
from hypothesis import given, settings

from tests.unit import hostile
from tests.unit.examples import examples
from tests.unit.samples import PLAIN
from zbackup.engines.mongodb.optime import recorded_optime
from zbackup.engines.mongodb.recovery.as_of import reach
from zbackup.engines.mysql.binlog.position import recorded_position
from zbackup.model.clone import from_property
from zbackup.model.errors import VerificationFailed
from zbackup.model.log import position_of
from zbackup.model.record import PREFIX, Record, from_properties, to_properties
from zbackup.model.shipped import SHIPPED, arrived
from zbackup.model.shipping import copy_of
from zbackup.model.transaction_name import Gtid


def read(properties: dict[str, str]) -> Record | None:
    try:
        return from_properties(properties)
    except ValueError:
        return None


@given(hostile.properties)
@settings(max_examples=examples(300))
def test_a_record_is_within_bounds_or_refused(properties: dict[str, str]) -> None:
    record = read(properties)
    if record is None:
        return
    far = timedelta(days=36_500)
    for moment in (record.taken, record.as_of, record.complete_to, record.since):
        assert moment is None or (moment + far).year - (moment - far).year == pytest.approx(200, abs=1)
    assert all(len(position_of(text)) < 1000 for text in (record.position, record.log_from, record.log_to))
    assert record.clock is None or timedelta(seconds=record.clock.uptime)
    for name in (Gtid("mysql", PLAIN.server_uuid, 5), Gtid("mariadb", "0-1", 5)):
        name.is_in(record.gtid)
    for look in (recorded_position, recorded_optime, lambda r: reach(r, r.taken)):
        try:
            look(record)
        except VerificationFailed:
            continue
    assert from_properties(to_properties(record)) == record


@given(hostile.values)
@settings(max_examples=examples(300))
def test_what_is_written_beside_a_record_is_read_or_left_out(value: str) -> None:
    arrived({f"{SHIPPED}offsite": value})
    copy_of("name", 1, {f"{PREFIX}parts": value, f"{PREFIX}committed": value})
    try:
        from_property(value)
    except ValueError:
        return


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("taken", "0001-01-01T00:00:00+00:00"),
        ("taken", "9999-12-31T23:59:59+00:00"),
        ("as_of", "9999-12-31T23:59:59+00:00"),
        ("complete_to", "0001-01-01T00:00:00+00:00"),
        ("since", "9999-12-31T23:59:59+00:00"),
        ("log_from", "binlog." + "9" * 5000 + ":4"),
        ("log_to", "binlog.000001:" + "9" * 5000),
        ("position", "9" * 21),
        ("gtid", "9" * 5000),
        ("gtid", "x" * (2 << 20)),
        ("clock", "boot inf synchronised"),
        ("clock", "boot nan synchronised"),
        ("clock", "boot -1 free"),
        ("lock_held_ms", "9" * 5000),
        ("lock_held_ms", "-1"),
        ("members", "[" * 100_000),
        ("members", '[["/a","/m"],["b","/n"]]'),
        ("members", '[["tank/\\u202edb","/m"]]'),
        ("server_version", "9\x1b[2J"),
        ("members", '[["' + "d" * 300 + '","/m"]]'),
        ("server", '{"a":' * 100_000),
        ("server_uuid", "u" * 5000),
        ("instance", "i" * 5000),
    ],
)
def test_what_is_out_of_bounds_is_refused_by_its_name(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"property zbackup:{name} is damaged") as refused:
        from_properties(to_properties(PLAIN) | {PREFIX + name: value})
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    "parts", ["inf", "[" * 50_000, "[Infinity]", "[1e400]", '["' + "9" * 5000 + '"]', "[-1]"]
)
def test_guids_that_are_none_are_no_commit(parts: str) -> None:
    assert copy_of("one", 1, {f"{PREFIX}parts": parts}).parts == ()


def test_a_transaction_is_in_no_set_that_makes_no_sense() -> None:
    uuid = PLAIN.server_uuid
    for recorded in (f"{uuid}:1-" + "9" * 5000, f"{uuid}:1-x", f"{uuid}:", f"{uuid}:5-x:9", "0-1-x", "0-1-"):
        assert not Gtid("mysql", uuid, 5).is_in(recorded)
        assert not Gtid("mariadb", "0-1", 5).is_in(recorded)
