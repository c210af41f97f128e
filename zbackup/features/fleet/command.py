"""zbackup fleet"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer

from zbackup import app
from zbackup.cli import at_address, output, tables
from zbackup.cli.options import Options
from zbackup.cli.progress import shown
from zbackup.cli.received import age
from zbackup.config.from_address import AddressAccess, access
from zbackup.config.load import load
from zbackup.config.settings import Settings
from zbackup.config.ship import S3Address
from zbackup.config.units import dataset_name_is_valid
from zbackup.config.zone import local_zone
from zbackup.destinations.base import Destination
from zbackup.destinations.copies import MOST_INSTANCES
from zbackup.features.fleet import report_file
from zbackup.features.fleet.judgement import judged
from zbackup.features.fleet.look import of_address, of_dataset
from zbackup.jobs.drills.verdicts import read
from zbackup.model.drill import DrillVerdict
from zbackup.model.errors import NotFound, UsageError, ZbackupError
from zbackup.model.fleet import Fleet, FleetMember
from zbackup.model.moment import local_text
from zbackup.model.printable import printable
from zbackup.model.progress import Silent
from zbackup.zfs.datasets import Zfs

HELP = """Show every host and instance that ships to an address, the worst first.

On a host that receives backups, or over a bucket: how old the newest backup of each is, how far its log is
archived, what would be lost with its host now, and when a drill on this host last proved it. It reads what
lies there and asks none of the hosts; of a bucket with encrypted backups it needs the key. Ends with 1 when
something is critical, so that monitoring can run it.
Without an address it is what [web] fleet and fleet_reports in the configuration name. --report keeps what was
seen for that: so the web page shows a bucket or another host without having its credentials.

\b
zbackup fleet tank/backups
zbackup fleet tank/backups --max-age 26h --json
zbackup fleet s3://backups --key /etc/zbackup/bucket.key
zbackup fleet ssh://backup@vault.example.net/tank/backups
zbackup fleet s3://backups --key /etc/zbackup/bucket.key --report /var/lib/zbackup/fleet/bucket.json
"""

Listing = Callable[[], tuple[list[FleetMember], int]]
"""A look at an address: what lies there, and how many more instances than are looked at, at the least."""

CRITICAL = 1
HEADER = ("State", "Where", "Instance", "Exposed", "Newest backup", "Log archived to", "Backups", "Drilled")
EXPENDABLE = (7, 6, 5)


def command(  # noqa: PLR0913  a parameter is an option of the command line
    options: Options,
    addresses: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ADDRESS",
            help="A dataset of this host, or an address such as s3://bucket/prefix.",
            show_default=False,
        ),
    ] = None,
    max_age: Annotated[
        str | None,
        typer.Option(
            "--max-age",
            metavar="DURATION",
            help="How much of an instance may be exposed, as 26h.",
            show_default=False,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="Keep what was seen in this file as well, for [web] fleet_reports.",
            show_default=False,
        ),
    ] = None,
    key: at_address.Keys = None,
    endpoint: at_address.Endpoint = "",
    identity: at_address.Identity = None,
    known_hosts: at_address.KnownHosts = None,
    sudo: at_address.Sudo = False,
) -> None:
    if report and not addresses:
        raise UsageError("--report keeps what lies at an address: name one")
    most, zone = age(max_age) if max_age else None, local_zone()
    given = FleetOptions(
        keys=key or [], endpoint=endpoint, identity=identity, known_hosts=known_hosts, sudo=sudo
    )
    # What belongs to an address is wrong before anybody has looked anywhere.
    listings = {each: given.listing(each) for each in addresses or ()}
    given.require_used(addresses or ())
    settings = None if listings else load(options.config)
    with shown(options) as progress:
        progress.phase("inspecting", ", ".join(listings) or "what is received here")
        if settings:
            zone, found = settings.timezone, configured(settings, most)
        else:
            raw = _gathered(listings, report)
            found = _judged(raw, app.clock().now(), most)
    if not (found.members or found.unreachable):
        named = (*settings.web.fleet, *map(str, settings.web.fleet_reports)) if settings else ()
        where = ", ".join(listings or named)
        raise NotFound(f"there is no backup below {where}: is it the dataset that hosts ship to?")
    output.emit(options, "fleet", shape(found), lambda: render(found, zone))
    if found.health == "critical":
        raise typer.Exit(CRITICAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions:
    """The options that only an address has a use for."""

    keys: list[Path]
    endpoint: str
    identity: Path | None
    known_hosts: Path | None
    sudo: bool

    def listing(self, address: str) -> Listing:
        """Return how to look there. Raise UsageError for what is no address."""
        if not at_address.is_address(address):
            if not dataset_name_is_valid(address):
                raise UsageError(f'"{address}" is no dataset: write tank/backups, or an address')
            return lambda: of_dataset(Zfs(), address)
        reached = access(
            address,
            keys=self.keys,
            endpoint=self.endpoint,
            identity=self.identity,
            known_hosts=self.known_hosts,
            sudo=self.sudo,
        )
        return lambda: _elsewhere(reached)

    def require_used(self, addresses: Sequence[str]) -> None:
        """Raise UsageError where no address has a use for them."""
        wanted = self.keys or self.endpoint or self.identity or self.known_hosts or self.sudo
        if wanted and not any(map(at_address.is_address, addresses)):
            raise UsageError("--key, --endpoint, --identity, --known-hosts and --sudo belong to an address")


def configured(settings: Settings, most: timedelta | None = None) -> Fleet:
    """Look at what the configuration names. Raise NotFound where it names nothing."""
    if not settings.web.shows_fleet:
        raise NotFound(
            "no address is named, and none is in the configuration ([web] fleet): zbackup fleet tank/backups"
        )
    now = app.clock().now()
    if most is None and settings.web.fleet_max_age is not None:
        most = timedelta(seconds=settings.web.fleet_max_age)
    here = {root: partial(of_dataset, Zfs(), root, _drills(settings)) for root in settings.web.fleet}
    alone = len(here) == 1 and not settings.web.fleet_reports
    seen = gather(here, now, alone=alone) if here else Fleet(looked=now, members=())
    return _judged(_with_reports(seen, settings.web.fleet_reports, now), now, most)


def _with_reports(seen: Fleet, reports: Sequence[Path], now: datetime) -> Fleet:
    """With what others saw elsewhere and kept. What cannot be read is said as what nobody can look at is."""
    for path in reports:
        try:
            found, doubt = report_file.read(path, now)
        except ZbackupError as problem:
            unreachable = (*seen.unreachable, (str(path), " ".join(str(problem).split())))
            seen = replace(seen, unreachable=unreachable)
            continue
        seen = replace(
            seen,
            members=(*seen.members, *found.members),
            unreachable=(*seen.unreachable, *found.unreachable, *([(str(path), doubt)] if doubt else [])),
            left_out=seen.left_out + found.left_out,
            reported=(*seen.reported, (str(path), found.looked)),
        )
    return seen


def _judged(found: Fleet, now: datetime, most: timedelta | None) -> Fleet:
    return replace(found, members=judged(found.members, now, most))


def _gathered(listings: Mapping[str, Listing], report: Path | None) -> Fleet:
    """Look, and keep what was seen. Where nobody could look the report says that, and nothing of before."""
    now = app.clock().now()
    try:
        seen = gather(listings, now)
    except ZbackupError as problem:
        if report:
            nothing = tuple((address, _why(problem)) for address in listings)
            report_file.write(report, Fleet(looked=now, members=(), unreachable=nothing))
        raise
    if report:
        report_file.write(report, seen)
    return seen


def _why(problem: ZbackupError) -> str:
    return printable(" ".join(str(problem).split()))


def gather(listings: Mapping[str, Listing], now: datetime, *, alone: bool | None = None) -> Fleet:
    """Look at all of them, and judge nothing. Where nobody can look is said; with one address, raised."""
    alone = len(listings) == 1 if alone is None else alone
    members: list[FleetMember] = []
    unreachable, left_out = [], 0
    for address, there in listings.items():
        try:
            found, more = there()
        except ZbackupError as problem:
            if alone:
                raise
            unreachable.append((address, _why(problem)))
            continue
        members += found
        left_out += more
    return Fleet(looked=now, members=tuple(members), unreachable=tuple(unreachable), left_out=left_out)


def _elsewhere(reached: AddressAccess) -> tuple[list[FleetMember], int]:
    def opened(path: str, name: str) -> Destination:
        return at_address.destination(at_address.below(reached, path), name)

    found = of_address(at_address.destination(reached, ""), opened)
    if not found:
        what = "bucket" if isinstance(reached.to, S3Address) else "dataset"
        raise NotFound(f"there is no backup at {reached.to}: is it the {what} that hosts ship to?")
    # An address tells no more names than this, whoever wrote them, and not how many more there are.
    return found, int(len(found) >= MOST_INSTANCES)


def _drills(settings: Settings) -> dict[str, Sequence[DrillVerdict]]:
    """Map the dataset of each instance that this host drills at a destination of its own to the verdicts."""
    found: dict[str, Sequence[DrillVerdict]] = {}
    for instance in settings.instance.values():
        ctx = app.context(settings, instance, Silent())
        for each in ctx.destinations:
            if here := each.adapter.here:
                found[f"{here}/{ctx.instance}"] = read(ctx, each.name)
    return found


def shape(found: Fleet) -> dict[str, Any]:
    return {
        "looked": output.plain(found.looked),
        "health": found.health,
        "instances": [_member(each) for each in found.members],
        "unreachable": [{"address": address, "problem": why} for address, why in found.unreachable],
        "left_out": found.left_out,
        "reported": [{"report": path, "looked": output.plain(at)} for path, at in found.reported],
    }


def _member(each: FleetMember) -> dict[str, Any]:
    return {
        "health": each.health,
        "address": each.address,
        "path": each.path,
        "instance": each.instance,
        "engine": each.engine or None,
        "backups": each.backups,
        "newest": each.newest or None,
        "taken": output.plain(each.taken),
        "as_of": output.plain(each.as_of),
        "archived_to": output.plain(each.archived),
        "exposed_seconds": None if each.exposed is None else round(each.exposed, 3),
        "drilled": output.plain(each.drilled),
        "drill_failed": each.drill_failed or None,
        "problems": list(each.problems),
    }


def render(found: Fleet, zone: ZoneInfo) -> str:
    """The fleet for people."""
    rows = [_row(each, zone) for each in found.members]
    listed = [tables.table(HEADER, rows, right=(3, 6), expendable=EXPENDABLE)] if rows else []
    said = [
        f"{each.path}/{each.instance}: {problem}".lstrip("/")
        for each in found.members
        for problem in each.problems
    ]
    said += [f"{address}: nobody can look there: {why}" for address, why in found.unreachable]
    said += (
        [f"and at least {found.left_out} more, not inspected: name what is below"] if found.left_out else []
    )
    said += [f"as {path} says, which is of {_time(at, zone)}" for path, at in found.reported]
    return "\n".join([*listed, *map(printable, said)])


def _row(each: FleetMember, zone: ZoneInfo) -> list[str]:
    return [
        each.health,
        f"{each.address}/{each.path}".rstrip("/"),
        each.instance,
        "everything" if each.exposed is None else tables.length(each.exposed),
        _time(each.taken, zone),
        _time(each.archived, zone),
        str(each.backups),
        "failed" if each.drill_failed else _time(each.drilled, zone),
    ]


def _time(at: datetime | None, zone: ZoneInfo) -> str:
    return local_text(at.replace(microsecond=0), zone) if at else "-"
