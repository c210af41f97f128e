"""Builds the MySQL or MariaDB server that a row of levels describes, on datasets of its own."""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab import servers
from tests.lab.certificate import certificate
from tests.lab.mysql_fixture import DatabaseServer, Settings, free_port
from tests.lab.pool import Pool
from tests.lab.server_user import SERVER_UID
from tests.lab.servers.accounts import ZBACKUP_GRANTS, ZBACKUP_PASSWORD, ZBACKUP_USER
from tests.odd.base import Datasets
from tests.odd.sql_levels import LEVELS
from tests.odd.sql_worlds import SQL_WORLDS
from tests.odd.worlds import named

ODD_DATADIR = "d'a ü $x %s"
ODD_USER = "o'dd ünï@x"

Row = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class OddSettings(Settings):
    """Settings whose options are given as the row says: as arguments, in a file, or in an included one."""

    way: str = "arguments"

    def arguments(self) -> list[str]:
        """See Settings."""
        first, *options = super().arguments()
        if self.way not in ("file", "included"):
            return [first, *options]
        file = self.run_dir / "my.cnf"
        lines = ["[mysqld]", *(_in_file(option) for option in options)]
        if self.way == "included":
            included = self.run_dir / "conf d"
            included.mkdir(exist_ok=True)
            (included / "z.cnf").write_text("\n".join(lines) + "\n")
            lines = ["[mysqld]", f"!includedir {included}"]
        file.write_text("\n".join(lines) + "\n")
        return [f"--defaults-file={file}"]


def _in_file(option: str) -> str:
    name, equals, value = option.removeprefix("--").partition("=")
    value = value.replace("\\", "\\\\")
    return f'{name} = "{value}"' if equals else name


@dataclass(kw_only=True)
class Odd:
    """A server as described, not started; its datasets; and what zbackup is told of how to reach it."""

    server: DatabaseServer
    datasets: list[str] = field(default_factory=list)
    instance: dict[str, object] = field(default_factory=dict)
    password: str = ZBACKUP_PASSWORD
    elsewhere: Path = Path("/")
    """A directory on a dataset of its own, for what the server keeps outside of its data directory."""


class Builder:
    """Makes one server. `home` is an empty directory of its own, `name` the dataset's below the pool."""

    def __init__(self, flavour: str, row: Row, pool: Pool, home: Path, name: str) -> None:
        self._flavour, self._row, self._home = flavour, row, home
        self._kind = flavour.partition("-")[0]
        self.datasets = Datasets(row, LEVELS, home, f"{pool.name}/{name}")

    def build(self) -> Odd:
        """Everything but the start."""
        row = self._row
        main = self.datasets.first()
        real = self._datadir(main)
        log_dir = self._log_dir(main, real)
        options = [*self._options(), *self._log(real, log_dir)]
        datadir = self._linked(real, main)
        options += self._part(real, main)
        run_dir = self._home / "server"
        account, more = self._account()
        # What is given last wins; so a level's own options come behind those of the layout.
        options += more
        settings = OddSettings(
            flavour=self._flavour,
            gtid=row["gtid"] != "off",
            datadir=datadir,
            binlog_dir=log_dir,
            run_dir=run_dir,
            port=free_port(),
            options=tuple(options),
            way=row["options"],
        )
        server = DatabaseServer(settings)
        server.prepare()
        for directory in (main, log_dir, self._elsewhere):
            os.chown(directory, SERVER_UID, SERVER_UID)
        if row["part"] == "linked schema":
            self._link_schema(real, main)
        if row["part"] == "redo":
            self._move_redo(real)
        if "port" in account:
            account["port"] = settings.port
        return Odd(
            server=server,
            datasets=self.datasets.names,
            instance={"engine": self._kind, "user": ZBACKUP_USER, "socket": str(settings.socket), **account},
            elsewhere=self._elsewhere,
        )

    # directories

    def _datadir(self, main: Path) -> Path:
        match self._row["datadir"]:
            case "mountpoint":
                real = main
            case "deep":
                real = main / "a" / "b c" / "d"
            case "odd":
                real = main / ODD_DATADIR
            case _:
                real = main / "mysql"
        real.mkdir(parents=True, exist_ok=True)
        if self._row["part"] == "schema":
            self.datasets.below("shop", real / "shop")
        return real

    def _linked(self, real: Path, main: Path) -> Path:
        match self._row["datadir"]:
            case "linked":
                link = self._home / "data link"
            case "linked inside":
                link = main / "data link"
            case _:
                return real
        link.symlink_to(real)
        return link

    def _log_dir(self, main: Path, real: Path) -> Path:
        match self._row["log"]:
            case "directory":
                where = main / "logs of it"
                where.mkdir()
            case "nested":
                where = self.datasets.below("bin log", main / "bin log")
            case "sibling":
                where = self.datasets.beside("log")
            case _:
                where = real
        self._elsewhere = (
            self.datasets.beside("more") if self._row["part"] in ("data directory", "tablespace") else main
        )
        return where

    def _log(self, real: Path, log_dir: Path) -> list[str]:
        name, link = self._row["log name"], self._row["log link"]
        given = log_dir
        if link in ("directory", "from outside"):
            given = (
                real.parent if link == "directory" and real.parent != self._home else self._home
            ) / "log link"
            given.symlink_to(log_dir)
        if link == "relative":
            given = Path(os.path.relpath(log_dir, real))
        options = [f"--log-bin={given / name}"]
        if link == "index elsewhere":
            options.append(f"--log-bin-index={real / 'the v2.index.of logs'}")
        return ["--skip-log-bin"] if self._row["format"] == "off" else options

    def _part(self, real: Path, main: Path) -> list[str]:
        """What lies apart from the rest."""
        match self._row["part"]:
            case "redo":
                where = self.datasets.beside("redo")
                os.chown(where, SERVER_UID, SERVER_UID)
                return [f"--innodb-log-group-home-dir={where}"]
            case "doublewrite":
                where = self.datasets.beside("twice")
                os.chown(where, SERVER_UID, SERVER_UID)
                return [f"--innodb-doublewrite-dir={where}"]
            case "data directory" | "tablespace" if self._kind == "mysql":
                return [f"--innodb-directories={self._elsewhere}"]
        return []

    def _move_redo(self, real: Path) -> None:
        """To where the server will look for it: none makes a new one."""
        for name in ("ib_logfile0", "#innodb_redo"):
            if (log := real / name).exists():
                moved = Path(shutil.move(log, self._home / "redo"))
                for file in (moved, *moved.rglob("*")):
                    os.chown(file, SERVER_UID, SERVER_UID)

    def _link_schema(self, real: Path, main: Path) -> None:
        (real / "shop").rename(main / "schema shop")
        # A link in /tmp is not there for a server that has a /tmp of its own.
        (real / "shop").symlink_to((main / "schema shop").resolve())

    # options

    def _options(self) -> list[str]:
        found: list[str] = []
        for factor, known in LEVELS.items():
            level = self._row[factor]
            found += known[level].options
            found += self._own(factor, level)
        for name in named(self._row):
            found += [each.format(outside=self.outside()) for each in SQL_WORLDS[name].options]
        return found

    def outside(self) -> Path:
        """A directory on none of the instance's datasets, in which the server may write."""
        where = self._home / "outside"
        where.mkdir(exist_ok=True)
        os.chown(where, SERVER_UID, SERVER_UID)
        return where

    def _own(self, factor: str, level: str) -> list[str]:
        """Options that flavours name differently."""
        mysql = self._kind == "mysql"
        match factor, level:
            case "payload", "compressed":
                return (
                    ["--binlog-transaction-compression=ON"]
                    if mysql
                    else ["--log-bin-compress=ON", "--log-bin-compress-min-len=10"]
                )
            case "plugin", "semisync":
                new = ["--rpl-semi-sync-source-enabled=ON", "--rpl-semi-sync-source-timeout=1"]
                old = ["--rpl-semi-sync-master-enabled=ON", "--rpl-semi-sync-master-timeout=1"]
                return ["--plugin-load-add=semisync_source.so", *new] if mysql else old
            case "incident", "replica gone" if mysql and self._row["plugin"] != "semisync":
                return ["--plugin-load-add=semisync_source.so"]
            case "plugin", "keys":
                return self._keys()
            case "format", "encrypted":
                return [*self._keys(), "--binlog-encryption=ON" if mysql else "--encrypt-binlog=ON"]
            case "durability", "grouped":
                return (
                    ["--binlog-group-commit-sync-delay=2000", "--binlog-order-commits=OFF"]
                    if mysql
                    else ["--binlog-commit-wait-count=3", "--binlog-commit-wait-usec=2000"]
                )
            case "session", "small limits":
                statements = "--max-execution-time=200" if mysql else "--max-statement-time=2"
                return [statements, "--wait-timeout=3", "--lock-wait-timeout=1", "--net-read-timeout=1"]
            case "files", "page compressed":
                # Direct I/O of compressed pages is refused by OpenZFS from 2.3 on; the server ends or hangs.
                buffered = "--innodb-flush-method=fsync"
                return [buffered] if mysql else [buffered, "--innodb-compression-default=ON"]
        return []

    def _keys(self) -> list[str]:
        keys = self._home / "keys"
        if keys.exists():
            return []
        if self._kind == "mysql":
            keys.mkdir()
            os.chown(keys, SERVER_UID, SERVER_UID)
            for file, content in keyring_files(self._flavour, keys).items():
                file.write_text(json.dumps(content))
            # Direct I/O of encrypted pages is refused by OpenZFS from 2.3 on.
            return ["--innodb-flush-method=fsync"]
        keys.write_text(f"1;{'0123456789abcdef' * 4}\n")
        keys.chmod(0o400)
        os.chown(keys, SERVER_UID, SERVER_UID)
        return [
            "--plugin-load-add=file_key_management",
            f"--file-key-management-filename={keys}",
            "--innodb-encrypt-tables=ON",
            "--innodb-encrypt-log=ON",
        ]

    def _account(self) -> tuple[dict[str, object], list[str]]:
        """What zbackup is told, and options that go with it. See also `account_statements`."""
        match self._row["account"]:
            case "address":
                return {"socket": None, "host": "127.0.0.1", "port": 0}, ["--skip-name-resolve"]
            case "name":
                return {"user": ODD_USER}, []
            case "tls":
                made = certificate(self._home)
                os.chown(made.key, SERVER_UID, SERVER_UID)
                tls = {"ca": str(made.cert)}
                options = [f"--ssl-ca={made.cert}", f"--ssl-cert={made.cert}", f"--ssl-key={made.key}"]
                return {"socket": None, "host": "127.0.0.1", "port": 0, "tls": tls}, options
        return {}, []


def keyring_files(flavour: str, keys: Path) -> dict[Path, object]:
    """Files among the installed server's that make MySQL load its keyring; to be removed again."""
    root = servers.path(flavour) / "root" / "usr"
    return {
        root / "sbin/mysqld.my": {"components": "file://component_keyring_file"},
        root / "lib/mysql/plugin/component_keyring_file.cnf": {
            "path": str(keys / "keys"),
            "read_only": False,
        },
    }


def account_statements(row: Row, kind: str) -> list[str]:
    """What makes the account that zbackup logs in with."""
    user, host, require = {
        "address": (ZBACKUP_USER, "127.0.0.0/255.0.0.0", ""),
        "name": (ODD_USER, "localhost", ""),
        "tls": (ZBACKUP_USER, "%", " REQUIRE SSL"),
        "tls refused": (ZBACKUP_USER, "localhost", " REQUIRE SSL"),
    }.get(row["account"], ("", "", ""))
    if not user:
        return []
    quoted = user.replace("'", "''")
    account = f"'{quoted}'@'{host}'"
    gone = [f"DROP USER '{ZBACKUP_USER}'@'localhost'"]
    made = f"CREATE USER {account} IDENTIFIED BY '{ZBACKUP_PASSWORD}'{require}"
    return [*gone, made, *(f"GRANT {grant} TO {account}" for grant in ZBACKUP_GRANTS[kind])]
