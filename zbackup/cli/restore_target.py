"""The target of zbackup restore: which one the command line names, and where in time that is."""

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import typer

from zbackup.cli.log_lines import in_words
from zbackup.jobs.context import Context
from zbackup.jobs.restore.find_last_drop import find_last_drop, just_before, searched_for
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.source import LATEST, BackupSource
from zbackup.model.errors import Declined, UsageError
from zbackup.model.log import ClusterTime
from zbackup.model.moment import parse_moment
from zbackup.model.proof import ProofSubject
from zbackup.model.target import RestoreTarget
from zbackup.model.transaction_name import FilePosition, Gtid, TransactionName, parse_transaction


@dataclass(frozen=True, slots=True)
class _Backup:
    name: str


@dataclass(frozen=True, slots=True)
class _Label:
    name: str


@dataclass(frozen=True, slots=True)
class _Foreign:
    """A snapshot that others took, DATASET@NAME."""

    name: str


@dataclass(frozen=True, slots=True)
class _Statement:
    """The last that did this to a table, as that was typed."""

    kind: Literal["drop", "truncate"]
    table: str


NamedTarget = str | ClusterTime | TransactionName | _Backup | _Label | _Foreign | _Statement


def is_foreign(named: NamedTarget) -> bool:
    """Whether it is a snapshot that others took."""
    return isinstance(named, _Foreign)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOptions:
    """The options that name a target, as they were said; None is what was not."""

    to: str | None
    to_timestamp: str | None
    before: str | None
    before_drop: str | None
    before_truncate: str | None
    to_backup: str | None
    to_label: str | None

    def named(self, *, base: str, origin: str | None, skips: bool) -> NamedTarget:
        """What was named; a moment as text. Raise UsageError unless that is exactly one.

        `base` and `origin` are what --base and --from say; `skips`: a transaction is to be left out.
        """
        statement, to = _statement(self.before_drop, self.before_truncate), self.to
        if skips:
            never = {
                "--to-timestamp": self.to_timestamp,
                "--to-backup": self.to_backup,
                "--to-label": self.to_label,
                "--from": origin,
            }
            to = end_behind(to, (self.before, statement), never)
        said = (to, self.to_timestamp, self.before, self.to_backup, self.to_label, statement)
        found = _foreign(base, origin, said) or _only(*said)
        if base and isinstance(found, _Backup | _Label):
            raise UsageError("--to-backup and --to-label name what is restored: leave out --base")
        return found


def require_used(
    named_target: NamedTarget, origin: str | None, *, there: bool, accept: tuple[bool, bool, bool]
) -> None:
    """Raise UsageError for an option that the target has no use for, instead of passing over it.

    `accept` tells of --accept-older, --epoch and --accept-clock whether they were given, `there` the same of
    --run-at-destination.
    """
    moment = named_target.strip().lower() if isinstance(named_target, str) else ""
    latest = moment == LATEST
    replayed = not isinstance(named_target, _Backup | _Label | _Foreign)
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
    if clock and moment in ("", LATEST, "now"):
        raise UsageError(
            "--accept-clock goes with --to MOMENT: only there do the log's times say where the replay stops"
        )
    if there and not origin:
        raise UsageError("--run-at-destination needs a destination: --from DESTINATION")


def proves(ctx: Context, named_target: NamedTarget) -> ProofSubject | None:
    """Return what to check on the recovered server. Raise UsageError for an invalid table name."""
    match named_target:
        case _Statement():
            return searched_for(ctx, named_target.table, named_target.kind)
        case Gtid() | FilePosition():
            return ProofSubject()
    return None


def find_target(
    ctx: Context,
    source: BackupSource,
    named_target: NamedTarget,
    choice: RestoreOptions,
    *,
    sure: bool,
    disproved: Collection[str] = (),
) -> RestoreTarget:
    """Look up what was named, among the backups or in the log where that takes a look.

    Transactions in `disproved` do not count, see find_last_drop.
    """
    match named_target:
        case ClusterTime():
            return named_target
        case str():
            if named_target.strip().lower() == LATEST:
                return source.latest(ctx, choice)
            return parse_moment(named_target, ctx.zone, ctx.clock.now())
        case _Backup():
            return source.backup(ctx, named_target.name)
        case _Label():
            return source.labelled(ctx, named_target.name)
        case _Foreign():
            from zbackup.jobs.restore.foreign_source import FOREIGN

            return FOREIGN.snapshot(ctx, named_target.name)
        case _Statement():
            return _before_statement(ctx, source, choice, disproved, sure=sure)
    return source.transaction(ctx, named_target, choice.base)


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


def _statement(before_drop: str | None, before_truncate: str | None) -> _Statement | None:
    if before_drop is not None and before_truncate is not None:
        raise UsageError("say one of --before-drop and --before-truncate")
    if before_drop is not None:
        return _Statement("drop", before_drop.strip())
    return None if before_truncate is None else _Statement("truncate", before_truncate.strip())


def _foreign(base: str, origin: str | None, targets: Sequence[object]) -> _Foreign | None:
    """The snapshot of others that is to be restored; None where `base` names none.

    Raise UsageError where a moment is named, too: nobody knows what leads on from it.
    """
    if "@" not in base:
        return None
    if any(target is not None for target in targets):
        raise UsageError(
            f"{base} is restored as it is, since no log is proven to lead on from it: leave out --to "
            "and the like"
        )
    if origin:
        raise UsageError(f"{base} is a snapshot of this host: leave out --from")
    return _Foreign(base)


def end_behind(to: str | None, others: Sequence[object], never: Mapping[str, str | None]) -> str | None:
    """The moment up to which all but one transaction is restored: all there is, if nothing else is named.

    Raise UsageError for each of `never` that was said: no log is replayed, or none that can be read before.
    """
    for option, said in never.items():
        if said is not None:
            raise UsageError(f"--skip does not go with {option}: {_NEVER_SKIPPED[option]}")
    return to if to is not None or any(each is not None for each in others) else "now"


_AS_IT_IS = "a backup as it is replays no log to leave anything out of: name a moment (--to)"
_NEVER_SKIPPED = {
    "--to-timestamp": "MongoDB's oplog cannot leave a transaction out",
    "--to-backup": _AS_IT_IS,
    "--to-label": _AS_IT_IS,
    "--from": "what came after it is looked for in the log of this host, and a destination's is not here yet",
}


def _only(
    to: str | None,
    to_timestamp: str | None,
    before: str | None,
    to_backup: str | None,
    to_label: str | None,
    statement: _Statement | None,
) -> NamedTarget:
    """What was named as the target; a moment as text. Raise UsageError unless there is exactly one."""
    match (to, to_timestamp, before, to_backup, to_label, statement):
        case (str(), None, None, None, None, None):
            return to
        case (None, str(), None, None, None, None):
            return _cluster_time(to_timestamp)
        case (None, None, str(), None, None, None):
            return parse_transaction(before)
        case (None, None, None, str(), None, None):
            return _Backup(to_backup.strip())
        case (None, None, None, None, str(), None):
            if not to_label.strip():
                raise UsageError("--to-label wants a label: zbackup list shows those there are")
            return _Label(to_label.strip())
        case (None, None, None, None, None, _Statement()):
            return statement
    raise UsageError(
        "say where to restore to, by one of --to MOMENT, --to-backup NAME, --to-label LABEL, "
        "--before TRANSACTION, --before-drop TABLE, --before-truncate TABLE and --to-timestamp SECONDS,INC"
    )


def _cluster_time(text: str) -> ClusterTime:
    try:
        return ClusterTime.parse(text)
    except ValueError as wrong:
        raise UsageError(f"--to-timestamp: {wrong}") from wrong
