"""The target of zbackup restore: which one the command line names, and where in time that is."""

import sys
from collections.abc import Callable, Collection, Mapping
from typing import Final

import typer

from zbackup.cli.log_lines import in_words
from zbackup.jobs.context import Context
from zbackup.jobs.restore.find_last_drop import find_last_drop, just_before, searched_for
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.source import BackupSource
from zbackup.model.errors import Declined, UsageError
from zbackup.model.log import ClusterTime, LogPosition
from zbackup.model.moment import parse_moment
from zbackup.model.proof import ProofSubject
from zbackup.model.target import (
    LATEST,
    TARGET_FORMS,
    LastStatement,
    NamedBackup,
    NamedTarget,
    RestoreTarget,
    parse_target,
)
from zbackup.model.transaction_name import Gtid, parse_transaction


def _cluster_time(text: str) -> ClusterTime:
    try:
        return ClusterTime.parse(text)
    except ValueError as wrong:
        raise UsageError(f"--to-timestamp: {wrong}") from wrong


OPTIONS: Final[Mapping[str, Callable[[str], NamedTarget]]] = {
    "--to": parse_target,
    "--to-timestamp": _cluster_time,
    "--before": parse_transaction,
    "--before-drop": lambda table: parse_target(f"before-drop:{table}"),
    "--before-truncate": lambda table: parse_target(f"before-truncate:{table}"),
    "--to-backup": lambda name: parse_target(f"backup:{name}"),
    "--to-label": lambda label: parse_target(f"label:{label}"),
}
"""The options that name a target, and how each is parsed."""


def named_target(
    given: Mapping[str, str | None], *, base: str = "", origin: str | None = None, skips: bool = False
) -> NamedTarget:
    """Return what the options name (None: was not given). Raise UsageError unless that is exactly one target.

    `base` and `origin` are the values of --base and --from. `skips`: a transaction is to be left out.
    """
    named = [OPTIONS[option](text) for option, text in given.items() if text is not None]
    if "@" in base:
        if named or skips:
            raise UsageError(
                f"{base} is restored as it is, since no log is proven to lead on from it: leave out --to "
                "and the like"
            )
        if origin:
            raise UsageError(f"{base} is a snapshot of this host: leave out --from")
        return NamedBackup("snapshot", base)
    if skips and not named:
        named = ["now"]
    if len(named) != 1:
        raise UsageError(f"say once where to restore to, with --to TARGET: {TARGET_FORMS}")
    target = named[0]
    if skips:
        _require_skippable(target, origin)
    if base and isinstance(target, NamedBackup):
        raise UsageError("--to-backup and --to-label name what is restored: leave out --base")
    return target


def _require_skippable(target: NamedTarget, origin: str | None) -> None:
    """Raise UsageError where no log is replayed, or none that can be read before."""
    if isinstance(target, ClusterTime):
        raise UsageError(
            "--skip does not go with --to-timestamp: MongoDB's oplog cannot leave a transaction out"
        )
    if isinstance(target, NamedBackup):
        raise UsageError(
            f"--skip does not go with --to-{target.by}: a backup as it is replays no log to leave anything "
            "out of: name a moment (--to)"
        )
    if origin:
        raise UsageError(
            "--skip does not go with --from: what came after it is looked for in the log of this host, and a "
            "destination's is not here yet"
        )


def require_used(
    target: NamedTarget, origin: str | None, *, there: bool, accept: tuple[bool, bool, bool]
) -> None:
    """Raise UsageError for an option that the target has no use for, instead of passing over it.

    `accept` tells of --accept-older, --epoch and --accept-clock whether they were given, `there` the same of
    --run-at-destination.
    """
    latest = target == LATEST
    replayed = not isinstance(target, NamedBackup)
    older, epoch, clock = accept
    if older and not (origin and latest):
        raise UsageError(
            "--accept-older goes with --from DESTINATION --to latest: only that takes the newest backup"
        )
    if epoch and not origin:
        raise UsageError("--epoch goes with --from DESTINATION: it is about the log archived there")
    for option, is_given in (("--epoch", epoch), ("--accept-clock", clock)):
        if is_given and not replayed:
            raise UsageError(f"{option} is about the log, and a backup as it is replays none")
    if clock and (not isinstance(target, str) or target in (LATEST, "now")):
        raise UsageError(
            "--accept-clock goes with --to MOMENT: only there do the log's times say where the replay stops"
        )
    if there and not origin:
        raise UsageError("--run-at-destination needs a destination: --from DESTINATION")


def proves(ctx: Context, named: NamedTarget) -> ProofSubject | None:
    """Return what to check on the recovered server. Raise UsageError for an invalid table name."""
    match named:
        case LastStatement():
            return searched_for(ctx, named.table, named.kind)
        case Gtid() | LogPosition():
            return ProofSubject()
    return None


def find_target(
    ctx: Context,
    source: BackupSource,
    named: NamedTarget,
    choice: RestoreOptions,
    *,
    sure: bool,
    disproved: Collection[str] = (),
) -> RestoreTarget:
    """Look up what was named, among the backups or in the log where that takes a look.

    Transactions in `disproved` do not count, see find_last_drop.
    """
    match named:
        case ClusterTime():
            return named
        case str():
            if named == LATEST:
                return source.latest(ctx, choice)
            return parse_moment(named, ctx.zone, ctx.clock.now())
        case NamedBackup("backup"):
            return source.backup(ctx, named.name)
        case NamedBackup("label"):
            return source.labelled(ctx, named.name)
        case NamedBackup():
            from zbackup.jobs.restore.foreign_source import FOREIGN

            return FOREIGN.snapshot(ctx, named.name)
        case LastStatement():
            return _before_statement(ctx, source, choice, disproved, sure=sure)
    return source.transaction(ctx, named, choice.base)


def _before_statement(
    ctx: Context, source: BackupSource, choice: RestoreOptions, disproved: Collection[str], *, sure: bool
) -> RestoreTarget:
    """Just before the last such statement, which is shown, and asked about unless somebody is `sure`.

    Raise UsageError where nobody can answer, and Declined when the answer is no.
    """
    subject = choice.proves
    assert subject is not None
    if not sure and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            f"confirm that the last {subject.kind} is the one you mean: add --yes; --dry-run shows it"
        )
    found = find_last_drop(ctx, source, subject, disproved)
    ctx.progress.note(f"the last {subject.kind} of {subject.table}: {in_words(found, ctx.zone)}")
    if not sure:
        ctx.progress.phase("")
        if not typer.confirm("Restore to just before it?", err=True):
            raise Declined("nothing was restored; zbackup log shows what else happened")
    return just_before(ctx, source, found, choice)
