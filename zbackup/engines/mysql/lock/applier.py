"""A replica's applier is paused while a lock is held: the two can deadlock (MySQL bug 87489).

It runs again afterwards whatever happens to zbackup: a guardian process starts it when zbackup dies (see
applier_watchdog), and should the guardian die too, a marker file in the run directory tells the next zbackup
to. STOP cannot be taken back: tried on MySQL 9.7 and MariaDB 10.11, a KILL frees the client that waits for
it, but the server goes on stopping; a START then waits for that and starts the applier again.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from zbackup.config.lock import Lock
from zbackup.engines.marker_file import MarkerFile
from zbackup.engines.mysql.lock.restart_applier import start, statement
from zbackup.engines.mysql.lock.wait_limit import limited
from zbackup.engines.mysql.lock.watchdog_message import WatchOrder
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.server.connection import Connection, connect
from zbackup.engines.mysql.server.status import Channel, Dialect, channels, dialect
from zbackup.model.errors import CommandFailed, DatabaseError, LockNotTaken, Refused
from zbackup.model.event_log import log
from zbackup.proc.guardian import Guardian, start_guardian

WATCHDOG = "zbackup.engines.mysql.lock.applier_watchdog"

# For connecting, reading the position, releasing: everything between STOP and START that has no limit itself.
SLACK_S = 20.0
HEAL_LIMIT_S = 60.0


def marker_file(path: Path) -> MarkerFile[list[str]]:
    """Return the file that is there while the applier is stopped by us. It names the channels that ran."""
    return MarkerFile(
        path,
        "channels",
        lambda names: [str(name) for name in names],
        "delete it when the replica's applier runs",
    )


@contextmanager
def paused(options: ConnectOptions, limits: Lock, note: MarkerFile[list[str]]) -> Iterator[None]:
    """Stop the applier on all channels where it runs, and start it there again after the body.

    Raise LockNotTaken if it does not stop in time, Refused if it runs up to a wanted point, which would be
    forgotten, DatabaseError if it could not be started again.
    """
    limit_s = limits.applier_stop + SLACK_S
    with connect(replace(options, limit_s=limit_s)) as control:
        server = dialect(control)
        running = [channel for channel in channels(control, server) if channel.applier_running]
        if not running:
            yield
            return
        _require_endless(running)
        names = [channel.name for channel in running]
        ceiling = limits.applier_stop + limits.wait + limits.hold + SLACK_S
        control.keep_for(ceiling)
        order = WatchOrder(connect=options, channels=tuple(names), note=note.path, limit_s=ceiling)
        guardian = _guarded(order)
        try:
            note.write(names)
            _stop(options, control, server, names, limits.applier_stop)
            yield
            start(control, server, names)
            log.info("applier.started", channels=names)
            note.remove()
        except BaseException:
            if not guardian.act():
                _start_without_it(control, server, names, note)
            raise
        guardian.done()


def heal(options: ConnectOptions, note: MarkerFile[list[str]]) -> None:
    """Start the applier that a killed run left stopped. Raise DatabaseError when that cannot be done.

    With a server that cannot be reached there is nothing to be done: the note stays.
    """
    names = note.read()
    if names is None:
        return
    try:
        connection = connect(replace(options, limit_s=HEAL_LIMIT_S))
    except DatabaseError as failure:
        log.warning("applier.not_healed", reason=str(failure))
        return
    with connection:
        start(connection, dialect(connection), names)
    note.remove()
    log.warning("applier.healed", channels=names)


def _require_endless(running: Sequence[Channel]) -> None:
    for channel in running:
        if channel.until:
            raise Refused(
                f"the applier {channel.name} was started UNTIL {channel.until}, which stopping it for a lock "
                "would lose: wait for it, or use lock = backup-lock or none"
            )


def _guarded(order: WatchOrder) -> Guardian:
    try:
        guardian = start_guardian(WATCHDOG, order.to_line())
        guardian.ready()
    except CommandFailed as failure:
        raise LockNotTaken(f"the applier was not stopped, as its watchdog is not up: {failure}") from None
    return guardian


def _start_without_it(
    control: Connection, server: Dialect, names: Sequence[str], note: MarkerFile[list[str]]
) -> None:
    """The watchdog had died, or has given up. Where we fail as well, the next run finds the note."""
    try:
        start(control, server, names)
    except DatabaseError as failure:
        log.warning("applier.not_started", channels=names, reason=str(failure))
    else:
        note.remove()


def _stop(
    options: ConnectOptions, control: Connection, server: Dialect, names: Sequence[str], limit_s: float
) -> None:
    with connect(options) as session, limited(session, control, limit_s, "the applier did not stop"):
        for name in names:
            session.execute(statement("STOP", server, name))
            log.info("applier.stopped", channel=name)
