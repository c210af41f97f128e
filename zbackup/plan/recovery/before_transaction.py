"""Decide how to reach the state just before one transaction: by positions in the log, not by times. Pure.

A base is old enough when its log ends before the transaction begins. Times would not do: MariaDB's are whole
seconds, and on both flavours transactions may stand in the log in another order than that of their times.
"""

from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from zbackup.model.backup import Backup
from zbackup.model.errors import NotFound, NotRecoverable
from zbackup.model.log import position_of
from zbackup.model.moment import local_text
from zbackup.model.record import ARCHIVED
from zbackup.model.target import BeforeTransaction
from zbackup.model.transaction_name import Gtid, TransactionName
from zbackup.plan.recovery.coverage import Position, continues, first_break, log_known
from zbackup.plan.recovery.recovery import RecoveryPlan, require_whole_log
from zbackup.plan.recovery.window import moment_bases, recovery_window, usable_bases


def with_known_log(backups: Sequence[Backup]) -> list[Backup]:
    """The snapshots of which it is known which log they hold."""
    return [b for b in backups if b.complete and b.finished and log_known(b.record)]


def covering(holders: Sequence[Backup]) -> list[Backup]:
    """The fewest of snapshots of one log that hold all that any of them does, the newest part first."""
    if not holders:
        return []
    chosen = [max(holders, key=_widest)]
    begin = position_of(chosen[0].record.log_from)
    while older := [h for h in holders if position_of(h.record.log_from) < begin]:
        touching = [h for h in older if position_of(h.record.log_to) >= begin]
        chosen.append(max(touching, key=_leading_back) if touching else max(older, key=_widest))
        begin = position_of(chosen[-1].record.log_from)
    return chosen


def plan_before(
    target: BeforeTransaction, now: datetime, backups: Sequence[Backup], zone: ZoneInfo, *, base: str = ""
) -> RecoveryPlan:
    """The newest base whose log ends before the transaction, and the oldest later log that holds that whole.

    `base` names the one to start from instead of the newest. Raise NotFound when there is none of that name;
    NotRecoverable when it, or every one, holds the transaction already, or is of another log.
    """
    begin, end = position_of(target.transaction.start), position_of(target.transaction.end)
    bases = _bases(backups, base)
    if base and not bases:
        raise NotFound(f"there is no finished backup {base} to start from: see zbackup list")
    same_log = [b for b in bases if log_known(b.record) and b.record.log_id in target.logs]
    older = [b for b in same_log if position_of(b.record.log_to) <= begin]
    if not older:
        raise NotRecoverable(_why_none(target, now, backups, zone, base, contained=bool(same_log)))
    holders = [h for h in with_known_log(backups) if position_of(h.record.log_to) >= end]
    at = f"{target.name} cannot be the end of a restore"
    for start in sorted(older, key=_reaching, reverse=True):
        if reaching := [h for h in holders if continues(h, start)]:
            log = min(reaching, key=lambda h: h.createtxg)
            require_whole_log(start, log, backups, at)
            return RecoveryPlan(base=start, log=log, reason=_reason(start, log, asked=bool(base)))
    newest = max(older, key=_reaching)
    require_whole_log(newest, None, backups, at)
    return RecoveryPlan(base=newest, log=None, reason=_reason(newest, None, asked=bool(base)))


def plan_unseen(name: TransactionName, backups: Sequence[Backup], *, base: str = "") -> RecoveryPlan:
    """The same by records alone, where the log is out of sight: the transaction has yet to be found in it.

    A record's GTIDs may lack the last ones that are inside (Record.gtid), so the base may prove too new
    afterwards. Raise NotFound and NotRecoverable as plan_before does.
    """
    bases = [b for b in _bases(backups, base) if log_known(b.record)]
    if base and not bases:
        raise NotFound(f"there is no finished backup {base} to start from")
    holders = [h for h in with_known_log(backups) if may_contain(h, name)]
    older = [b for b in bases if not may_contain(b, name)]
    pairs = [(b, h) for b in older for h in holders if continues(h, b) and not first_break(b, h, backups)]
    logs = {b.record.log_id for b, _ in pairs}
    if len(logs) > 1:
        raise NotRecoverable(
            f"{name} is in {len(logs)} logs: say which with --base, the backup to start from"
        )
    if not pairs:
        raise NotRecoverable(_why_unseen(name, bases, holders, base, contained=not older))
    newest = max((b for b, _ in pairs), key=_reaching)
    log = min((h for b, h in pairs if b is newest), key=lambda h: h.createtxg)
    return RecoveryPlan(base=newest, log=log, reason=_reason(newest, log, asked=bool(base)))


def _bases(backups: Sequence[Backup], base: str) -> list[Backup]:
    """List the bases; where there is none from which a log leads on, the others, of which one tells why."""
    found = [b for b in moment_bases(backups) if not base]
    return found or [b for b in usable_bases(backups) if base in ("", b.name)]


def may_contain(backup: Backup, name: TransactionName) -> bool:
    """Whether the transaction is inside, as far as the record tells."""
    if isinstance(name, Gtid):
        # Which GTIDs were archived, no listing tells.
        return ARCHIVED in backup.record.server or name.is_in(backup.record.gtid)
    base_name = name.file.rpartition(".")[0]
    return backup.record.log_to.startswith(f"{base_name}.") and position_of(
        backup.record.log_to
    ) > position_of(str(name))


def _why_unseen(
    name: TransactionName, bases: Sequence[Backup], holders: Sequence[Backup], base: str, *, contained: bool
) -> str:
    if not bases:
        return "there is no finished backup to start from"
    if isinstance(name, Gtid) and not any(b.record.gtid for b in bases):
        return f"no GTIDs were recorded with these backups: give FILE:POSITION instead of {name}"
    if not holders:
        last = max(bases, key=lambda b: b.createtxg).record
        return f"no backup there holds {name}: the newest ends at {last.log_to}, GTIDs {last.gtid or 'none'}"
    if contained:
        return f"{base or 'every backup there'} holds {name} already"
    return f"no backup there that is older than {name} leads to it without a gap in the log"


def _reaching(backup: Backup) -> tuple[Position, int]:
    return position_of(backup.record.log_to), backup.createtxg


def _widest(backup: Backup) -> tuple[Position, Position]:
    return position_of(backup.record.log_to), _leading_back(backup)


def _leading_back(backup: Backup) -> Position:
    return tuple(-number for number in position_of(backup.record.log_from))


def _why_none(
    target: BeforeTransaction,
    now: datetime,
    backups: Sequence[Backup],
    zone: ZoneInfo,
    base: str,
    *,
    contained: bool,
) -> str:
    at = f"{target.name}, committed {local_text(target.transaction.committed, zone)}"
    if base and contained:
        return f"{base} holds {at}, already: start from an older backup, or leave out --base"
    if base:
        return f"the log that {base} holds does not lead to {at}: see zbackup list for another"
    reachable = recovery_window(backups, None, now).overall
    if reachable is None:
        return "there is no finished backup to start from: run zbackup snapshot first"
    why = "no backup is that old" if contained else "no backup leads there"
    return f"{why}: {at}; the recovery window is {reachable.describe(zone)}"


def _reason(base: Backup, log: Backup | None, *, asked: bool) -> str:
    newest = f"{base.name} is the newest backup before the transaction"
    chosen = f"{base.name} was asked for" if asked else newest
    if log is None:
        return f"{chosen}; no later one holds it yet"
    return f"{chosen}, {log.name} the first that holds it"
