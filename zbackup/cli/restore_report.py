"""Render the report of a restore, planned or done: as JSON and for people."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from zbackup.cli import json_shapes, tables
from zbackup.cli.output import plain
from zbackup.jobs.restore.make_plan import RestorePlan
from zbackup.jobs.restore.restore import RestoreReport
from zbackup.model.errors import ClockAccepted, OtherSettings, OtherZone
from zbackup.model.log import ClusterTime, Transaction, how_many
from zbackup.model.moment import Moment, local_text
from zbackup.model.progress import Phase
from zbackup.model.proof import Proof
from zbackup.model.recovery import LeftOut, Recovered, ReplayRange
from zbackup.model.target import BackupAsItIs, BeforeTransaction, RestoreTarget, UnseenTransaction


@dataclass(frozen=True, slots=True)
class Asked:
    """The instance and the target that were asked for, to say them back, with times in `zone`."""

    instance: str
    zone: ZoneInfo
    target: RestoreTarget

    @property
    def moment(self) -> Moment:
        """The target as a moment."""
        if isinstance(self.target, Moment):
            return self.target
        text = str(self.target) if isinstance(self.target, ClusterTime) else str(self.target.name)
        return Moment(self.target.at, text, self.zone)

    @property
    def before(self) -> str:
        """The name of the transaction before which the restore ends, "" if it ends elsewhere."""
        is_transaction = isinstance(self.target, UnseenTransaction | BeforeTransaction)
        return self.moment.text if is_transaction else ""


def exit_status(done: RestorePlan | RestoreReport) -> int:
    """Tell the status of a restore that is made, or planned, and not surely what was asked for; else 0."""
    if done.clock_accepted:
        return ClockAccepted.exit_status
    if not isinstance(done, RestoreReport):
        return 0
    if done.recovered.other_zone:
        return OtherZone.exit_status
    others = done.recovered.other_settings or done.recovered.other_tables
    return OtherSettings.exit_status if others else 0


def plan_shape(asked: Asked, plan: RestorePlan) -> dict[str, Any]:
    return {"dry_run": True, "clock_accepted": plan.clock_accepted} | _common_shape(asked, plan, plan.replay)


def report_shape(asked: Asked, report: RestoreReport) -> dict[str, Any]:
    recovered = report.recovered
    return (
        {"dry_run": False, "clock_accepted": report.clock_accepted}
        | _common_shape(asked, report.plan, report.replay)
        | {
            "recovered": {
                "last_applied": json_shapes.transaction(recovered.last_applied),
                "first_skipped": json_shapes.transaction(recovered.first_skipped),
                "position": recovered.position,
                "gtid": recovered.gtid,
                "base_exact": recovered.base_exact,
            },
            "proof": _proof_shape(report.proof),
            "other_zone": recovered.other_zone or None,
            "other_settings": recovered.other_settings or None,
            "other_tables": recovered.other_tables or None,
            "socket": report.socket,
            "port": report.clone.port or None,
            "read_only": report.clone.read_only,
            "replica_set": report.clone.replica_set or None,
            "member": _member_shape(report),
            "connect": report.connect,
            "phases": json_shapes.phases(report.phases),
        }
    )


def _proof_shape(proof: Proof | None) -> dict[str, Any] | None:
    return {"proved": proof.result == "proved", "seen": proof.text} if proof else None


def _member_shape(report: RestoreReport) -> dict[str, Any] | None:
    """The member of a sharded cluster as JSON; None outside of one."""
    told = report.recovered.member
    if not report.clone.role or not told:
        return None
    return {"role": report.clone.role, "cluster_id": told.cluster, "address": report.clone.address}


def _common_shape(asked: Asked, plan: RestorePlan, replay: ReplayRange | None) -> dict[str, Any]:
    target = asked.target
    foreign = target.name if isinstance(target, BackupAsItIs) and target.foreign else None
    return {
        "instance": asked.instance,
        "target": plain(asked.moment),
        "cluster_time": str(asked.target) if isinstance(asked.target, ClusterTime) else None,
        "before": asked.before or None,
        "to_backup": plan.base.name if plan.as_it_is and not foreign else None,
        "foreign": foreign,
        "clone": plan.name,
        "base": json_shapes.backup(plan.base),
        "log": json_shapes.backup(plan.log) if plan.log else None,
        "reason": plan.reason,
        "warnings": list(plan.warnings),
        "fetch": plan.fetch,
        "left_out": _left_out_shape(plan.left_out) if plan.left_out else None,
        "replay": {
            "transactions": replay.transactions,
            "log_bytes": replay.log_bytes,
            "out_of_order": replay.out_of_order,
            "effective_target": plain(replay.effective_target),
            "last_applied": json_shapes.transaction(replay.last_applied),
            "first_skipped": json_shapes.transaction(replay.first_skipped),
            "later": {
                "first_skipped": json_shapes.transaction(replay.later.first_skipped),
                "transactions": replay.later.transactions,
            }
            if replay.later
            else None,
        }
        if replay
        else None,
    }


def _left_out_shape(subject: LeftOut) -> dict[str, Any]:
    return {
        "transaction": json_shapes.transaction(subject.transaction),
        "tables": list(subject.tables),
        "later": subject.later,
        "first": [json_shapes.transaction(each) for each in subject.first],
    }


def render_plan(asked: Asked, plan: RestorePlan) -> str:
    """The plan for people. Nothing of it has been done."""
    rows = _plan_rows(asked, plan) + _replay_rows(plan, plan.replay, "would replay")
    if plan.replay and not plan.as_it_is:
        rows += _end_rows(plan.replay, asked.zone)
    rows.append(("clone", f"{plan.name} would be made"))
    return _sheet(f"Plan for {headline(asked)}", rows, _remarks(asked, plan, plan.replay))


def render_report(asked: Asked, report: RestoreReport) -> str:
    """What was done, and how to reach the result."""
    rows = _plan_rows(asked, report.plan) + _replay_rows(report.plan, report.replay, "replayed")
    if not report.plan.as_it_is:
        rows += _end_rows(report.recovered, asked.zone)
    rows += [
        *([("seen", report.proof.text)] if report.proof else []),
        ("position", report.recovered.position or "none: it keeps no log"),
        *([] if _is_mongodb(report.plan) else [("GTIDs", report.recovered.gtid or "none")]),
        ("clone", report.plan.name + (", read only" if report.clone.read_only else "")),
        *([("replica set", report.clone.replica_set)] if report.clone.replica_set else []),
        *_member_rows(report),
        ("socket", report.socket),
        *([("port", f"127.0.0.1:{report.clone.port}")] if report.clone.port else []),
        *([("took", _took(report.phases))] if report.phases else []),
    ]
    remarks = _remarks(asked, report.plan, report.replay)
    told = report.recovered
    others = (told.other_zone, told.other_settings, told.other_tables)
    remarks += [f"warning: {why}" for why in others if why]
    text = _sheet(f"Restored {headline(asked)}", rows, remarks)
    return f"{text}\n\nConnect with:\n  {report.connect}"


def _member_rows(report: RestoreReport) -> list[tuple[str, str]]:
    told = report.recovered.member
    if not report.clone.role or not told:
        return []
    return [("address", report.clone.address), ("cluster", f"{told.cluster}, on every host the same")]


def headline(asked: Asked) -> str:
    moment = asked.moment.describe()
    match asked.target:
        case ClusterTime():
            return f"{asked.instance} as of cluster time {asked.target}, within {moment}"
        case BeforeTransaction():
            return f"{asked.instance} before {asked.target.name}, committed {moment}"
        case UnseenTransaction():
            return f"{asked.instance} before {asked.target.name}, which was committed before {moment}"
        case BackupAsItIs(foreign=True):
            return f"{asked.instance} from {asked.target.name}, taken {moment}: crash-consistent"
        case BackupAsItIs():
            return f"{asked.instance} as it is in {asked.target.name}, whose data reaches to {moment}"
        case Moment():
            return f"{asked.instance} as of {moment}"


def _took(phases: Sequence[Phase]) -> str:
    each = ", ".join(f"{phase.name} {tables.length(phase.seconds)}" for phase in phases)
    return f"{tables.length(sum(phase.seconds for phase in phases))}: {each}"


def _is_mongodb(plan: RestorePlan) -> bool:
    return plan.base.record.engine == "mongodb"


def _plan_rows(asked: Asked, plan: RestorePlan) -> list[tuple[str, str]]:
    zone = asked.zone
    as_of = plan.base.record.as_of
    log = plan.log.name if plan.log else "a snapshot to be taken now"
    what = "data" if plan.base.record.blockers else "last transaction"
    return [
        ("base", plan.base.name + (f" ({what} {local_text(as_of, zone)})" if as_of else "")),
        *([] if plan.as_it_is else [("log from", log)]),
        *([("to fetch", tables.size(plan.fetch))] if plan.fetch else []),
    ]


def _replay_rows(plan: RestorePlan, replay: ReplayRange | None, replayed: str) -> list[tuple[str, str]]:
    if plan.as_it_is:
        return [(replayed, "nothing")]
    if replay is None:
        when = "the oplogs are opened, on clones" if _is_mongodb(plan) else "the log is here"
        return [(replayed, f"known only when {when}")]
    words = ("oplog entry", "oplog entries") if _is_mongodb(plan) else ("transaction", "transactions")
    counted = how_many(replay.transactions, *words)
    return [(replayed, f"{counted}, {tables.size(replay.log_bytes)} of log")]


def _end_rows(end: ReplayRange | Recovered, zone: ZoneInfo) -> list[tuple[str, str]]:
    """Where the replay stops: the last transaction that is in, and the first that is not."""
    return [
        ("last applied", _transaction(end.last_applied, zone) or "none: the base is the newest state before"),
        ("first skipped", _transaction(end.first_skipped, zone) or "none: the log ends before"),
    ]


def _transaction(subject: Transaction | None, zone: ZoneInfo) -> str:
    if subject is None:
        return ""
    gtid = f", GTID {subject.gtid}" if subject.gtid else ""
    what = f", {subject.what}" if subject.what else ""
    return f"{local_text(subject.committed, zone)}, {_span(subject)}{gtid}{what}"


def _span(subject: Transaction) -> str:
    """From where to where it stands in the log; what both positions begin with is said once."""
    if subject.start == subject.end:
        return subject.start
    within = subject.start.rpartition(":")[0] + ":"
    return f"{subject.start} to {subject.end.removeprefix(within)}"


def _remarks(asked: Asked, plan: RestorePlan, replay: ReplayRange | None) -> list[str]:
    found = [plan.reason, *([str(plan.left_out)] if plan.left_out else [])]
    if replay is None:
        return found
    effective = replay.effective_target
    if effective < asked.moment.at:
        found.append(
            f"the log knows whole seconds only, so the replay stops at {local_text(effective, asked.zone)}"
        )
    if replay.later:
        more = how_many(replay.later.transactions - replay.transactions)
        found.append(
            f"warning: the log's times are disputed, and were accepted: the stop point may be {more} later"
        )
    return found + [f"warning: {text}" for text in plan.warnings]


def _sheet(title: str, rows: list[tuple[str, str]], remarks: list[str]) -> str:
    body = tables.aligned([[f"  {key}", value] for key, value in rows])
    return "\n".join([title, body, *(f"  {remark}" for remark in remarks)])
