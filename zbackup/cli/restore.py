"""zbackup restore"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from zbackup import app
from zbackup.cli import at_address, cluster_option, completion, on_member
from zbackup.cli import private_key as private_key_option
from zbackup.cli.at_address import AddressOptions, Elsewhere, on_address
from zbackup.cli.command_context import OneInstance, on_one
from zbackup.cli.command_groups import Titles
from zbackup.cli.options import Options
from zbackup.cli.output import emit
from zbackup.cli.restore_report import (
    Asked,
    exit_status,
    headline,
    plan_shape,
    render_plan,
    render_report,
    report_shape,
)
from zbackup.cli.restore_target import find_target, named_target, proves, require_used
from zbackup.config import from_address
from zbackup.jobs.context import Context
from zbackup.jobs.restore.local_source import LOCAL
from zbackup.jobs.restore.make_plan import RestorePlan
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import RestoreReport, plan_restore, restore
from zbackup.jobs.restore.skip import without
from zbackup.jobs.restore.source import BackupSource
from zbackup.model.archive import MOST_EPOCH
from zbackup.model.cluster import Addresses
from zbackup.model.errors import Disproved, UsageError
from zbackup.model.moment import FORMS
from zbackup.model.target import NamedBackup, NamedTarget, RestoreTarget
from zbackup.registry import annex

To = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="TARGET",
        help="Restore to this target: see above.",
        autocompletion=completion.targets,
        show_default=False,
    ),
]
ToTimestamp = Annotated[
    str | None,
    typer.Option(
        "--to-timestamp", metavar="SECONDS,INC", help="The same as --to SECONDS,INC.", show_default=False
    ),
]
BeforeOption = Annotated[
    str | None,
    typer.Option(
        "--before",
        metavar="TRANSACTION",
        help="The same as --to GTID and --to FILE:POSITION.",
        show_default=False,
    ),
]
ToBackup = Annotated[
    str | None,
    typer.Option("--to-backup", metavar="NAME", help="The same as --to backup:NAME.", show_default=False),
]
ToLabel = Annotated[
    str | None,
    typer.Option("--to-label", metavar="LABEL", help="The same as --to label:LABEL.", show_default=False),
]
AsReplicaSet = Annotated[
    str,
    typer.Option(
        "--as-replica-set",
        metavar="NAME",
        help="MongoDB: make the new server a replica set of its own (default: a standalone one).",
        show_default=False,
    ),
]
Base = Annotated[
    str,
    typer.Option(
        "--base",
        metavar="NAME",
        help="Start from this backup instead of the newest that is old enough; see zbackup list. A snapshot "
        "of another tool, DATASET@NAME, is restored as it is, crash-consistent; see zbackup list --foreign.",
        show_default=False,
    ),
]
BeforeDrop = Annotated[
    str | None,
    typer.Option(
        "--before-drop",
        metavar="SCHEMA.TABLE",
        help="The same as --to before-drop:SCHEMA.TABLE.",
        show_default=False,
    ),
]
BeforeTruncate = Annotated[
    str | None,
    typer.Option(
        "--before-truncate",
        metavar="SCHEMA.TABLE",
        help="The same as --to before-truncate:SCHEMA.TABLE.",
        show_default=False,
    ),
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="With before-drop:, before-truncate: and --table: do not ask.")
]
Name = Annotated[
    str,
    typer.Option("--name", help="Name of the clone (default: instance and moment).", show_default=False),
]
Port = Annotated[
    int,
    typer.Option(
        "--port",
        min=0,
        max=65535,
        help="Listen on this port of 127.0.0.1 too (default: a socket only).",
        show_default=False,
    ),
]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Let nobody write to the new server.")]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="DESTINATION",
        help="Fetch the backup from this destination; nothing else of the instance has to be here. An "
        "address (s3://bucket/prefix, ssh://user@host/pool/path, zfs:pool/path) needs no configuration.",
        autocompletion=completion.destinations,
        show_default=False,
    ),
]
There = Annotated[
    bool,
    typer.Option(
        "--run-at-destination",
        help="With --from a pool of this host (zfs:...): run on clones of what is there, and copy nothing.",
    ),
]
AcceptOlder = Annotated[
    bool,
    typer.Option(
        "--accept-older",
        help="With --from and --to latest: take the newest backup that can be read, even if a newer one "
        "cannot be read or another server's backups are there.",
    ),
]
Epoch = Annotated[
    int | None,
    typer.Option(
        "--epoch",
        min=0,
        max=MOST_EPOCH,
        help="With --from: where the archived log has two branches, take the one up to this epoch.",
        show_default=False,
    ),
]
AcceptClockOption = Annotated[
    bool,
    typer.Option(
        "--accept-clock",
        help="Where the log's times contradict its order at the moment: take them as they are, and leave out "
        "everything from the first transaction on that says it is from then or later. Exit status 16.",
    ),
]
Skip = Annotated[
    str | None,
    typer.Option(
        "--skip",
        metavar="TRANSACTION",
        help="MySQL with GTIDs, MariaDB: leave this transaction out, and apply all others before the target "
        "(default: all there are). Later ones that touched the same tables are listed.",
        show_default=False,
    ),
]
Keep = Annotated[bool, typer.Option("--keep", help="Keep what was made when the restore fails.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan, change nothing.")]

Tables = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        metavar="TABLE",
        help="Copy this back into production, SCHEMA.TABLE or a whole SCHEMA, and destroy the new server "
        "again; may be repeated. See zbackup copy.",
        show_default=False,
    ),
]
Into = Annotated[
    str,
    typer.Option("--into", metavar="NAME", help="With --table: under another name.", show_default=False),
]
Missing = Annotated[
    bool, typer.Option("--missing", help="With --table: insert the rows whose key production lacks.")
]
Changed = Annotated[bool, typer.Option("--changed", help="With --table: put back the rows that differ.")]


OPTION_GROUPS: Titles = {
    "What to restore": (
        *("--to", "--base", "--skip", "--accept-clock", "--yes", "--before", "--before-drop"),
        *("--before-truncate", "--to-backup", "--to-label", "--to-timestamp"),
    ),
    "From where": ("--from", "--run-at-destination", "--accept-older", "--epoch", "--private-key"),
    "The new server": ("--name", "--port", "--read-only", "--as-replica-set", "--keep", "--dry-run"),
    "Back into production": ("--table", "--into", "--missing", "--changed"),
    "Clusters (sharded MongoDB)": ("--cluster", "--configdb", "--shard", "--cluster-key"),
    "This host without a configuration (--from ADDRESS)": (
        *(
            "--key",
            "--endpoint",
            "--identity",
            "--known-hosts",
            "--sudo",
            "--instance",
            "--below",
            "--server",
        ),
    ),
}

MOST_DISPROVED = 3
"""The number of wrong statements after which a restore stops looking for an earlier one."""

HELP = f"""Restore to a moment or another target, as a new server.

The new server has everything committed before the moment, and nothing committed at it or later. It runs
beside the original, which is not touched, and may even be down. It keeps running: see zbackup clone.

A moment is {FORMS}. Without a zone it is in the configured
one; without a date it is the last time that the clock showed it. A time that happened twice or never because
clocks were changed is refused, with both readings. Other targets:

\b
latest                  all that there is: in the server's log, or at the destination
GTID, FILE:POSITION     MySQL, MariaDB: everything in the log before this transaction
SECONDS,INC             MongoDB: everything before this cluster time
backup:NAME             this backup as it is, with nothing replayed, also where there is no log
label:LABEL             the newest backup with this label, as it is: see zbackup snapshot
before-drop:TABLE       before the last statement that dropped this table (or collection), or its
                        schema; you confirm it, and the new server is checked for the table
before-truncate:TABLE   the same for the last TRUNCATE; quote a name with a dot: '`my.db`.orders'

Examples:

\b
zbackup restore --to "2024-05-01 10:02"
zbackup restore shop --to -15m --dry-run
zbackup restore shop --to "yesterday 10:02:03.5" --name before-drop --port 3307 --read-only
zbackup restore shop --to 3e11fa47-71ca-11e1-9e33-c80aa9429562:23
zbackup restore shop --to binlog.000012:4711 --dry-run
zbackup restore shop --to before-drop:shop.orders
zbackup restore shop --to backup:zbackup-20240501T080000Z
zbackup restore shop --to label:before-deploy
zbackup restore shop --skip 3e11fa47-71ca-11e1-9e33-c80aa9429562:23       all there is but this transaction
zbackup restore shop --to 10:02 --base zbackup-20240501T080000Z   from an older backup than it would take
zbackup restore shop --base tank/mysql@autosnap_2024-05-01_10:00:00_hourly    what another tool took, as it is
zbackup restore shop --from offsite --to latest    from a destination, fetched into new datasets
zbackup restore shop --from here --run-at-destination --to latest    on the destination's own pool
zbackup restore --from s3://bucket/db1 --key FILE --below tank/recovered --to latest   with no configuration
zbackup restore shop --to before-drop:shop.orders --table shop.orders   and back into production with it
zbackup restore docs --to 1714557720,1 --port 27018 --as-replica-set rescue
zbackup restore --cluster shop --to "10:02" --port 27100    a sharded MongoDB: all of its members to one time
zbackup restore --to 1714557720,1 --configdb cfg/db0:27100 --shard rs0/db1:27100   the same by hosts
"""


def command(  # noqa: PLR0913  a parameter is an option of the command line
    options: Options,
    instance: OneInstance = None,
    *,
    to: To = None,
    to_timestamp: ToTimestamp = None,
    before: BeforeOption = None,
    before_drop: BeforeDrop = None,
    before_truncate: BeforeTruncate = None,
    to_backup: ToBackup = None,
    to_label: ToLabel = None,
    origin: From = None,
    there: There = False,
    base: Base = "",
    accept_older: AcceptOlder = False,
    epoch: Epoch = None,
    name: Name = "",
    port: Port = 0,
    read_only: ReadOnly = False,
    as_replica_set: AsReplicaSet = "",
    accept_clock: AcceptClockOption = False,
    skip: Skip = None,
    keep: Keep = False,
    table: Tables = None,
    into: Into = "",
    missing: Missing = False,
    changed: Changed = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    key: at_address.Keys = None,
    endpoint: at_address.Endpoint = "",
    identity: at_address.Identity = None,
    known_hosts: at_address.KnownHosts = None,
    sudo: at_address.Sudo = False,
    named_instance: at_address.Named = "",
    below: at_address.Below = "",
    server: at_address.Program = None,
    cluster: cluster_option.Name = "",
    configdb: on_member.Configdb = "",
    shard: on_member.Shards = None,
    cluster_key: on_member.ClusterKey = None,
    private_key: private_key_option.Files = None,
) -> None:
    if not table and (into or missing or changed):
        raise UsageError("--into, --missing and --changed are about what --table names")
    if private_key and not origin:
        raise UsageError("--private-key works only with a bucket: add --from DESTINATION or ADDRESS")
    given = {
        "--to": to,
        "--to-timestamp": to_timestamp,
        "--before": before,
        "--before-drop": before_drop,
        "--before-truncate": before_truncate,
        "--to-backup": to_backup,
        "--to-label": to_label,
    }
    if cluster:
        cluster_option.require_alone(
            *(instance, before, before_drop, before_truncate, to_backup, to_label, base, epoch, read_only),
            *(as_replica_set, accept_clock, accept_older, skip, table, into, missing, changed, yes),
            *(key, endpoint, identity, known_hosts, sudo, named_instance, below, server),
            *(configdb, shard, cluster_key),
        )
        asked_for = cluster_option.ClusterWish(
            target=named_target(given) if to or to_timestamp else None,
            origin=origin,
            there=there,
            private_keys=tuple(private_key or ()),
        )
        _restore_cluster(options, cluster, asked_for, (name, port, keep), dry_run=dry_run)
        return
    named = named_target(given, base=base, origin=origin, skips=skip is not None)
    require_used(named, origin, there=there, accept=(accept_older, epoch is not None, accept_clock))
    choice = RestoreOptions(
        name=name,
        port=port,
        read_only=read_only,
        keep=keep,
        base=base,
        accept_older=accept_older,
        epoch=epoch,
        replica_set=_replica_set(as_replica_set),
        accept_clock=accept_clock,
    )
    addresses = on_member.wished(
        configdb, shard or (), cluster_key, named, (port, read_only, as_replica_set, table)
    )
    program = from_address.named(server) if server else None
    elsewhere = AddressOptions(
        key=key,
        endpoint=endpoint,
        identity=identity,
        known_hosts=known_hosts,
        sudo=sudo,
        instance=named_instance,
        below=below,
    ).of(origin, instance, options, program, private_key or ())
    if elsewhere:
        _require_together(elsewhere, there=there, copies=bool(table))
    given_with = (program, private_key or ())
    with _context(options, instance, elsewhere, base, given_with) as (ctx, configuration):
        if copies := annex("copyback.after_restore") if table else None:
            wish = copies.wished(ctx, table, into, missing=missing, changed=changed)
        source = _source(ctx, origin, elsewhere, there=there, foreign=named == NamedBackup("snapshot", base))
        choice = choice if skip is None else without(ctx, choice, skip)
        choice = replace(choice, proves=proves(ctx, named))
        found = _Found(ctx, source, named, choice, addresses, sure=yes or dry_run)
        if not dry_run:
            report = found.restored()
            copied = copies.bring_back(ctx, report, wish, yes=yes) if copies else None
        plan = found.planned() if dry_run else report.plan
    asked = Asked(ctx.instance, ctx.zone, plan.target)
    if dry_run:
        emit(options, "restore", plan_shape(asked, plan), lambda: render_plan(asked, plan))
    elif copies and copied:
        copies.tell(options, asked, report, copied)
    else:
        _tell(options, asked, report, configuration)
    if status := exit_status(plan if dry_run else report):
        raise typer.Exit(status)


def _tell(options: Options, asked: Asked, report: RestoreReport, configuration: str) -> None:
    """Print the report, and behind it the configuration that was made for an address ("": none was)."""
    shape = report_shape(asked, report) | ({"configuration": configuration} if configuration else {})
    emit(options, "restore", shape, lambda: render_report(asked, report) + _to_keep(configuration))


def _to_keep(configuration: str) -> str:
    if not configuration:
        return ""
    return (
        "\n\nConfiguration of this host, to be kept as /etc/zbackup/config.toml. With it zbackup clone "
        "list, stop and destroy know the new server, and zbackup switch puts it in production's place:\n\n"
        f"{configuration}"
    ).rstrip()


@dataclass(frozen=True, slots=True)
class _Found:
    """A restore to a target that is found by its name."""

    ctx: Context
    source: BackupSource
    named: NamedTarget
    choice: RestoreOptions
    addresses: Addresses | None
    sure: bool

    def planned(self) -> RestorePlan:
        """Return the plan; change nothing."""
        target, choice = self._target(())
        return plan_restore(self.ctx, target, choice, self.source)

    def restored(self) -> RestoreReport:
        """Restore; if the result disproves the statement that was found, try an earlier one."""
        disproved: tuple[str, ...] = ()
        while True:
            target, choice = self._target(disproved)
            try:
                return restore(self.ctx, target, choice, self.source)
            except Disproved as wrong:
                statement = choice.proves is not None and choice.proves.table is not None
                if not (statement and wrong.goes_on) or choice.keep or len(disproved) == MOST_DISPROVED:
                    raise
                self.ctx.progress.note(f"{wrong}. Looking for an earlier one")
                disproved = (*disproved, wrong.found)

    def _target(self, disproved: Sequence[str]) -> tuple[RestoreTarget, RestoreOptions]:
        ctx, source = self.ctx, self.source
        target = find_target(ctx, source, self.named, self.choice, sure=self.sure, disproved=disproved)
        ctx.progress.note(headline(Asked(ctx.instance, ctx.zone, target)))
        return target, on_member.chosen(ctx, target, self.choice, source, self.addresses)


def _restore_cluster(
    options: Options,
    cluster: str,
    wish: cluster_option.ClusterWish,
    given_as: tuple[str, int, bool],
    *,
    dry_run: bool,
) -> None:
    # What other restores have no use for is read here and below where it is needed: every module costs a
    # restore time, which its server takes most of else.
    from zbackup.cli import on_cluster
    from zbackup.jobs.cluster.restore import ClusterOptions

    name, port, keep = given_as
    on_cluster.restore(
        options, cluster, wish, ClusterOptions(name=name, port=port, keep=keep), dry_run=dry_run
    )


def _require_together(elsewhere: Elsewhere, *, there: bool, copies: bool) -> None:
    """Raise UsageError where what is asked for cannot be had without a configuration."""
    if there:
        elsewhere.require_same_pool()
    if copies:
        raise UsageError("--table copies into production, which a host without a configuration does not know")


@contextmanager
def _context(
    options: Options,
    instance: str | None,
    elsewhere: Elsewhere | None,
    base: str,
    given_with: tuple[Path | None, Sequence[Path]],
) -> Iterator[tuple[Context, str]]:
    """The context of the instance that is meant, and the configuration where it was made for an address.

    `given_with` are the program to recover with, and private keys.
    """
    if elsewhere:
        with on_address(options, "restore", elsewhere, base) as rebuilt:
            yield rebuilt.context, rebuilt.configuration
    else:
        with on_one(options, "restore", instance, *given_with) as ctx:
            yield ctx, ""


def _source(
    ctx: Context, origin: str | None, elsewhere: Elsewhere | None, *, there: bool, foreign: bool
) -> BackupSource:
    if foreign:
        from zbackup.jobs.restore.foreign_source import FOREIGN

        return FOREIGN
    if origin:
        from zbackup.jobs.restore.destination_source import DestinationSource

        if elsewhere:
            return DestinationSource(ctx.destinations[0], there, address=str(elsewhere.reached.to))
        return DestinationSource(app.choose_destination(ctx, origin), run_at_destination=there)
    return LOCAL


def _replica_set(name: str) -> str:
    if name and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise UsageError(f'"{name}" is no good name of a replica set: use letters, digits, ".", "_" and "-"')
    return name
