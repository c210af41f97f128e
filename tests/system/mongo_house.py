"""A mongod on a pool, and zbackup for it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.lab.mongo_fixture import (
    ZBACKUP_PASSWORD,
    ZBACKUP_USER,
    Client,
    MongoServer,
    MongoSettings,
    connect,
    locked,
)
from tests.lab.pool import Dataset, Pool
from tests.system.house import Zbackup

SMALL_JOURNAL_MB = 10
"""Starts of servers are most of what the tests cost."""


class MongoHouse(Zbackup):
    """A mongod on a pool, and zbackup for it."""

    preload = (
        "zbackup.engines.mongodb.archive.follow",
        "zbackup.engines.mongodb.engine",
        "zbackup.engines.mongodb.recovery.log_reader",
        "zbackup.engines.mongodb.recovery.recover",
        "zbackup.features.copyback.mongodb.session",
        "zbackup.features.undo.mongodb.session",
    )

    def __init__(self, pool: Pool, home: Path, server: MongoServer, datasets: tuple[str, ...]) -> None:
        self.server = server
        settings = server.settings
        login = {} if settings.auth else {"password": None}
        super().__init__(
            pool,
            home,
            datasets,
            instance={"engine": "mongodb", "socket": str(settings.socket), "user": ZBACKUP_USER, **login},
            password=ZBACKUP_PASSWORD,
            program=settings.program,
        )

    def locked(self) -> bool:
        """Whether an fsyncLock holds the server."""
        with self.server.client() as client:
            return locked(client)

    def clone(self, report: Mapping[str, Any]) -> Client:
        """A client of a recovered server."""
        return connect(Path(report["socket"]))


def build(
    pool: Pool, home: Path, name: str = "data", data: Dataset | None = None, **more: Any
) -> MongoSettings:
    """Of a mongod with its data in a directory of `data`, or of the pool's dataset with an odd name.

    The files of its journal are small unless something else is asked for.
    """
    datadir = (data or pool.data).mountpoint / name
    journal = {"journal_mb": SMALL_JOURNAL_MB}
    return MongoSettings(datadir=datadir, run_dir=home / f"{name}-run", **(journal | more))


def member(pool: Pool, name: str) -> tuple[MongoServer, str]:
    """One of a set rs0, on a dataset of its own, and that dataset's name; `name` is its home, too."""
    home = pool.home / name
    home.mkdir()
    data = pool.dataset(f"member {name}")
    return MongoServer(build(pool, home, name, data=data, replica_set="rs0")), data.name
