"""A MariaDB in memory on a clone's files: it asks its source for the log as a replica does."""

import re
import socket
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pymysql

from tests.unit.engines.mysql.applying import Applying
from zbackup.engines.mysql.binlog import events
from zbackup.engines.mysql.recovery import replication_source
from zbackup.model.log import LogPosition

_ARTIFICIAL = 0x20
_SETTING = re.compile(r"(MASTER_\w+) = (?:'([^']*)'|(\w+))")


def listen_anywhere(_: object) -> socket.socket:
    """In place of the network of a server of its own: see listen_beside."""
    return socket.create_server(("127.0.0.1", 0))


@dataclass
class ApplyingMariaDB(Applying):
    """See Applying; `stopped_at` is where it says that it is."""

    version: str = "10.11.18-MariaDB"
    flavor: str = "mariadb"
    timeout: str = "DEFAULT"
    followed: int = 0
    receiving: bool = False
    _said: dict[str, str] = field(default_factory=dict)

    def execute(self, statement: str) -> None:
        self.did.append(statement)
        if statement.startswith("CHANGE MASTER TO"):
            self._said = {name: text or word for name, text, word in _SETTING.findall(statement)}
            self.channels.append("")
        elif statement.startswith("START SLAVE UNTIL"):
            said = {name: text or word for name, text, word in _SETTING.findall(statement)}
            until = LogPosition.of(said["MASTER_LOG_FILE"], int(said["MASTER_LOG_POS"]))
            self.receiving = True
            self._replicate(until)
        elif statement == "STOP SLAVE":
            self.receiving = False
        elif statement == "RESET SLAVE ALL":
            assert not self.receiving, "ERROR 1198: there is a running slave"
            self.channels.remove("")
        elif found := re.fullmatch(r"RESET SLAVE '(\w*)' ALL", statement):
            self.channels.remove(found[1])
        elif statement.startswith("SET GLOBAL slave_net_timeout = "):
            self.timeout = statement.rpartition(" ")[2]
        elif statement.startswith("SET GLOBAL"):
            self.did.pop()
            super().execute(statement)

    def _replicate(self, until: LogPosition) -> None:
        self.followed = int(self.timeout)
        begin = LogPosition.of(self._said["MASTER_LOG_FILE"], int(self._said["MASTER_LOG_POS"]))
        with pymysql.connect(
            host=self._said["MASTER_HOST"],
            port=int(self._said["MASTER_PORT"]),
            user=self._said["MASTER_USER"],
            password=self._said["MASTER_PASSWORD"],
            read_timeout=60,
        ) as client:
            asked = (
                struct.pack("<IHI", begin.offset, replication_source.WITH_ANNOTATIONS, 9)
                + begin.file.encode()
            )
            client._execute_command(replication_source.BINLOG_DUMP, asked)  # type: ignore[attr-defined]
            self._apply_sent(self._sent(client), until)

    @staticmethod
    def _sent(client: Any) -> Iterator[bytes]:
        while True:
            yield client._read_packet().get_all_data()[1:]

    def _apply_sent(self, sent: Iterator[bytes], until: LogPosition) -> None:
        """An applier sees that it is at the end at the next event that begins there, or at the next file."""
        here, gtid, sums = until, "", 0
        for event in sent:
            assert int.from_bytes(event[9:13], "little") == len(event), "an event has another length"
            kind, flags = event[4], struct.unpack_from("<H", event, events.FLAGS_AT)[0]
            if sums and kind != events.FORMAT_DESCRIPTION:
                assert zlib.crc32(event[:-4]) == int.from_bytes(event[-4:], "little"), "a checksum is wrong"
            if kind == events.ROTATE and flags & _ARTIFICIAL:
                name = event[27 : len(event) - sums].decode()
                here = LogPosition.of(name, struct.unpack_from("<Q", event, 19)[0])
                self.end = here
                if here > until:
                    return
                continue
            if kind == events.FORMAT_DESCRIPTION:
                sums = 4 if event[-5] else 0
                if here.offset != events.FIRST_EVENT:
                    continue
            elif here >= until:
                return
            if kind == events.MARIADB_GTID:
                number, domain = struct.unpack_from("<QI", event, 19)
                gtid = f"{domain}-{struct.unpack_from('<I', event, 5)[0]}-{number}"
            elif kind == events.XID:
                self.has.append(gtid)
            here = LogPosition.of(here.file, here.offset + len(event))
            self.end = here

    def one(self, statement: str) -> dict[str, Any]:
        if statement == "SHOW SLAVE STATUS":
            end = self.says or self.end
            return {
                "Relay_Master_Log_File": end.file if end else "",
                "Exec_Master_Log_Pos": end.offset if end else 0,
                "Slave_SQL_Running": "No",
                "Slave_SQL_Running_State": "",
                "Slave_IO_State": "",
                "Last_SQL_Error": self.error,
                "Last_IO_Error": "",
            }
        if statement == "SELECT @@global.gtid_slave_pos AS gtid":
            return {"gtid": self.has[-1] if self.has else ""}
        if statement == "SELECT @@global.gtid_binlog_pos AS gtid":
            return {"gtid": self.held[-1] if self.held else ""}
        return super().one(statement)

    def rows(self, statement: str, arguments: object = ()) -> list[dict[str, Any]]:
        if statement == "SHOW ALL SLAVES STATUS":
            return [{"Connection_name": name} for name in self.channels]
        assert "CONVERT XID" not in statement and statement != "SHOW REPLICA STATUS", "it does not know that"
        return super().rows(statement, arguments)
