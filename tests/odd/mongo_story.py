"""The life of an odd mongod: checked, backed up under load, restored and compared. See base."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pymongo

from tests.lab import mongo_load
from tests.lab.mongo_fixture import (
    ADMIN,
    ADMIN_PASSWORD,
    MongoServer,
    MongoSettings,
    connect,
    dbhash,
    initiate,
    make_accounts,
)
from tests.lab.repeats import some
from tests.lab.server_user import give_away
from tests.odd.base import Datasets, Story
from tests.odd.incidents import END, FIRST, SECOND
from tests.odd.mongo_levels import LEVELS
from tests.odd.mongo_telling import MongoTelling, picture
from tests.odd.mongo_worlds import MONGO_WORLDS
from tests.odd.outcome import Moment, differing
from tests.odd.sql_server import ODD_DATADIR
from tests.odd.worlds import LAST, named
from tests.system.conftest import end_clones
from tests.system.house import after_writing, local, now, utc, wait_until
from tests.system.mongo_house import SMALL_JOURNAL_MB, MongoHouse

THREADS, RATE = 2, 60.0
BURST = 25
ODD_DATABASE = "o'dd-db"


@dataclass(frozen=True, kw_only=True)
class OddMongoSettings(MongoSettings):
    """Settings whose options are given in a file, if the row says so."""

    way: str = "arguments"

    def arguments(self) -> list[str]:
        """See MongoSettings."""
        options = super().arguments()
        if self.way != "file":
            return options
        rest = [o for o in options if not o.startswith(("--dbpath=", "--port="))]
        file = self.run_dir / "mongod conf.yml"
        path = str(self.datadir).replace("'", "''")
        file.write_text(f"storage:\n  dbPath: '{path}'\nnet:\n  port: {self.port}\n")
        return [f"--config={file}", *rest]


class MongoStory(Story):
    """See Story."""

    levels = LEVELS
    worlds = MONGO_WORLDS

    def tell(self, forks: Any = None) -> None:
        """See Story."""
        self._home.mkdir()
        with contextlib.ExitStack() as ended:
            ended.callback(self._remove)
            datasets = Datasets(self._row, LEVELS, self._home, f"{self._pool.name}/{self._name}")
            ended.callback(datasets.unmount)
            with self._timed("build"):
                server = self._started(datasets)
            ended.callback(server.kill)
            house = MongoHouse(self._pool, self._home, server, tuple(datasets.names))
            house.forks = forks
            ended.callback(end_clones, house)
            self._telling = MongoTelling(server, named(self._row))
            if self._refused(house):
                return
            with self._timed("life"):
                moments = self._history(house)
            findings = self._ready(house)
            if self._row["tail"] == "killed":
                server.kill()
            names = [moment.name for moment in moments]
            told = some(names, *names[1:])
            for number, moment in enumerate(moments):
                if moment.name in told:
                    self._restore(house, moment, findings, f"r{number}")
            self._befalls(END, house)

    def compare(self, clone: Any, moment: Moment, report: dict[str, Any]) -> None:
        """See Story."""
        with self._opened(report) as client:
            if moment.sums is not None:
                assert _hashes(client) == moment.sums
            if moment.worlds is not None:
                lines = differing(dict(moment.worlds), picture(client))
                assert not lines, "\n".join(lines)
            if moment.at is not None:
                mongo_load.verify(client, self._home / "journal", utc(report["replay"]["effective_target"]))

    def contents(self, house: MongoHouse) -> dict[str, Any]:
        """See Story."""
        with house.server.client() as client:
            return dict(_hashes(client))

    # building

    def _started(self, datasets: Datasets) -> MongoServer:
        main = datasets.first()
        real = self._datadir(main)
        self._journal(datasets, main, real)
        give_away(main)
        settings = OddMongoSettings(
            datadir=self._linked(real, main),
            run_dir=self._home / "server",
            replica_set="odd" if self._row["members"] == "set" else "",
            auth=self._row["logins"] == "key",
            journal_mb=SMALL_JOURNAL_MB,
            options=tuple(option for factor in self._row for option in self._level(factor).options),
            way=self._row["options"],
        )
        settings.run_dir.mkdir()
        server = MongoServer(settings).start()
        if settings.replica_set:
            initiate([server])
        else:
            make_accounts(server)
        return server

    def _datadir(self, main: Path) -> Path:
        names = {"mountpoint": main, "deep": main / "a" / "b c" / "d", "odd": main / ODD_DATADIR}
        real = names.get(self._row["datadir"], main / "db")
        real.mkdir(parents=True, exist_ok=True)
        return real

    def _linked(self, real: Path, main: Path) -> Path:
        if self._row["datadir"] not in ("linked", "linked inside"):
            return real
        link = (main if self._row["datadir"] == "linked inside" else self._home) / "data link"
        link.symlink_to(real)
        return link

    def _journal(self, datasets: Datasets, main: Path, real: Path) -> None:
        match self._row["journal"]:
            case "nested":
                where = datasets.below("the journal", real / "journal")
            case "sibling":
                where = datasets.beside("apart")
                (real / "journal").symlink_to(where)
            case "linked":
                where = main / "journal of it"
                where.mkdir()
                # A link in /tmp is not there for a server that has a /tmp of its own.
                (real / "journal").symlink_to(where.resolve())
            case _:
                return
        give_away(where)

    # the life

    def _history(self, house: MongoHouse) -> list[Moment]:
        server, journal = house.server, self._home / "journal"
        load: dict[str, Any] = {"threads": THREADS, "rate": RATE, "journal": journal}
        with server.client() as client:
            client[ODD_DATABASE]["c é 1"].insert_many([{"_id": n, "v": "x" * n} for n in range(200)])
        self._telling.stage(0)
        self._befalls(FIRST, house)
        house.snapshot()
        with server.client() as client:
            first = _next_millisecond()
            worlds = self._telling.picture()
            moments = [Moment(name="at a backup", to=local(first), sums=_hashes(client), worlds=worlds)]
            client[ODD_DATABASE]["c é 1"].delete_many({"_id": {"$mod": [7, 1]}})
        self._befalls(SECOND, house)
        with mongo_load.start(server, **load):
            after_writing(journal, BURST)
            self._telling.stage(1)
            worlds = self._telling.picture()
            busy = _whole_millisecond(after_writing(journal, BURST))
            moments.append(Moment(name="between backups", to=local(busy), at=busy, worlds=worlds))
            after_writing(journal, BURST)
            self._telling.stage(2)
            house.snapshot()
            after_writing(journal, BURST)
        self._telling.stage(3)
        with server.client() as client:
            client[ODD_DATABASE]["c é 1"].update_many({"_id": {"$mod": [5, 2]}}, {"$set": {"v": "later"}})
            sums, worlds = _hashes(client), self._telling.picture()
            quiet = _next_millisecond()
            if self._row["tail"] == "killed":
                return [*moments, Moment(name="after the last, down", to="now", sums=sums, worlds=worlds)]
            client[ODD_DATABASE].drop_collection("c é 1")
        self._telling.stage(LAST)
        return [*moments, Moment(name="after the last", to=local(quiet), sums=sums, worlds=worlds)]

    def _opened(self, report: Mapping[str, Any]) -> pymongo.MongoClient[dict[str, Any]]:
        login = {"username": ADMIN, "password": ADMIN_PASSWORD} if self._row["logins"] == "key" else {}
        return connect(Path(report["socket"]), **login)


def _hashes(client: Any) -> dict[str, str]:
    found = dbhash(client)
    return {name: value for name, value in found.items() if not name.startswith("admin.")}


def _whole_millisecond(moment: datetime) -> datetime:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def _next_millisecond() -> datetime:
    """One that nothing was written in, and nothing will be before it."""
    moment = _whole_millisecond(now())
    wait_until("some milliseconds", lambda: (now() - moment).total_seconds() > 0.02, 1)
    moment = _whole_millisecond(now())
    wait_until("some milliseconds", lambda: (now() - moment).total_seconds() > 0.02, 1)
    return moment
