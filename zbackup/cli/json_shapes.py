"""The documented JSON shapes of what ZFS and the databases know (docs/reference/json.md)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from zbackup.cli.output import plain
from zbackup.jobs.clones.lifecycle import CloneStatus
from zbackup.model.backup import Backup
from zbackup.model.clone import Clone
from zbackup.model.drill import DrillVerdict
from zbackup.model.finding import Finding
from zbackup.model.log import Transaction
from zbackup.model.operator_notes import Acknowledgement, Problem
from zbackup.model.progress import Phase
from zbackup.plan.clones.lease import end_of


def unreadable(found: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"snapshot": snapshot, "problem": problem} for snapshot, problem in found]


def unreadable_clones(found: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"dataset": dataset, "problem": problem} for dataset, problem in found]


def unreadable_lines(found: Sequence[tuple[str, str]]) -> list[str]:
    """The same for people."""
    return [f"{snapshot} cannot be read: {problem}" for snapshot, problem in found]


def backup(subject: Backup) -> dict[str, Any]:
    record = subject.record
    values = {
        "backup": record.backup,
        "name": subject.name if subject.snapshots else None,
        "instance": record.instance,
        "engine": record.engine,
        "server_version": record.server_version,
        "server_uuid": record.server_uuid,
        "role": record.role,
        "purpose": record.purpose,
        "label": record.label or None,
        "keep_until": record.keep_until,
        "taken": record.taken,
        "as_of": record.as_of,
        "complete_to": record.complete_to,
        "position": record.position or None,
        "gtid": record.gtid,
        "lock": record.lock,
        "lock_wait_ms": record.lock_wait_ms,
        "lock_held_ms": record.lock_held_ms,
        "complete": subject.complete,
        "finished": subject.finished,
        "used": sum(s.used for s in subject.snapshots),
        "written": sum(s.written for s in subject.snapshots),
        "snapshots": [
            {
                "dataset": s.dataset,
                "name": s.name,
                # 64 bits: as a number it would lose digits in many a JSON reader.
                "guid": str(s.guid),
                "created": s.created,
                "used": s.used,
                "written": s.written,
                "holds": s.holds,
                "clones": s.clones,
            }
            for s in subject.snapshots
        ],
    }
    return {key: plain(value) for key, value in values.items()}


def verdict(subject: DrillVerdict | None) -> dict[str, Any] | None:
    if subject is None:
        return None
    values = {
        "backup": subject.backup,
        "name": subject.name,
        "passed": subject.passed,
        "at": subject.at,
        "to": subject.to,
        "transactions": subject.transactions,
        "tables": subject.tables,
        "unchecked": subject.unchecked or 0,
        "seconds": subject.seconds,
        "why": subject.why or None,
    }
    return {key: plain(value) for key, value in values.items()}


def transaction(subject: Transaction | None) -> dict[str, Any] | None:
    if subject is None:
        return None
    return {
        "gtid": subject.gtid,
        "start": subject.start,
        "end": subject.end,
        "committed": plain(subject.committed),
        "what": subject.what,
    }


def phases(found: Sequence[Phase]) -> list[dict[str, Any]]:
    return [{"phase": phase.name, "seconds": round(phase.seconds, 3)} for phase in found]


def finding(subject: Finding) -> dict[str, Any]:
    return {
        "severity": subject.severity,
        "subject": subject.subject,
        "text": subject.text,
        "why": subject.why or None,
        "fix": subject.fix or None,
        "exit_status": subject.exit_status,
        "key": subject.key or None,
        "acknowledged": subject.acknowledged,
    }


def acknowledgement(subject: Acknowledgement | None) -> dict[str, Any] | None:
    if subject is None:
        return None
    return {
        "until": plain(subject.until),
        "reason": subject.reason,
        "problems": pairs(subject.problems),
    }


def pairs(problems: Sequence[Problem]) -> list[tuple[str, str]]:
    """Severity and subject of each; the findings have the key."""
    return [(p.severity, p.subject) for p in problems]


def clone(subject: CloneStatus) -> dict[str, Any]:
    facts = subject.clone
    values = {
        "name": facts.name,
        "instance": facts.instance,
        "engine": facts.engine,
        "kind": facts.kind,
        "state": facts.state,
        "running": subject.running,
        "created": facts.created,
        "snapshot": facts.backup,
        "target": target_of(facts),
        "reached": facts.reached,
        "dataset": subject.dataset,
        "used": subject.used,
        "socket": subject.socket,
        "port": facts.port or None,
        "read_only": facts.read_only,
        "connect": subject.connect,
        "user": facts.login or None,
        "password_file": subject.password,
        "own_root": facts.own_root,
        "lease_ends": end_of(facts),
        "protected_until": datetime.fromisoformat(facts.protected) if facts.protected else None,
        "parent": facts.parent or None,
        "masked": facts.masked,
        "copied": facts.copied,
        "start": "boot" if facts.on_boot else "never",
    }
    return {key: plain(value) for key, value in values.items()}


def target_of(subject: Clone) -> datetime | None:
    """The moment a clone was recovered to."""
    return datetime.fromisoformat(subject.target) if subject.target else None
