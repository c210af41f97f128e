"""Weigh the claims of others: what arrived later cannot undo what was there before. Pure.

At a destination a backup is its sender's word, and who may only add can add anything. But the order in which
backups arrived is the destination's own: nobody puts one before those that are there. So a claim counts only
where it does not contradict what arrived before it, and makes nothing superfluous before it has been there
for some time, in which whoever has the backups can notice.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from zbackup.model.backup import Backup
from zbackup.model.errors import NotFound, NotRecoverable
from zbackup.model.log import position_of
from zbackup.model.retention import Reason
from zbackup.plan.recovery.coverage import log_known
from zbackup.plan.recovery.recovery import RecoveryPlan
from zbackup.plan.retention.retention import KeptBackup, RetentionPlan

AHEAD = timedelta(minutes=1)
"""Clocks of two hosts may differ by so much."""

Plans = Sequence[RetentionPlan]


def as_arrived(backups: Sequence[Backup]) -> list[Backup]:
    return sorted(backups, key=lambda b: (b.createtxg, b.record.backup))


def consistent(arrived: Sequence[Backup], now: datetime) -> list[Backup]:
    """The backups whose record does not contradict the ones that arrived before them.

    A later backup of a server is of a later state: taken later, with later data, and more of the same log. A
    server that was set up again from older data contradicts as well, until it has got as far. Of another
    server, with datasets of its own, it says nothing.
    """
    found: list[Backup] = []
    servers = _servers(arrived)
    times: dict[tuple[int, str], datetime] = {}
    logs: dict[str, tuple[int, ...]] = {}
    for backup in arrived:
        record = backup.record
        claimed = {
            (server, name): at
            for server in {servers[s.dataset] for s in backup.snapshots}
            for name, at in (("taken", record.taken), ("as_of", record.as_of), ("to", record.complete_to))
            if at is not None
        }
        end = position_of(record.log_to)
        if any(at > now + AHEAD or at < times.get(name, at) for name, at in claimed.items()):
            continue
        if log_known(record) and end < logs.get(record.log_id, end):
            continue
        found.append(backup)
        times |= claimed
        if log_known(record):
            logs[record.log_id] = end
    return found


def _servers(arrived: Sequence[Backup]) -> dict[str, int]:
    """Whose each dataset is. Two that anything claims to be of one backup are of one server: what is
    planned for backups together (destinations.copies.by_server) is compared with each other here."""
    found: list[set[str]] = []
    for backup in arrived:
        datasets = {s.dataset for s in backup.snapshots}
        joined = [each for each in found if each & datasets]
        found = [*(each for each in found if not each & datasets), datasets.union(*joined)]
    return {dataset: number for number, datasets in enumerate(found) for dataset in datasets}


def plan_received(
    backups: Sequence[Backup],
    decide: Callable[[Sequence[Backup]], Plans],
    now: datetime,
    grace: timedelta,
) -> Plans:
    """What `decide` says of a destination's backups, without what only claims of others would remove.

    A backup goes only if it would have gone also without any that contradict what arrived before them, and
    without any that arrived after one that was taken less than `grace` ago.
    """
    arrived = as_arrived(backups)
    plans = decide(arrived)
    for subset in _without_claims(arrived, now, grace):
        if not any(plan.destroy for plan in plans):
            break
        kept = {k.backup.record.backup for plan in decide(subset) for k in plan.keep}
        why = _why(subset, arrived, grace)
        plans = [_spared(plan, kept, why) for plan in plans]
    return plans


def _without_claims(arrived: Sequence[Backup], now: datetime, grace: timedelta) -> Iterator[Sequence[Backup]]:
    """Go through all that might be there without what somebody added."""
    sound = consistent(arrived, now)
    if len(sound) < len(arrived):
        yield sound
    for end in range(len(arrived) - 1, 0, -1):
        if arrived[end - 1].record.taken > now - grace:
            yield arrived[:end]
            before = {b.record.backup for b in arrived[:end]}
            begun = [b for b in sound if b.record.backup in before]
            if len(begun) < end:
                yield begun


def _why(subset: Sequence[Backup], arrived: Sequence[Backup], grace: timedelta) -> Reason:
    last = max((b.createtxg for b in subset), default=0)
    later = [b for b in arrived if b.createtxg > last]
    if not later:
        return Reason("what would replace it contradicts what arrived before")
    return Reason(
        f"what would replace it arrived with {later[0].name} or later, less than {grace} (h:m:s) ago"
    )


def _spared(plan: RetentionPlan, kept: set[str], why: Reason) -> RetentionPlan:
    keep = [*plan.keep, *(KeptBackup(b, (why,)) for b in plan.destroy if b.record.backup in kept)]
    return replace(
        plan,
        keep=tuple(sorted(keep, key=lambda k: (k.backup.createtxg, k.backup.record.backup))),
        destroy=tuple(b for b in plan.destroy if b.record.backup not in kept),
    )


def first_to_reach(
    servers: Sequence[Sequence[Backup]],
    reaches: Callable[[Backup], bool],
    attempt: Callable[[Sequence[Backup]], RecoveryPlan],
) -> RecoveryPlan | None:
    """The plan that was possible first: by what had arrived when the first backup reached the target.

    `servers` are the backups of each server at the destination; the one that was there first goes first.
    `reaches` says of a backup whether it may hold what is wanted. So what is added later, by whomever,
    changes nothing of a recovery that is possible without. None when there is none that needs no further log.
    """
    for backups in sorted(servers, key=lambda each: min(b.createtxg for b in each)):
        arrived = as_arrived(backups)
        for end, backup in enumerate(arrived, 1):
            if reaches(backup) and (found := _attempted(attempt, arrived[:end])):
                return found
    return None


def _attempted(
    attempt: Callable[[Sequence[Backup]], RecoveryPlan], backups: Sequence[Backup]
) -> RecoveryPlan | None:
    try:
        found = attempt(backups)
    except (NotRecoverable, NotFound):
        return None
    return found if found.log else None
