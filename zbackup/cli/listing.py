"""zbackup list"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer

from zbackup import app
from zbackup.catalog.local import Catalog
from zbackup.cli import at_address, json_shapes, prose, tables
from zbackup.cli.at_address import AddressOptions, Rebuilt, all_at
from zbackup.cli.command_context import AnyInstance, At, Done, conclude, on_each
from zbackup.cli.options import Options
from zbackup.cli.output import plain
from zbackup.jobs.context import Context
from zbackup.jobs.drills.verdicts import of_backups
from zbackup.jobs.restore.address_survey import described
from zbackup.jobs.restore.foreign_source import foreign_snapshots
from zbackup.jobs.watch.window import as_they_are, inspect, inspect_destination
from zbackup.model.backup import Backup
from zbackup.model.command_line import command_line
from zbackup.model.drill import DrillVerdict
from zbackup.model.errors import UsageError
from zbackup.model.foreign import Foreign
from zbackup.model.moment import local_text
from zbackup.plan.recovery.window import Window

HELP = """List the backups and what they can restore.

Of one instance or all of them, oldest first. The database servers are not asked: everything is read from
the snapshots. LAST TRANSACTION is how far a backup's data reaches; USED is what destroying its snapshots
alone would free, WRITTEN what was new since the snapshot before.

\b
zbackup list
zbackup list shop --json
zbackup list shop --logs          also each snapshot that a restore took to read the log from
zbackup list shop --foreign       also snapshots that sanoid, zrepl or people took
zbackup list shop --at offsite    the backups that have arrived whole at a destination
zbackup list --from s3://bucket/db1 --key FILE    what lies at an address, on a host without a configuration
"""

HEADER = (
    "Snapshot",
    "Last transaction",
    "Lock",
    "Log position",
    "Used",
    "Written",
    "Holds",
    "Clones",
    "Remarks",
)
SIZES = (4, 5, 6, 7)
FOREIGN_HEADER = ("Snapshot", "Taken", "Tool", "Used", "Remarks")
EXPENDABLE = (2, 6, 7, 5, 3)
REMARKS = 18
"""Columns of the terminal that remarks need at the least."""


@dataclass(frozen=True, slots=True)
class Listing:
    """An instance's backups, the moments that can be reached with them, and those that can be restored as
    they are. `drills` are the verdicts there are, by the identity of the backup. Of an address that
    no configuration names, `address` is that, and `servers` are the newest backups of each server. `foreign`
    are the snapshots of others, where they are wanted."""

    catalog: Catalog
    window: Window | None
    as_they_are: tuple[Backup, ...] = ()
    drills: Mapping[str, DrillVerdict] = field(default_factory=dict)
    address: str = ""
    servers: tuple[Backup, ...] = ()
    foreign: tuple[Foreign, ...] | None = None


def command(  # noqa: PLR0913  a parameter is an option of the command line
    options: Options,
    instance: AnyInstance = None,
    at: At = None,
    logs: Annotated[
        bool, typer.Option("--logs", help="Show each log-only snapshot that a restore took.")
    ] = False,
    foreign: Annotated[
        bool, typer.Option("--foreign", help="Also show snapshots of its datasets that other tools took.")
    ] = False,
    origin: at_address.Origin = None,
    key: at_address.Keys = None,
    endpoint: at_address.Endpoint = "",
    identity: at_address.Identity = None,
    known_hosts: at_address.KnownHosts = None,
    sudo: at_address.Sudo = False,
    named_instance: at_address.Named = "",
) -> None:
    def list_one(ctx: Context) -> Listing:
        return _at_destination(ctx, at) if at else _here(ctx, foreign=foreign)

    def text(listings: list[Done[Listing]]) -> str:
        shown = (render(d.context.instance, d.result, d.context.zone, logs=logs) for d in listings)
        return prose.fold("\n\n".join(shown))

    if foreign and (at or origin):
        raise UsageError("--foreign is about this host: leave out --at and --from")
    elsewhere = AddressOptions(
        key=key,
        endpoint=endpoint,
        identity=identity,
        known_hosts=known_hosts,
        sudo=sudo,
        instance=named_instance,
    ).of(origin, instance, options)
    if elsewhere:
        conclude(options, "list", all_at(options, "list", elsewhere, _unconfigured), shape=_shape, text=text)
        return
    at_address.require_address(origin)
    conclude(options, "list", on_each(options, "list", instance, list_one), shape=_shape, text=text)


def _unconfigured(rebuilt: Rebuilt) -> Listing:
    """With whose backups they are: nobody has said so."""
    at = rebuilt.at
    listing = _at_destination(rebuilt.context, rebuilt.context.destinations[0].name)
    return replace(listing, address=at.address, servers=tuple(at.servers))


def _at_destination(ctx: Context, at: str) -> Listing:
    copies, reachable = inspect_destination(ctx, app.choose_destination(ctx, at))
    alone = as_they_are(ctx, copies.backups)
    drills = of_backups(ctx, copies.backups, at)
    return Listing(Catalog((), copies.backups, copies.unreadable), reachable.overall, alone, drills)


def _here(ctx: Context, *, foreign: bool) -> Listing:
    catalog = ctx.catalog()
    drills = of_backups(ctx, catalog.backups)
    found = Listing(catalog, inspect(ctx, catalog)[0].overall, as_they_are(ctx, catalog.backups), drills)
    return replace(found, foreign=foreign_snapshots(ctx, catalog)) if foreign else found


def _shape(done: Done[Listing]) -> dict[str, Any]:
    reachable, catalog = done.result.window, done.result.catalog
    return {
        "backups": [
            json_shapes.backup(b) | {"drill": json_shapes.verdict(done.result.drills.get(b.record.backup))}
            for b in catalog.backups
        ],
        "window": {
            "after": plain(reachable.start),
            "to": plain(reachable.end),
            "gaps": reachable.gaps,
            "except": [{"after": plain(after), "to": plain(to)} for after, to in reachable.holes],
        }
        if reachable
        else None,
        "as_they_are": [b.name for b in done.result.as_they_are],
        "unreadable": json_shapes.unreadable(catalog.unreadable),
        **(_place_shape(done.result) if done.result.address else {}),
        **(
            {"foreign": list(map(_foreign_shape, done.result.foreign))}
            if done.result.foreign is not None
            else {}
        ),
    }


def _place_shape(listing: Listing) -> dict[str, Any]:
    return {
        "place": listing.address,
        "servers": [
            {
                "engine": newest.record.engine,
                "version": newest.record.server_version,
                "uuid": newest.record.server_uuid,
                "newest": newest.name,
            }
            for newest in listing.servers
        ],
    }


def _foreign_shape(found: Foreign) -> dict[str, Any]:
    return {
        "name": found.name,
        "datasets": [s.dataset for s in found.snapshots],
        "taken": plain(found.taken),
        "tool": found.tool,
        "one_moment": found.at_once,
        "missing": list(found.missing),
        "used": sum(s.used for s in found.snapshots),
    }


def _foreign_lines(instance: str, found: Sequence[Foreign], zone: ZoneInfo) -> list[str]:
    if not found:
        return ["No snapshots of others."]
    rows = [
        [
            str(each.snapshots[0]),
            local_text(each.taken, zone),
            each.tool,
            tables.size(sum(s.used for s in each.snapshots)),
            each.flaw or ("one moment" if len(each.snapshots) > 1 else "-"),
        ]
        for each in found
    ]
    lines = [
        "Snapshots of others:",
        tables.table(FOREIGN_HEADER, rows, right=(3,), expendable=(3,), text={4: REMARKS}),
    ]
    if good := next((each for each in reversed(found) if not each.flaw), None):
        lines.append(
            "Restore one as it is, crash-consistent: "
            + command_line("zbackup", "restore", instance, "--base", good.snapshots[0])
        )
    return lines


def _is_plain_log(backup: Backup) -> bool:
    """Whether a restore took it to read the log from, and there is nothing to be said of it."""
    record = backup.record
    return record.purpose == "log" and backup.complete and backup.finished and not record.stopped_for


def render(instance: str, listing: Listing, zone: ZoneInfo, *, logs: bool = False) -> str:
    """One instance's backups for people, with what can be reached below; `logs`: one by one those, too, that
    restores took to read the log from."""
    lines = [f"Instance {instance}" + (f" at {listing.address}" if listing.address else "")]
    lines += [f"  {described(newest)}, newest {newest.name}" for newest in listing.servers]
    if listing.catalog.backups:
        opens = {b.record.backup for b in listing.as_they_are}
        folded = [] if logs else [b for b in listing.catalog.backups if _is_plain_log(b)]
        shown = [b for b in listing.catalog.backups if b not in folded]
        rows = [
            _row(b, zone, opens=b.record.backup in opens, drill=listing.drills.get(b.record.backup))
            for b in shown
        ]
        if rows:
            lines.append(tables.table(HEADER, rows, right=SIZES, expendable=EXPENDABLE, text={8: REMARKS}))
        lines += _folded(folded)
    if listing.window:
        # Of an address alone zbackup window knows nothing.
        lines += _reach("" if listing.address else instance, listing.window, zone)
    if listing.as_they_are:
        lines += tables.as_they_are(instance, listing.as_they_are, alone=listing.window is None)
    elif not listing.window:
        lines += tables.nothing_yet(listing.catalog.promoted)
    if listing.window or listing.as_they_are:
        lines += tables.moved_away(listing.catalog.promoted)
    lines += json_shapes.unreadable_lines(listing.catalog.unreadable)
    if listing.foreign is not None:
        lines += ["", *_foreign_lines(instance, listing.foreign, zone)]
    return "\n".join(lines)


def _reach(instance: str, window: Window, zone: ZoneInfo) -> list[str]:
    """What can be restored, and nothing that cannot; and where to see why, if the instance is named."""
    comma = "," if window.holes else ""
    lines = [f"Any moment {window.describe(zone, sep=' and')}{comma} can be restored ({zone.key})."]
    if window.gaps and instance:
        why = "why there is nothing after that" if not window.holes else "why not the others"
        lines.append(f"See {why}: {command_line('zbackup', 'window', instance)}.")
    return lines


def _folded(logs: Sequence[Backup]) -> list[str]:
    if not logs:
        return []
    size = tables.size(sum(s.used for b in logs for s in b.snapshots))
    what = f"{len(logs)} log snapshot{'s' * (len(logs) != 1)} of restores ({size})"
    return [f"{what}: left out, see zbackup list --logs. Later backups replace them."]


def _row(backup: Backup, zone: ZoneInfo, *, opens: bool, drill: DrillVerdict | None) -> list[str]:
    record = backup.record
    measured = record.lock_wait_ms is not None or record.lock_held_ms is not None
    times = f" ({tables.lock_times(record.lock_wait_ms, record.lock_held_ms)})" if measured else ""
    return [
        backup.name,
        local_text(record.as_of.replace(microsecond=0), zone) if record.as_of else "-",
        record.lock + times,
        record.position or "-",
        tables.size(sum(s.used for s in backup.snapshots)),
        tables.size(sum(s.written for s in backup.snapshots)),
        str(sum(s.holds for s in backup.snapshots)),
        str(len({clone for s in backup.snapshots for clone in s.clones})),
        "; ".join([*_remarks(backup, zone, opens=opens), *([_drilled(drill, zone)] if drill else [])]),
    ]


def _drilled(drill: DrillVerdict, zone: ZoneInfo) -> str:
    day = f"{drill.at.astimezone(zone):%Y-%m-%d}"
    return f"drill ok {day}" if drill.passed else f"drill FAILED {day}: {drill.why}"


def _remarks(backup: Backup, zone: ZoneInfo, *, opens: bool) -> list[str]:
    found = [f"label {backup.record.label}"] if backup.record.label else []
    if end := backup.record.keep_until:
        found.append(f"kept until {end.astimezone(zone):%Y-%m-%d}")
    if backup.record.purpose == "log":
        found.append("log only")
    if not backup.complete:
        found.append(f"incomplete: {len(backup.snapshots)} of {len(backup.record.members)} datasets")
    if not backup.finished:
        found.append("unfinished")
    elif not opens and backup.complete and backup.record.purpose == "base":
        found.append("cannot be opened")
    return found
