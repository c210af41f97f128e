"""Decide which backup is restored as it is, with nothing replayed. Pure."""

from collections.abc import Sequence
from datetime import datetime

from zbackup.model.backup import Backup
from zbackup.model.command_line import command_line
from zbackup.model.errors import NotFound, NotRecoverable, Refused
from zbackup.plan.recovery.window import usable_bases


def find_backup(name: str, backups: Sequence[Backup], shown: str = "zbackup list") -> Backup:
    """The backup of that name or identity, among those that `shown` lists.

    Raise NotFound; NotRecoverable when it is none that can be opened.
    """
    found = [b for b in backups if name in (b.name, b.record.backup)]
    if not found:
        raise NotFound(f"there is no backup {name}: see {shown}")
    if len(found) > 1:
        identities = ", ".join(b.record.backup for b in found)
        raise NotRecoverable(f"{len(found)} backups are called {name}: name one by its id, {identities}")
    [backup] = found
    if backup.record.purpose == "log":
        raise NotRecoverable(f"{name} was taken to read its log only: name another, see {shown}")
    if not backup.complete:
        raise NotRecoverable(f"{name} lacks a dataset's snapshot, and restores nothing: see {shown}")
    if not backup.finished:
        raise NotRecoverable(f"{name} is not finished: the next zbackup snapshot does that")
    return backup


def newest_labelled(label: str, backups: Sequence[Backup], shown: str = "zbackup list") -> Backup:
    """The newest backup with this label. Raise NotFound, with the labels there are; NotRecoverable when that
    one cannot be opened: an older one is not what was asked for."""
    found = _with_label(label, backups)
    if not found:
        known = sorted({b.record.label for b in backups if b.record.label})
        there = f"; there are {', '.join(known)}" if known else ""
        raise NotFound(f"no backup has the label {label}{there}: see {shown}")
    newest = max(found, key=lambda b: b.createtxg)
    return find_backup(newest.record.backup, backups, shown)


def require_one_server(label: str, servers: Sequence[Sequence[Backup]]) -> None:
    """Raise NotRecoverable when backups of several servers at one destination have this label."""
    named = [max(found, key=lambda b: b.createtxg) for s in servers if (found := _with_label(label, s))]
    if len(named) > 1:
        choices = " or ".join(f"{command_line('--to-backup', b.record.backup)} ({b.name})" for b in named)
        raise NotRecoverable(
            f"backups of {len(named)} servers have the label {label} there: say which is meant, {choices}"
        )


def _with_label(label: str, backups: Sequence[Backup]) -> list[Backup]:
    return [b for b in backups if label and b.record.label == label and b.record.purpose == "base"]


def at_own_moment(moment: datetime, backups: Sequence[Backup]) -> Backup | None:
    """The newest backup without a log whose own moment this is, also as lists print it: in whole seconds."""
    bases = (b for b in usable_bases(backups) if b.record.blockers)
    found = [b for b in bases if b.record.as_of and moment in (b.record.as_of, _second(b.record.as_of))]
    return max(found, key=lambda b: b.createtxg, default=None)


def latest_as_it_is(backups: Sequence[Backup]) -> datetime | None:
    """The moment of the newest backup, if no log leads on from it; None where one does, or there is none."""
    newest = max(usable_bases(backups), key=lambda b: b.createtxg, default=None)
    return newest.record.as_of if newest and newest.record.blockers else None


def no_moments(backup: Backup) -> Refused:
    """Return the error that says why this one leads to no moment but its own, and what to do."""
    why = "; ".join(backup.record.blockers)
    command = command_line("zbackup", "restore", backup.record.instance, "--to-backup", backup.name)
    return Refused(
        f"{backup.name} cannot be recovered to a moment: {why}. It can be restored as it is: {command}"
    )


def _second(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)
