"""A mongod that runs alone, with an index build that it was killed in. Needs no ZFS; pytest by name."""

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from pymongo.errors import PyMongoError

from tests.lab import servers
from tests.lab.mongo_fixture import Client, MongoServer, MongoSettings, start_single
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.recovery.unfinished_indexes import drop_unfinished_indexes
from zbackup.engines.mongodb.server.connection import connect


@pytest.fixture
def room() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="zu", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def _build(server: MongoServer) -> None:
    with server.client() as client, suppress(PyMongoError):
        client.shop.items.create_index("n", unique=True)


def _listed(client: Client) -> list[str]:
    return sorted(client.shop.items.index_information())


def _wait_for_checkpoint(client: Client) -> None:
    """Wait until what is written so far is in a stable checkpoint: alone, mongod replays no oplog."""
    written = client.shop.command("insert", "marks", documents=[{}], writeConcern={"w": "majority"})[
        "operationTime"
    ]
    while client.admin.command("replSetGetStatus")["lastStableRecoveryTimestamp"] < written:
        client.admin.command("fsync")
        time.sleep(0.1)


def test_an_unfinished_index_is_dropped_and_can_be_made_anew(room: Path) -> None:
    servers.ensure(["mongodb-6.0"])
    hooks = ("--setParameter=enableTestCommands=1",)
    settings = MongoSettings(
        datadir=room / "data", run_dir=room / "run", replica_set="rs0", auth=False, options=hooks
    )
    with start_single(settings) as server, server.client() as client:
        client.shop.items.insert_many([{"n": n} for n in range(100)])
        client.shop.items.create_index("m")
        client.admin.command("configureFailPoint", "hangAfterStartingIndexBuild", mode="alwaysOn")
        building = threading.Thread(target=_build, args=(server,))
        building.start()
        while "n_1" not in _listed(client):
            time.sleep(0.1)
        _wait_for_checkpoint(client)
        server.kill()
        building.join()
    with MongoServer(replace(settings, replica_set="")) as alone, alone.client() as client:
        assert _listed(client) == ["_id_", "m_1", "n_1"], "nothing is unfinished: this shows nothing"
        with connect(ConnectOptions(socket=str(settings.socket))) as connection:
            assert drop_unfinished_indexes(connection) == ["n_1 of shop.items"]
            assert drop_unfinished_indexes(connection) == []
        assert _listed(client) == ["_id_", "m_1"]
        client.shop.items.create_index("n", unique=True, maxTimeMS=60_000)
        assert client.shop.command("validate", "items", full=True)["valid"]
