"""A base, a log that goes on behind it, and a recovery from the two, with a server in memory."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.unit.engines.binlog.builder import Builder, Written
from tests.unit.engines.mysql.applying import Applying, Notes
from tests.unit.engines.mysql.applying_mariadb import ApplyingMariaDB, listen_anywhere
from tests.unit.engines.mysql.test_recovery_of_files import NOW, Log, moment, record
from zbackup.config.recovery import RecoverySettings as RecoveryTable
from zbackup.engines.mysql.recovery import replay, replication_source
from zbackup.engines.mysql.recovery.recover import MysqlRecovery
from zbackup.model.log import Transaction
from zbackup.model.proof import ProofSubject
from zbackup.model.recovery import Recovered, RecoveryFiles, Serving
from zbackup.model.target import Stop, Time, WholeLog

Flavor = Literal["mysql", "mariadb"]
SECOND = 1_000_000
SERVING = Serving(port=3307)
ALL = WholeLog(moment(9_000 * SECOND))


def until(second: int) -> Time:
    return Time(moment(second * SECOND))


class Story:
    """A log of which a base holds the beginning, and another backup more; and a recovery from the two.

    `beside`: the clone of the log is beside the base's, and its server may work on it.
    """

    def __init__(
        self, room: Path, monkeypatch: pytest.MonkeyPatch, flavor: Flavor = "mysql", *, checksum: bool = True
    ) -> None:
        self.room, self.flavor, self.log = room, flavor, Log(room)
        self.checksum = checksum
        self.log.files = {1: self._file()}
        self.recovery = MysqlRecovery(flavor=flavor, table=RecoveryTable(workers=1))
        self.servers: list[Applying] = []
        self.progress = Notes()
        self.beside = False
        self.given: dict[str, Any] = {}
        monkeypatch.setattr(MysqlRecovery, "_server", self._server)
        monkeypatch.setattr(replication_source, "listen_beside", listen_anywhere)
        monkeypatch.setattr(replay, "POLL_S", 0.0)

    def commit(self, *seconds: int) -> None:
        for one in seconds:
            self.log.number += 1
            newest = self.log.files[max(self.log.files)]
            if self.flavor == "mysql":
                newest.mysql(NOW + one * SECOND, self.log.number)
            else:
                newest.maria(NOW // SECOND + one, self.log.number)

    def rotate(self) -> None:
        newest = max(self.log.files)
        self.log.files[newest].rotate(f"binlog.{newest + 1:06}")
        self.begin_file()

    def begin_file(self) -> None:
        self.log.files[max(self.log.files) + 1] = self._file()

    def _file(self) -> Builder:
        return Builder(mariadb=self.flavor == "mariadb", checksum=self.checksum)

    def begin(self, **facts: str) -> None:
        """The base is taken here."""
        self.base = self.files("base", **facts)
        self.held = [each.gtid for each in self.written]

    def files(self, name: str, **facts: str) -> RecoveryFiles:
        where = self.log.copy(name)
        home = self.room / f"home of {name}"
        home.mkdir()
        held = replace(record(self.log.end(), engine=self.flavor), gtid="")
        held = replace(held, server=held.server | facts)
        return RecoveryFiles(record=held, where=where, home=home, run=self.room / "run", hide=("/hidden",))

    def _server(self, files: RecoveryFiles) -> Any:
        kind = Applying if self.flavor == "mysql" else ApplyingMariaDB
        self.servers.append(kind(files, held=[*self.held], **self.given))
        return self.server

    def recover(
        self,
        stop: Stop = ALL,
        skip: Transaction | None = None,
        proves: ProofSubject | None = None,
        **given: Any,
    ) -> Recovered:
        """`given` is what the server is from the beginning."""
        self.given = given
        self.source = self.files("log")
        base = self.base
        if self.beside:
            base = replace(base, beside=(base.home, self.source.home))
        return self.recovery.recover(
            base, self.source, stop, SERVING, self.progress, skip=skip, proves=proves
        )

    @property
    def server(self) -> Any:
        """The one that was started last."""
        return self.servers[-1]

    @property
    def written(self) -> list[Written]:
        return [each for builder in self.log.files.values() for each in builder.written]

    def gtids(self, *numbers: int) -> list[str]:
        """Of the transactions with these numbers, from 1 on."""
        return [self.written[number - 1].gtid for number in numbers]

    def transaction(self, number: int) -> Transaction:
        for sequence, builder in self.log.files.items():
            for each in builder.written:
                if each.gtid == self.written[number - 1].gtid:
                    file = f"binlog.{sequence:06}"
                    return Transaction(
                        start=f"{file}:{each.start}",
                        end=f"{file}:{each.end}",
                        committed=moment(each.micros - NOW),
                        gtid=each.gtid,
                    )
        raise AssertionError(number)
