"""Findings of the doctor about settings."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.engines.mysql.server.inspect import tuning
from zbackup.engines.mysql.server.status import Dialect
from zbackup.model.finding import Finding
from zbackup.model.server import Tuning
from zbackup.model.snapshot import Dataset
from zbackup.model.space import DatasetSettings
from zbackup.plan.health.doctor import DoctorFacts, examine, metadata

GIB = 1024**3
GOOD = {
    "recordsize": "16384", "compression": "lz4", "atime": "off", "sync": "standard", "dedup": "off",
    "logicalused": str(100 * GIB),
}  # fmt: skip
TUNING = Tuning(
    log_retention_s=30 * 86_400,
    retention_setting="binlog_expire_logs_seconds",
    page_size=16_384,
    data_directory="/srv/my db/data/",
    double_write=False,
    keep_setting="SET PERSIST",
)
WELL = DoctorFacts(
    tuning=TUNING,
    datasets=(
        Dataset(name="tank/my db", guid=1, mountpoint="/srv/my db"),
        Dataset(name="tank/my db/log", guid=2, mountpoint="/srv/my db/log"),
    ),
    settings=(
        DatasetSettings(name="tank/my db", values=GOOD),
        DatasetSettings(name="tank/my db/log", values=GOOD | {"recordsize": "131072"}),
    ),
    every=300,
    arc_limit=4 * GIB,
    clock_synchronised=True,
    held_ms=50,
    ceiling_s=10,
)


def first(facts: DoctorFacts) -> Finding:
    found = examine(facts)
    assert len(found) == 1, found
    return found[0]


def data(**values: str) -> DoctorFacts:
    settings = (DatasetSettings(name="tank/my db", values=GOOD | values), WELL.settings[1])
    return replace(WELL, settings=settings)


def test_all_is_well() -> None:
    assert examine(WELL) == ()
    assert examine(replace(WELL, tuning=None, arc_limit=None, clock_synchronised=None, held_ms=None)) == ()


@pytest.mark.parametrize(
    ("kept", "every", "severity"),
    [
        (500.0, 300.0, "critical"),
        (3600.0, 300.0, "warning"),
        (86_400.0, 300.0, None),
        (86_400.0, 86_400.0, "critical"),
        (3 * 86_400.0, 86_400.0, "warning"),
        (4 * 86_400.0, 86_400.0, None),
        (3600.0, None, "warning"),
        (math.inf, 86_400.0, None),
    ],
)
def test_log_that_is_purged_too_soon(kept: float, every: float | None, severity: str | None) -> None:
    found = examine(replace(WELL, every=every, tuning=replace(TUNING, log_retention_s=kept)))
    assert [f.severity for f in found] == ([severity] if severity else [])


def test_what_puts_the_retention_right() -> None:
    short = replace(WELL, every=86_400.0, tuning=replace(TUNING, log_retention_s=3600.0))
    assert first(short).fix == "SET PERSIST binlog_expire_logs_seconds = 345600"
    assert (
        first(short).text
        == "the server may purge its log after 60 minutes, and a snapshot is taken every 24 hours"
    )
    old = replace(
        TUNING, log_retention_s=3600.0, retention_setting="expire_logs_days", keep_setting="SET GLOBAL"
    )
    assert first(replace(short, tuning=old)).fix == "SET GLOBAL expire_logs_days = 4"


def test_records_and_pages() -> None:
    big = first(data(recordsize="131072"))
    assert (big.severity, big.fix) == ("advice", "zfs set recordsize=16K 'tank/my db'")
    assert big.text == "tank/my db has records of 128 KiB, and pages have 16 KiB"
    assert "rewrites a whole record" in big.why
    assert "several records" in first(data(recordsize="4096")).why
    twice = first(replace(WELL, tuning=replace(TUNING, double_write=True)))
    assert twice.subject == "doublewrite"
    elsewhere = replace(TUNING, data_directory="/var/lib/elsewhere", double_write=True)
    assert examine(replace(WELL, tuning=elsewhere)) == ()


@pytest.mark.parametrize(
    ("values", "severity", "fix"),
    [
        ({"sync": "disabled"}, "warning", "zfs set sync=standard 'tank/my db'"),
        ({"compression": "off"}, "advice", "zfs set compression=lz4 'tank/my db'"),
        ({"atime": "on"}, "advice", "zfs set atime=off 'tank/my db'"),
        ({"dedup": "on"}, "advice", "zfs set dedup=off 'tank/my db'"),
    ],
)
def test_datasets(values: dict[str, str], severity: str, fix: str) -> None:
    found = first(data(**values))
    assert (found.severity, found.fix) == (severity, fix)


def test_the_rule_for_memory() -> None:
    """0.1 % at 128K, 0.8 % at 16K, and 15 % on top."""
    assert metadata(WELL.settings[1]) == math.ceil(100 * GIB * 0.001 * 1.15)
    assert metadata(WELL.settings[0]) == pytest.approx(100 * GIB * 0.008 * 1.15, abs=1)
    found = first(replace(WELL, arc_limit=GIB))
    assert (found.subject, found.severity) == ("ARC", "warning")
    assert found.text == "the datasets' metadata take about 1.035 GiB, the ARC may have 1 GiB"


def test_clock_and_lock() -> None:
    assert first(replace(WELL, clock_synchronised=False)).subject == "clock"
    assert "6.2 s; the limit is 10 s" in first(replace(WELL, held_ms=6200)).text


@given(st.floats(1, 1e8), st.one_of(st.none(), st.floats(1, 1e6)))
def test_whatever_is_advised_is_enough(kept: float, every: float | None) -> None:
    facts = replace(WELL, every=every, tuning=replace(TUNING, log_retention_s=kept))
    for finding in examine(facts):
        advised = float(finding.fix.rpartition("= ")[2])
        again = replace(facts, tuning=replace(TUNING, log_retention_s=advised))
        assert examine(again) == ()


@pytest.mark.parametrize(
    ("version", "variables", "kept", "setting"),
    [
        ("8.4.3", {"binlog_expire_logs_seconds": "2592000"}, 2_592_000, "binlog_expire_logs_seconds"),
        ("8.4.3", {"binlog_expire_logs_seconds": "60", "binlog_expire_logs_auto_purge": "OFF"}, math.inf,
         "binlog_expire_logs_seconds"),
        ("8.0.36", {"binlog_expire_logs_seconds": "0", "expire_logs_days": "7"}, 604_800,
         "binlog_expire_logs_seconds"),
        ("10.5.9-MariaDB", {"expire_logs_days": "10"}, 864_000, "expire_logs_days"),
        ("11.8.1-MariaDB", {"expire_logs_days": "0.500000", "binlog_expire_logs_seconds": "43200"}, 43_200,
         "binlog_expire_logs_seconds"),
        ("10.11.1-MariaDB", {"expire_logs_days": "0", "binlog_expire_logs_seconds": "0"}, math.inf,
         "binlog_expire_logs_seconds"),
    ],
)  # fmt: skip
def test_how_servers_say_how_long_they_keep_their_log(
    version: str, variables: dict[str, str], kept: float, setting: str
) -> None:
    found = tuning({"datadir": "/d", "innodb_page_size": "16384", **variables}, Dialect.of(version))
    assert (found.log_retention_s, found.retention_setting) == (kept, setting)


@pytest.mark.parametrize(
    ("said", "twice"),
    [("ON", True), ("OFF", False), ("DETECT_AND_RECOVER", True), ("0", False), (None, None)],
)
def test_how_servers_say_whether_they_write_twice(said: str | None, twice: bool | None) -> None:
    variables = {"datadir": "/d"} | ({"innodb_doublewrite": said} if said else {})
    assert tuning(variables, Dialect.of("8.4.3")).double_write == twice
