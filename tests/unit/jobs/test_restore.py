"""A restore whose log source proves not to lead on, and what it says of moments out of reach."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest

from tests.unit.samples import PLAIN, at, backup
from zbackup.catalog.local import Catalog
from zbackup.jobs.context import Context
from zbackup.jobs.restore.log_source import examined, nothing_replayed
from zbackup.jobs.restore.make_plan import RestorePlan, require_whole_live_log, window_named
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.model.errors import NotRecoverable
from zbackup.model.record import Record
from zbackup.model.snapshot import Dataset
from zbackup.model.target import Time

PLACES = tuple(Dataset(name=n, guid=i, mountpoint=m) for i, (n, m) in enumerate(PLAIN.members))
CATALOG = Catalog(PLACES, (), ())
BACKUPS = [backup(n, n, n) for n in (1, 2, 3)]
KNOWN = (BACKUPS, BACKUPS[0], BACKUPS)


def context(leading: set[str]) -> Context:
    """With an engine that finds the log of these backups alone to lead on."""

    def examine(_: object, log: tuple[Record, object], *__: object) -> Any:
        if log[0].backup not in leading:
            raise NotRecoverable(f"{log[0].backup} does not lead on")
        return nothing_replayed(at(9))

    found = {"log_reader": SimpleNamespace(examine=examine), "zone": ZoneInfo("UTC")}
    found["clock"] = SimpleNamespace(now=lambda: at(100))
    return cast(Context, SimpleNamespace(**found, mountpoint=Path("/"), engine_name="mysql"))


def test_the_next_log_source_is_tried() -> None:
    found = examined(context({"backup-2"}), CATALOG, KNOWN, Time(at(9)))
    assert (found.log, found.others) == (BACKUPS[1], (BACKUPS[2],))


def test_when_none_leads_on_it_is_the_firsts_reason_that_counts() -> None:
    with pytest.raises(NotRecoverable, match="backup-1 does not lead on"):
        examined(context(set()), CATALOG, KNOWN, Time(at(9)))


def test_no_live_log_is_read_across_a_time_in_which_none_was_kept() -> None:
    """`--to now` from an older base, asked for by name, would leave out without a word what nobody logged."""
    off = {"blockers": "the binary log is off (log_bin = OFF)"}
    broken = replace(BACKUPS[1], record=replace(BACKUPS[1].record, server=off))
    assert broken.record.breaks_log
    backups = (BACKUPS[0], broken, BACKUPS[2])
    now = cast(RestorePlan, SimpleNamespace(base=BACKUPS[0], log=None))
    with pytest.raises(NotRecoverable, match=r"no whole log leads there from .*the binary log is off"):
        require_whole_live_log(now, backups, RestoreOptions())
    require_whole_live_log(now, BACKUPS, RestoreOptions())
    from_newest = cast(RestorePlan, SimpleNamespace(base=BACKUPS[2], log=None))
    require_whole_live_log(from_newest, backups, RestoreOptions())


def test_the_window_is_named_once() -> None:
    for said in ("there is a gap", "there is a gap; the recovery window is small"):
        with (
            pytest.raises(NotRecoverable) as failed,
            window_named(context(set()), BACKUPS),
        ):
            raise NotRecoverable(said)
        assert str(failed.value).count("the recovery window is") == 1
