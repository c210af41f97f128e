"""Findings of the doctor about an oplog, and about the records a mongod's files have."""

from dataclasses import replace

import pytest

from zbackup.model.finding import Finding
from zbackup.model.server import OplogFacts
from zbackup.model.snapshot import Dataset
from zbackup.model.space import DatasetSettings
from zbackup.plan.health.doctor_mongodb import examine, lasts

HOUR = 3600.0
MIB = 1024**2
FULL = OplogFacts(
    used=990 * MIB, most=990 * MIB, span_s=30 * HOUR, kept_s=0, data_directory="/srv/my db/data"
)
DATASETS = (Dataset(name="tank/my db", guid=1, mountpoint="/srv/my db"),)


def found(
    oplog: OplogFacts | None, every: float | None = 300, recordsize: int = 32768
) -> tuple[Finding, ...]:
    settings = (DatasetSettings(name="tank/my db", values={"recordsize": str(recordsize)}),)
    return examine(oplog, every, DATASETS, settings)


def test_all_is_well() -> None:
    assert found(FULL) == found(None) == found(FULL, None) == ()
    assert found(FULL, recordsize=65536) == found(replace(FULL, data_directory="/elsewhere"), None, 1) == ()


@pytest.mark.parametrize(
    ("oplog", "seconds"),
    [
        (FULL, 30 * HOUR),
        (replace(FULL, used=495 * MIB), 60 * HOUR),
        (replace(FULL, span_s=HOUR, kept_s=48 * HOUR), 48 * HOUR),
        (replace(FULL, used=2000 * MIB), 30 * HOUR),  # grown for the sake of its age
        (replace(FULL, used=90 * MIB, span_s=5), None),
    ],
)
def test_how_long_an_oplog_lasts(oplog: OplogFacts, seconds: float | None) -> None:
    assert lasts(oplog) == seconds


@pytest.mark.parametrize(
    ("every", "severity"), [(None, "warning"), (HOUR, "warning"), (1.6 * HOUR, "critical")]
)
def test_an_oplog_that_does_not_last_a_night(every: float | None, severity: str) -> None:
    (finding,) = found(replace(FULL, span_s=3 * HOUR), every)
    assert (finding.subject, finding.severity, finding.exit_status) == ("oplog", severity, 9)
    assert finding.text.startswith("the oplog holds 3 hours")
    assert finding.fix == "db.adminCommand({replSetResizeOplog: 1, size: Double(7920)})"


def test_it_must_last_four_snapshots() -> None:
    (finding,) = found(FULL, 10 * HOUR)
    assert finding.severity == "warning" and "every 10 hours" in finding.text
    assert "Double(1320)" in finding.fix
    (small,) = found(replace(FULL, used=MIB, most=MIB, span_s=60), 60)
    assert "holds 1 minutes" in small.text and "Double(1440)" in small.fix


def test_records_that_are_larger_than_blocks() -> None:
    (finding,) = found(FULL, recordsize=131072)
    assert (finding.subject, finding.severity) == ("recordsize", "advice")
    assert finding.fix == "zfs set recordsize=32K 'tank/my db'"


def test_an_oplog_is_large_enough_up_to_the_bound() -> None:
    tenth = replace(FULL, used=99 * MIB, span_s=3 * HOUR)
    assert lasts(tenth) == 30 * HOUR and lasts(replace(tenth, used=99 * MIB - 1)) is None
    day = replace(FULL, span_s=24 * HOUR)
    assert found(day) == found(day, None) == () and len(found(replace(day, span_s=24 * HOUR - 1))) == 1
    assert [f.severity for f in found(replace(FULL, span_s=20 * HOUR), 10 * HOUR)] == ["warning"]
    assert [f.severity for f in found(replace(FULL, span_s=20 * HOUR - 1), 10 * HOUR)] == ["critical"]
    assert [f.text for f in found(replace(FULL, span_s=HOUR), None)] == ["the oplog holds 1 hours"]
    (short,) = found(replace(FULL, span_s=HOUR - 60), 600)
    assert short.text == "the oplog holds 59 minutes, and a snapshot is taken every 10 minutes"


def test_the_dataset_of_the_data_is_the_one_that_is_looked_at() -> None:
    large = {"recordsize": "131072"}
    datasets = (
        Dataset(name="tank/off", guid=3, mountpoint=None),
        Dataset(name="tank", guid=2, mountpoint="/x"),
    )
    settings = (
        DatasetSettings(name="tank", values=large),
        DatasetSettings(name="tank/my db", values={"recordsize": "65536"}),
    )
    assert examine(FULL, None, (*datasets, *DATASETS), settings) == ()
    assert examine(FULL, None, datasets, settings) == (), "none of them is the data's"
    home = Dataset(name="tank/db", guid=4, mountpoint="/srv/my db")
    (advice,) = examine(FULL, None, (home,), (DatasetSettings(name="tank/db", values=large),))
    assert advice.fix == "zfs set recordsize=32K tank/db"
