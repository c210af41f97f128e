"""Snapshots that others took: whose they are, and which a server can be made of."""

from datetime import UTC, datetime, timedelta

import pytest

from zbackup.model.foreign import by_name, tool_of
from zbackup.model.snapshot import Snapshot

T = datetime(2026, 5, 3, 4, tzinfo=UTC)
BOTH = ("tank/db", "tank/db/log")


def taken(dataset: str, name: str, txg: int, *properties: tuple[str, str]) -> Snapshot:
    """A snapshot of that transaction group, one second for each."""
    return Snapshot(
        dataset=dataset,
        name=name,
        guid=hash((dataset, name)),
        createtxg=txg,
        created=T + timedelta(seconds=txg),
        properties=properties,
    )


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("autosnap_2024-05-01_10:00:00_hourly", "sanoid"),
        ("autosnap_2024-05-01_10:00:00_frequently", "sanoid"),
        ("syncoid_backup_db1_2024-05-01:10:00:00-GMT00:00", "syncoid"),
        ("zrepl_20240501_100000_000", "zrepl"),
        ("zfs-auto-snap_hourly-2024-05-01-1017", "zfs-auto-snapshot"),
        ("pyznap_2024-05-01_10:00:00_daily", "pyznap"),
        ("2024-05-01-100000", "znapzend"),
        ("auto-2024-05-01_10-00", "TrueNAS"),
        ("bzfs_2024-05-01_10:00:00_hourly", "bzfs"),
        ("before-upgrade", "by hand"),
        ("autosnap", "by hand"),
        ("my_zrepl_20240501_100000_000", "by hand"),
        ("zbackup-20240501T100000Z", "by hand"),
    ],
)
def test_the_tool_is_guessed_from_the_whole_name(name: str, tool: str) -> None:
    assert tool_of(name) == tool


def test_only_what_is_on_every_dataset_and_of_one_moment_is_without_a_flaw() -> None:
    snapshots = [
        *(taken(d, "good", 7) for d in reversed(BOTH)),
        taken("tank/db", "torn", 3),
        taken("tank/db/log", "torn", 4),
        taken("tank/db/log", "half", 9),
        taken("tank/db", "ours", 5, ("zbackup:backup", "1")),
        taken("tank/db", "marked", 5, ("my:own", "1")),
        taken("tank/other", "good", 7),
    ]
    torn, marked, good, half = by_name(snapshots, BOTH)
    assert [s.dataset for s in good.snapshots] == list(BOTH)
    assert (good.flaw, good.at_once, good.missing, good.taken) == ("", True, (), T + timedelta(seconds=7))
    assert torn.flaw == "taken one after the other, not of one moment" and not torn.missing
    assert half.flaw == "there is none of tank/db" and half.at_once
    assert (marked.name, marked.missing) == ("marked", ("tank/db/log",))
    assert torn.taken == T + timedelta(seconds=3)
