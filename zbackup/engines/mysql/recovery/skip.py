"""Leave one transaction out of a replay.

MySQL's applier passes over a GTID that its server has already (MySQL reference manual, "Injecting empty
transactions"). MariaDB's replay goes by positions, so it is made in two parts.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from zbackup.engines.mysql.binlog.find_stop import StopPoint
from zbackup.engines.mysql.binlog.position import LogPosition
from zbackup.engines.mysql.recovery.replay import LogRange
from zbackup.engines.mysql.server.connection import Connection
from zbackup.engines.mysql.sql.quoting import literal
from zbackup.model.errors import Refused, VerificationFailed
from zbackup.model.log import Transaction


@dataclass(frozen=True, slots=True)
class Hole:
    """A transaction that is not applied, from `start` to `end`."""

    subject: Transaction
    start: LogPosition
    end: LogPosition

    @classmethod
    def of(cls, subject: Transaction, begin: LogPosition, point: StopPoint) -> "Hole":
        """The hole in a replay from `begin` to the stop point. Raise Refused unless it lies within."""
        start, end = LogPosition.parse(subject.start), LogPosition.parse(subject.end)
        name = subject.gtid or subject.start
        if start < begin:
            raise Refused(f"the base holds {name} already: start from an older one (--base)")
        if end > point.stop:
            raise Refused(f"{name} is not before the target anyway: leave out --skip")
        if end == point.stop:
            raise Refused(f"{name} is the last before the target: use --before {name} instead of --skip")
        return cls(subject, start, end)

    def fill(self, connection: Connection) -> None:
        """Put an empty transaction in its place."""
        for statement in (
            f"SET SESSION gtid_next = {literal(self.subject.gtid)}",
            "BEGIN",
            "COMMIT",
            "SET SESSION gtid_next = 'AUTOMATIC'",
        ):
            connection.execute(statement)

    def around(self, span: LogRange) -> Iterator[LogRange]:
        """The parts that are replayed before it, and behind it; nothing where there is no transaction."""
        names = [file.name for file in span.files]
        at = names.index(self.start.file)
        if span.start != self.start:
            yield replace(span, files=span.files[: at + 1], stop=self.start, ends_file=False)
        yield replace(span, files=span.files[at:], start=self.end)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Say of a replay that fails what is missing there."""
        try:
            yield
        except VerificationFailed as failure:
            name = self.subject.gtid or self.subject.start
            raise VerificationFailed(
                f"what follows {name} cannot be applied without it ({failure}): restore --before it, and "
                "bring back what is needed with zbackup copy"
            ) from failure
