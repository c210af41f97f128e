"""Settings of the daemon: when jobs run, whom it tells, where it listens."""

import re
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, StrictInt

from zbackup.config import units
from zbackup.config.table import SettingsTable
from zbackup.model.cron import Cron
from zbackup.model.schedule import Interval, Timing

_ADDRESS = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.-]+)):(\d{1,5})")

_TOLD = re.compile("snapshot|prune|ship|drill|(prune|verify|drill):.+")

# More often than that the jobs would do nothing but wait for each other.
_SHORTEST_S = 1.0

# What people say where cron says "@weekly".
WORDS = ("hourly", "daily", "weekly", "monthly", "yearly")
_LONGEST_S = 366 * 86_400.0


def timing(value: object) -> Timing:
    """An interval such as "5m", a cron expression such as "0 3 * * *", or a word such as "weekly"."""
    if isinstance(value, Interval | Cron):
        return value
    if value in WORDS:
        return Cron.parse(f"@{value}")
    if not isinstance(value, str) or not value.strip():
        units.refuse('an interval such as "5m", or a cron expression such as "0 3 * * *"')
    if " " in value.strip() or value.startswith("@"):
        try:
            return Cron.parse(value.strip())
        except ValueError as wrong:
            units.refuse(f'an interval such as "5m", or a cron expression such as "0 3 * * *" ({wrong})')
    return Interval(pause(value))


def pause(value: object) -> float:
    """Seconds between two turns of something."""
    seconds = value if isinstance(value, float) else units.duration(value)
    if not _SHORTEST_S <= seconds <= _LONGEST_S:
        units.refuse('an interval from "1s" to "366d"')
    return seconds


def address(value: object) -> tuple[str, int]:
    """Host and port to listen on."""
    if isinstance(value, tuple):
        return value
    match = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if match is None or not 0 < int(match[3]) < 65536:
        units.refuse('an address and port such as "127.0.0.1:9797"')
    return match[1] or match[2], int(match[3])


def told_job(value: object) -> str:
    """A job that others are told of."""
    if not isinstance(value, str) or not _TOLD.fullmatch(value):
        units.refuse(
            'one of snapshot, prune, ship, drill, or "prune:NAME", "verify:NAME" or "drill:NAME" of a '
            "destination"
        )
    return value


def url(value: object) -> str:
    if not isinstance(value, str) or not url_is_valid(value):
        units.refuse('a URL such as "https://hc-ping.com/..."')
    return value


def url_is_valid(text: str) -> bool:
    """Whether it is a URL of HTTP that a request can be made of."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    plain = text.isascii() and text.isprintable() and " " not in text
    return plain and parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0


Seconds = Annotated[float, BeforeValidator(units.duration)]
Pause = Annotated[float, BeforeValidator(pause)]
When = Annotated[Timing, BeforeValidator(timing)]
Address = Annotated[tuple[str, int], BeforeValidator(address)]
Url = Annotated[str, BeforeValidator(url)]
Argv = Annotated[tuple[str, ...], BeforeValidator(units.argv)]
AbsolutePath = Annotated[Path, BeforeValidator(units.absolute_path)]


class Schedule(SettingsTable):
    """The times at which `zbackup daemon` works on the instance. A job without a time is left to others."""

    snapshot: When | None = Field(
        default=None,
        description='when to take snapshots: an interval ("5m"), or a cron expression ("0 3 * * *")',
    )
    prune: When | None = Field(
        default=None, description="when to delete what the retention policy no longer needs"
    )
    ship: When | None = Field(
        default=None,
        description="when to copy backups to the instance's destinations ([[instance.NAME.ship]], which "
        "has times of its own for `prune`, `verify` and `drill` there)",
    )
    drill: When | None = Field(
        default=None,
        description="when to restore a backup of this host into a server that nobody can reach, check its "
        'tables, and remove it again: `"weekly"`, `"daily"`, an interval or a cron expression. It takes '
        "memory and much reading, and a daemon that is not root needs zbackup-drill.socket: so nothing is "
        "tried unless it is said here",
    )
    drill_limit: Seconds = Field(
        default=21_600.0,
        description="a drill on schedule, here or at a destination, that takes longer has failed",
    )
    jitter: Seconds = Field(
        default=0.0,
        description="each job has a share of this, always the same, by which it is later: so instances and "
        "hosts do not all begin at once",
    )
    retry: Pause = Field(
        default=30.0, description="after a failure try again in this time, then twice as long, and so on"
    )
    retry_max: Pause = Field(default=900.0, description="but never later than this")


class Notify(SettingsTable):
    """Recipients of the daemon's notifications. None of them can make a job fail or wait."""

    ping: dict[Annotated[str, BeforeValidator(told_job)], Url] = Field(
        default_factory=dict,
        description="a URL for each job (`snapshot`, `prune`, `ship`, `drill`, and at a destination "
        '`"prune:NAME"`, `"verify:NAME"`, `"drill:NAME"`), called with /start (but for drills), as it is on '
        "success, with /fail on failure "
        "(as healthchecks.io and others have it)",
    )
    on_success: Argv | None = Field(default=None, description="program to run after a job that went well")
    on_failure: Argv | None = Field(default=None, description="program to run after a job that failed")
    limit: Seconds = Field(default=30.0, description="such a program is ended when it takes longer")


class Daemon(SettingsTable):
    """The daemon as a whole."""

    state_dir: AbsolutePath = Field(
        default=Path("/var/lib/zbackup"),
        description="what the daemon remembers of failures and prunes, and pages of buckets that need not be "
        "fetched again; may be deleted",
    )
    workers: Annotated[StrictInt, Field(ge=1, le=256)] = Field(
        default=4, description="jobs at a time; one instance runs one job at a time, plus one for shipping"
    )
    ships: Annotated[StrictInt, Field(ge=1, le=256)] = Field(
        default=2, description="instances that are shipped at a time, in addition to `workers`"
    )
    stop_limit: Seconds = Field(
        default=60.0, description="when told to stop, wait this long for the jobs that are running"
    )
    watch: Pause = Field(
        default=300.0, description="how often each instance's state is inspected, for metrics and health"
    )
    helper: AbsolutePath = Field(
        default=Path("/run/zbackup-helper.sock"),
        description="where to ask for what only root may do, if the daemon is not root and somebody listens",
    )
    drill_helper: AbsolutePath = Field(
        default=Path("/run/zbackup-drill.sock"),
        description="where to ask for drills on schedule, if the daemon is not root and somebody listens",
    )
    metrics: Address | None = Field(
        default=None,
        description='serve Prometheus metrics at this address, such as "127.0.0.1:9797"; default: nowhere',
    )
