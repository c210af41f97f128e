"""A backup's name for people: never its identity."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.unit.plan.histories import NOON, made
from tests.unit.samples import PLAIN
from zbackup.model.errors import VerificationFailed
from zbackup.model.record import from_properties, to_properties


def test_a_record_knows_what_the_snapshots_are_called_that_it_is_of() -> None:
    backup = made(7, NOON)
    assert backup.record.called == backup.name == "zbackup-7"
    renamed = replace(backup, snapshots=tuple(replace(s, name="kept") for s in backup.snapshots))
    assert renamed.record.called == "kept" and renamed.record == backup.record
    with pytest.raises(VerificationFailed, match="the record of zbackup-7 does not say datadir_of_old"):
        backup.record.fact("datadir_of_old")


def test_the_name_is_not_written_and_without_it_the_time_tells() -> None:
    record = replace(PLAIN, name="zbackup-7", taken=NOON + timedelta(seconds=3))
    written = to_properties(record)
    assert "zbackup-7" not in written.values()
    back = from_properties(written)
    assert back is not None and back == record
    assert back.called == f"the backup of {record.taken:%Y-%m-%d %H:%M:%S} UTC"
