"""Reports of zbackup archive, for tests."""

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

from tests.unit.model.test_archive import chunk, file
from zbackup.cli import archive
from zbackup.jobs.archive.archive import Round
from zbackup.jobs.archive.state import ArchiveState
from zbackup.jobs.context import Context, ShipDestination
from zbackup.model.archive import ArchivedFile

LOOKED = datetime(2026, 5, 1, 12, tzinfo=UTC)
ROUND = Round(
    looked=LOOKED, end=ArchivedFile(file=file(), last=chunk(0, 5000)), appended=5000, appends=1, gap="a gap"
)
STATE = ArchiveState(
    destination="offsite", every=5.0, tried=LOOKED, archived=LOOKED, end="binlog.000007:5000", error="cut off"
)
CONTEXT = cast(Context, SimpleNamespace(instance="shop", clock=SimpleNamespace(now=lambda: LOOKED)))
DESTINATION = cast(
    ShipDestination, SimpleNamespace(name="offsite", adapter=SimpleNamespace(address="a host"))
)


def in_json() -> dict[str, Any]:
    """By command, as it is printed."""
    from zbackup.cli.output import plain

    done, nothing = (
        archive._ArchiveTurn(CONTEXT, DESTINATION, each) for each in (ROUND, replace(ROUND, end=None))
    )
    return {
        "archive": plain([archive._shape(done), archive._shape(nothing)]),
        "archive status": plain([archive._state_shape(CONTEXT, each) for each in (STATE, "cloud")]),
    }
