"""The end of the log of a server that a switch has stopped: a log-only snapshot before its datasets go away.

Without one, what was committed since the newest backup could not be restored any more. A run that is taken up
takes it again, since the server may have been started and written to in between, and then discards the one
before, which it finds by what is written on it.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from zbackup.catalog.local import Catalog, read
from zbackup.catalog.switched import formerly, switches
from zbackup.jobs.backup.complete_record import discard
from zbackup.jobs.backup.log_snapshot import snapshot_log
from zbackup.jobs.context import Context, mounted
from zbackup.model.backup import Backup
from zbackup.model.clone import Clone
from zbackup.model.errors import ZbackupError
from zbackup.model.log import LOG_BEHIND
from zbackup.model.moment import utc_text
from zbackup.model.record import STOPPED, Record
from zbackup.model.server import ServerFacts
from zbackup.model.switch import Switch
from zbackup.plan.recovery.window import usable_bases


def snapshot_production(ctx: Context, clone: Clone, switch: Switch, facts: ServerFacts | None) -> None:
    """Take the end of the log of what is production until now, as long as no dataset of it was renamed."""
    home = {each.guid: each.name for each in switch.leaving}
    _snapshot(ctx, clone, home, (_there(clone, switch), None), facts)


def discard_production(ctx: Context, clone: Clone, switch: Switch) -> None:
    """Production goes on, as if nobody had stopped it: that was no end of its log."""
    try:
        for taken in _catalog(ctx, clone).backups:
            if taken.record.stopped_for == _there(clone, switch):
                discard(ctx, taken)
    except ZbackupError as failure:
        ctx.progress.note(f"the snapshot of its log is left: {failure}")


def snapshot_successor(ctx: Context, clone: Clone, switch: Switch, facts: ServerFacts | None) -> None:
    """Take that of what was production since the switch, as long as none of its datasets was renamed back.

    Of one that never was there is no backup since the switch, and nothing to be kept.
    """
    home = {each.guid: each.name for each in switch.coming}
    what = f"way back from {clone.name} after the switch of {utc_text(switch.at)}"
    _snapshot(ctx, clone, home, (what, switch.at), facts)


def _there(clone: Clone, switch: Switch) -> str:
    return f"switch to {clone.name} of {utc_text(switch.at)}"


def _snapshot(
    ctx: Context,
    clone: Clone,
    home: dict[int, str],
    why: tuple[str, datetime | None],
    facts: ServerFacts | None,
) -> None:
    """Take a log-only snapshot. Its failure is no reason not to go on: the log is not lost with it."""
    what, since = why
    try:
        catalog = _catalog(ctx, clone)
        in_place = {d.guid: d.name for d in catalog.datasets}
        if any(in_place.get(guid) != name for guid, name in home.items()):
            return
        like = _newest(catalog, since)
        if like is None or len(mounted(catalog.datasets)) < len(like.members):
            # In what is not mounted any more nobody can read the log; who unmounted it had it taken before.
            return
        ctx.progress.phase("taking a snapshot", "to keep the end of the log")
        known = [b for b in catalog.backups if b.record.stopped_for == what]
        for unfinished in (b for b in known if not b.finished):
            discard(ctx, unfinished)
        backups = [b for b in catalog.backups if b not in known]
        record = _like(like, what, facts)
        taken = snapshot_log(ctx, catalog, backups, record, record.position)
        for outdated in (b for b in known if b.finished):
            discard(ctx, outdated)
        behind = taken.record.server.get(LOG_BEHIND)
        upto = f"what was read of the log before that ({behind})" if behind else "the log up to its end"
        ctx.progress.note(f"took {taken.name}, which holds {upto}")
    except (ZbackupError, OSError) as failure:
        ctx.progress.note(
            f"no snapshot of the log's end could be taken: what was committed since the newest backup may be "
            f"out of reach ({failure})"
        )


def _catalog(ctx: Context, clone: Clone) -> Catalog:
    """The catalog that Context.catalog would refuse: the switch is half done, but nothing is renamed yet."""
    others = [each for each in switches(ctx.zfs, ctx.clones, ctx.instance) if each.name != clone.name]
    former = formerly(others, ctx.clones)
    return read(ctx.zfs, ctx.instance, ctx.datasets, without=ctx.clones, formerly=former)


def _newest(catalog: Catalog, since: datetime | None) -> Record | None:
    """The record of the newest base of what is in production's place, taken `since`; None without one."""
    here = {d.name for d in catalog.datasets}
    found: Iterable[Backup] = (
        b
        for b in usable_bases(catalog.backups)
        if all(s.dataset in here for s in b.snapshots) and (since is None or b.record.taken >= since)
    )
    newest = max(found, key=lambda b: b.createtxg, default=None)
    return newest.record if newest else None


def _like(record: Record, what: str, facts: ServerFacts | None) -> Record:
    """What is known of the server: what it said before it was stopped, or else with its newest
    backup."""
    if facts is None or facts.server_uuid != record.server_uuid:
        return replace(record, position="", server=record.server | {STOPPED: what})
    server = record.server | dict(facts.server) | {STOPPED: what}
    return replace(record, role=facts.role, position=facts.position, server=server)
