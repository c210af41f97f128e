"""Handle a job that ended: the job table, the journal, the metrics and systemd know of it."""

from zbackup.daemon.job_table import Ended, JobTable, Key
from zbackup.daemon.metrics import Metrics
from zbackup.daemon.sd_notify import Notifier
from zbackup.jobs.backup.snapshot import SnapshotReport
from zbackup.jobs.cleanup.cleanup import Reconciled
from zbackup.jobs.job_history import MOST_SAID, JobHistory
from zbackup.jobs.journal import JobState, Journal
from zbackup.jobs.watch.status import InstanceStatus
from zbackup.model.errors import Refused
from zbackup.model.event_log import log
from zbackup.model.finding import Severity
from zbackup.model.printable import printable
from zbackup.model.run import JobRun, Result
from zbackup.model.schedule import Due, Outcome
from zbackup.plan.due import History


class EventHandler:
    """Belongs to the daemon's main thread."""

    def __init__(self, job_table: JobTable, journal: Journal, metrics: Metrics, notifier: Notifier) -> None:
        self._job_table, self._journal, self._metrics, self._notifier = job_table, journal, metrics, notifier
        self._health: dict[str, Severity] = {}
        self._broken: dict[str, tuple[tuple[str, ...], bool]] = {}
        self._writable = True

    def of(self, ended: Ended) -> None:
        """Take in how a job ended."""
        outcome, report = ended.outcome, ended.report
        match report:
            case Reconciled():
                self._job_table.learn((outcome.instance, "snapshot"), report.last)
            case SnapshotReport():
                self._metrics.snapshot(report)
            case InstanceStatus():
                self._metrics.watched(report)
                self._note_window(report)
                self._note_health(report)
        if outcome.job == "watch" and outcome.error:
            # As notifications have it. That the job failed is in the log.
            self._metrics.unseen(outcome.instance)
            self._health[outcome.instance] = "critical"
        self._job_table.ended(outcome)
        self._metrics.ended(outcome)
        self._remember(outcome)

    def write(self) -> None:
        """Write down what is known now, for the next start and for zbackup status."""
        histories, due = self._job_table.histories(), self._job_table.due()
        self._metrics.planned(histories, due)
        self._notifier.status(self._summary())
        try:
            outcomes = self._job_table.outcomes()
            self._journal.write(
                _row(key, history, due.get(key), outcomes.get(key)) for key, history in histories.items()
            )
        except (OSError, Refused) as failure:
            if self._writable:
                log.warning("journal.not_written", file=str(self._journal.path), reason=str(failure))
            self._writable = False
        else:
            self._writable = True

    def _remember(self, outcome: Outcome) -> None:
        """For who asks how it went. Nothing depends on it."""
        result: Result = "failed" if outcome.error else "postponed" if outcome.postponed else "done"
        run = JobRun(
            instance=outcome.instance,
            job=outcome.job,
            began=outcome.started,
            seconds=round(outcome.seconds, 3),
            result=result,
            message=printable(outcome.message, lines=True)[:MOST_SAID],
        )
        try:
            JobHistory(self._journal.state_dir).add(run)
        except (OSError, Refused) as failure:
            if self._writable:
                log.warning("history.not_written", reason=str(failure))

    def _note_window(self, status: InstanceStatus) -> None:
        """A promise that is not kept is an event of its own, also for an instance that was ill before."""
        before = self._broken.get(status.instance, ((), False))
        found = (status.gaps, bool(status.lost))
        self._broken[status.instance] = found
        if found == before:
            return
        if found == ((), False):
            log.info("window.kept", instance=status.instance)
            return
        lacking = round(status.lost.total_seconds())
        log.error("window.not_kept", instance=status.instance, gaps=status.gaps, lacking_s=lacking)

    def _note_health(self, status: InstanceStatus) -> None:
        """Say it when it changes: who reads the journal must not have to look for it."""
        before = self._health.get(status.instance, "ok")
        self._health[status.instance] = status.health
        if status.health == before:
            return
        said = [f"{f.severity}: {f.subject}: {f.text}" for f in status.findings]
        tell = {"ok": log.info, "warning": log.warning, "critical": log.error}[status.health]
        tell("health.changed", instance=status.instance, health=status.health, before=before, findings=said)

    def _summary(self) -> str:
        """One line for `systemctl status`."""
        histories = self._job_table.histories()
        names = {key[0] for key in histories}
        failing = sorted({":".join(key) for key, history in histories.items() if history.failures})
        critical, warning = (
            sorted(name for name, health in self._health.items() if health == state and name in names)
            for state in ("critical", "warning")
        )
        return f"{len(names)} instance{'s' * (len(names) != 1)}" + "".join(
            f"; {what}: {', '.join(which)}"
            for what, which in (("failing", failing), ("critical", critical), ("warning", warning))
            if which
        )


def _row(key: Key, history: History, due: Due | None, outcome: Outcome | None) -> JobState:
    instance, job = key
    return JobState(
        instance=instance,
        job=job,
        last=history.last,
        failures=history.failures,
        failed=history.failed,
        seconds=outcome.seconds if outcome else None,
        error=history.error,
        message=history.message,
        next=due.at if due else None,
        why=due.reason if due else "",
    )
