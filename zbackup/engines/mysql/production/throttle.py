"""Keeps a copy from getting in production's way: a rate, the replicas' lag, and how many statements run."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from zbackup.config.copying import CopyBack
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.server.connection import Connection, RowConnection, connect, whole_number
from zbackup.model.errors import DatabaseError
from zbackup.model.progress import Progress

# Set how long a server waits for zbackup: long where it holds nothing, and briefly where it holds locks.
#
# zbackup may be stopped (Ctrl-Z), or the way to it lost: nothing tells the server then (both manuals,
# "wait_timeout", "net_read_timeout").

PATIENT_S = 86_400
SILENT_S = 60
"""The longest that rows of production's own table stay locked where zbackup says nothing more."""

# A copy that waits must not lose its sessions. It never waits in the middle of a statement, or of a load's
# lines, while which the server holds locks.
PATIENCE = (
    f"SET SESSION wait_timeout = {PATIENT_S}, net_write_timeout = {PATIENT_S}, net_read_timeout = {SILENT_S}"
)


@contextmanager
def ended_if_silent(session: RowConnection) -> Iterator[None]:
    """Let the server end the session, and with it its transaction, SILENT_S after it last heard of it.

    The body ends its transaction. When it raises, its session is done with, or gives that up to try again.
    """
    session.write(b"SET SESSION wait_timeout = %d" % SILENT_S)
    yield
    session.write(b"SET SESSION wait_timeout = %d" % PATIENT_S)


ASK_EVERY_S = 1.0
ANSWER_LIMIT_S = 20.0
"""Seconds for a replica to say how it stands."""


@dataclass(slots=True)
class Throttle:
    """Asked before each transaction of a copy: it waits while one of the `rules` is broken. `replicas` are
    those whose lag counts. `sleep` and `now` are the clock's."""

    production: Connection
    rules: CopyBack
    progress: Progress
    replicas: tuple[ConnectOptions, ...] = ()
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.monotonic
    _asked: float = field(default=float("-inf"))
    _since: float = field(default=0.0)
    _bytes: int = 0
    _told: set[str] = field(default_factory=set)

    @property
    def may_wait(self) -> bool:
        """Whether `wait` may take long: it looks at production, or keeps a rate."""
        return bool(self.rules.rate) or self._is_due

    def wait(self, size: int = 0, *, looks: bool = True) -> None:
        """Return when the next transaction may be sent; `size` bytes were sent since. Without `looks`, it
        is not the time to look at production, even if it is due by now."""
        self._keep_rate(size)
        if not looks or not self._is_due:
            return
        while why := self._too_much():
            if why not in self._told:
                self._told.add(why)
                self.progress.note(f"waiting: {why}")
            self.sleep(ASK_EVERY_S)
        self._asked = self.now()

    @property
    def _is_due(self) -> bool:
        return self.now() - self._asked >= ASK_EVERY_S

    def _keep_rate(self, size: int) -> None:
        if not self.rules.rate:
            return
        now = self.now()
        self._since = self._since or now
        self._bytes += size
        if (ahead := self._bytes / self.rules.rate - (now - self._since)) > 0:
            self.sleep(ahead)

    def _too_much(self) -> str:
        running = whole_number(self.production.one("SHOW GLOBAL STATUS LIKE 'Threads_running'"), "Value")
        if running > self.rules.max_running:
            return f"more than {self.rules.max_running} statements run in production"
        for replica in self.replicas:
            if (lag := self._lag(replica)) is not None and lag > self.rules.max_lag:
                return f"the replica {replica.where} is more than {self.rules.max_lag:g} s behind"
        return ""

    def _lag(self, replica: ConnectOptions) -> float | None:
        """Seconds; infinite for one that stands still, None for one that cannot be asked."""
        try:
            with connect(replace(replica, limit_s=ANSWER_LIMIT_S)) as connection:
                return worst_lag(connection.rows(status_of_replica(connection.version)))
        except DatabaseError as failure:
            if replica.where not in self._told:
                self._told.add(replica.where)
                self.progress.note(f"the lag of {replica.where} is not known: {failure}")
            return None


def status_of_replica(version: str) -> str:
    """The statement for a server of that version; MariaDB's lists all sources."""
    return "SHOW ALL SLAVES STATUS" if "mariadb" in version.lower() else "SHOW REPLICA STATUS"


def worst_lag(rows: Sequence[dict[str, object]]) -> float | None:
    """The lag behind the source that is farthest ahead; None for a server that follows nobody."""
    found = [row.get("Seconds_Behind_Source", row.get("Seconds_Behind_Master")) for row in rows]
    return max((float("inf") if lag is None else float(str(lag)) for lag in found), default=None)
