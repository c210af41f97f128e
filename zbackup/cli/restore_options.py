"""The options of zbackup restore."""

from typing import Annotated

import typer

from zbackup.cli import completion
from zbackup.model.archive import MOST_EPOCH

To = Annotated[
    str | None,
    typer.Option("--to", metavar="MOMENT", help="The moment to restore to.", show_default=False),
]
ToTimestamp = Annotated[
    str | None,
    typer.Option(
        "--to-timestamp",
        metavar="SECONDS,INC",
        help="MongoDB: restore everything before this exact cluster time, and not the operation at it. "
        "Instead of --to.",
        show_default=False,
    ),
]
BeforeOption = Annotated[
    str | None,
    typer.Option(
        "--before",
        metavar="TRANSACTION",
        help="MySQL, MariaDB: restore what is in the log before this transaction, and not it: its GTID, or "
        "FILE:POSITION as mysqlbinlog prints it. Instead of --to.",
        show_default=False,
    ),
]
ToBackup = Annotated[
    str | None,
    typer.Option(
        "--to-backup",
        metavar="NAME",
        help="Restore this backup as it is, with nothing replayed; also of a server that keeps no log. "
        "Instead of --to; see zbackup list.",
        show_default=False,
    ),
]
ToLabel = Annotated[
    str | None,
    typer.Option(
        "--to-label",
        metavar="LABEL",
        help="Restore the newest backup with this label as it is (see zbackup snapshot); instead of --to.",
        show_default=False,
    ),
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
        help="Restore to just before the last statement that dropped this table (or collection), or its "
        "schema. You confirm the statement; the new server is checked for the table. Quote a name with a "
        "dot: '`my.db`.orders'. Instead of --to.",
        show_default=False,
    ),
]
BeforeTruncate = Annotated[
    str | None,
    typer.Option(
        "--before-truncate",
        metavar="SCHEMA.TABLE",
        help="The same for the last TRUNCATE.",
        show_default=False,
    ),
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="With --before-drop, --before-truncate and --table: do not ask.")
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
