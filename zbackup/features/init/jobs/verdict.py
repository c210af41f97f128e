"""Wait for the daemon's own verdict: root's backup and drill say nothing of what a user without root may."""

import grp
import os
import pwd
import time
from collections.abc import Iterator

from zbackup.clock import Clock
from zbackup.config.settings import Instance, Settings
from zbackup.features.init.jobs import host
from zbackup.features.init.plan.verdict import DaemonVerdict, JobSeen, lacking, needed, of_jobs
from zbackup.jobs.journal import JobState, Journal
from zbackup.model.command_line import command_line
from zbackup.model.errors import CommandFailed, Refused, ZbackupError
from zbackup.model.progress import Progress
from zbackup.proc.run import run

LIMIT_S = 120.0
"""It looks at once when it is started; a cleanup of what was left unfinished comes first."""
PAUSE_S = 0.25
SEE = "see journalctl -u zbackup"


def verdict(settings: Settings, clock: Clock, progress: Progress) -> Iterator[ZbackupError]:
    """List what keeps the daemon, which runs under systemd, from its work. Raise CommandFailed when systemd
    cannot be asked. `progress` hears which instances are waited for until the daemon has looked at them."""
    scheduled = [each for each in settings.instance.values() if each.schedule.snapshot is not None]
    without = [problem for each in scheduled for problem in _rights(each)]
    yield from without
    if not without:
        yield from _jobs(settings, scheduled, clock, progress)


def _rights(instance: Instance) -> Iterator[ZbackupError]:
    """List the rights on the instance's datasets that the daemon's user lacks."""
    user = host.service_user()
    names = _names(user)
    if "root" in names:
        return
    wanted = needed(prunes=instance.schedule.prune is not None, ships=bool(instance.ship))
    for dataset in instance.datasets:
        try:
            said = run(("zfs", "allow", dataset), mutates=False, timeout=host.ASK_LIMIT_S)
        except CommandFailed as unasked:  # a dataset that is gone keeps nobody from being told of the others
            yield unasked
            continue
        if missing := lacking(said, dataset, names, wanted):
            yield Refused(
                f"{instance.name}: the daemon's user {user} lacks rights on {dataset} "
                f"({', '.join(missing)}): "
                f"{command_line('zfs', 'allow', '-u', user, ','.join(wanted), dataset)}"
            )


def _names(user: str) -> tuple[str, ...]:
    try:
        found = pwd.getpwnam(user)
    except KeyError:
        return (user,)
    groups = os.getgrouplist(found.pw_name, found.pw_gid)
    return (user, *(group.gr_name for group in grp.getgrall() if group.gr_gid in groups))


def _jobs(
    settings: Settings, scheduled: list[Instance], clock: Clock, progress: Progress
) -> Iterator[ZbackupError]:
    """List the daemon's own jobs that fail, once it has looked at every instance."""
    journal, until = Journal(settings.daemon.state_dir), time.monotonic() + LIMIT_S
    told: list[str] = []
    while True:
        runs, rows, since = host.is_active(), journal.read(), host.service_started(clock)
        found = {
            each.name: of_jobs((_seen(row) for row in rows if row.instance == each.name), since)
            for each in scheduled
        }
        waiting = [name for name, one in found.items() if one.state == "waiting"]
        if not (runs and waiting) or time.monotonic() > until:
            break
        if waiting != told:
            told = waiting
            progress.phase(
                f"waiting until the daemon has inspected {', '.join(told)}", f"at most {LIMIT_S:.0f} s"
            )
        time.sleep(PAUSE_S)
    progress.phase("")
    if not runs:
        yield ZbackupError(f"the daemon has ended, and nothing is done on schedule: {SEE}")
        return
    for name, one in found.items():
        yield from _told(name, one)


def _told(name: str, one: DaemonVerdict) -> Iterator[ZbackupError]:
    if one.state == "fails":
        yield Refused(f"{name}: the daemon cannot do its work: {one.why}; {SEE}")
    elif one.state == "waiting":
        yield ZbackupError(f"{name}: the daemon has not inspected it within {LIMIT_S:.0f} s: {SEE}")


def _seen(row: JobState) -> JobSeen:
    return JobSeen(job=row.job, last=row.last, failed=row.failed, failures=row.failures, message=row.message)
