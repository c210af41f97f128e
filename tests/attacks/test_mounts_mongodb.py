"""Attacks by the server's user on the mounts of a switch of MongoDB, whose dataset has another in it."""

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.mount_attacks import MountAttacks, Scene
from tests.lab.mongo_fixture import start_single
from tests.lab.pool import Pool
from tests.lab.server_user import SERVER_UID
from tests.system.conftest import end_clones
from tests.system.mongo_house import MongoHouse, build

SCRIPT = """#!/bin/sh
# What systemd would do.
lock={lock}
case "$1" in
stop)
    pid=$(cat "$lock")
    [ -z "$pid" ] || kill "$pid"
    while [ -n "$pid" ] && [ -e "/proc/$pid/exe" ]; do sleep 0.1; done ;;
start)
    setsid setpriv --reuid={uid} --regid={uid} --clear-groups {argv} </dev/null >/dev/null 2>&1 & ;;
esac
"""


def service(house: MongoHouse) -> Path:
    settings = house.server.settings
    file = house.home / "service"
    argv = shlex.join([str(settings.program), *settings.arguments()])
    lock = shlex.quote(str(settings.datadir / "mongod.lock"))
    file.write_text(SCRIPT.format(lock=lock, uid=SERVER_UID, argv=argv))
    file.chmod(0o755)
    return file


@pytest.fixture(scope="module")
def scene(pool: Pool) -> Iterator[Scene]:
    assert pool.log.mountpoint.is_dir()
    with start_single(build(pool, pool.home, replica_set="rs0")) as server:
        house = MongoHouse(pool, pool.home, server, (pool.data.name,))
        file = str(service(house))
        table = {"stop": [file, "stop"], "start": [file, "start"], "limit": "60s"}
        with server.client() as client:
            client.shop.orders.insert_one({"of": "before"})

        def change() -> None:
            with server.client() as client:
                client.shop.orders.insert_one({"of": "later"})

        yield Scene(house, table, change)
        end_clones(house)  # type: ignore[arg-type]
        subprocess.run([file, "stop"], check=True)


class TestMounts(MountAttacks):
    rounds = 1

    def require_runs(self, scene: Scene) -> None:
        assert isinstance(scene.house, MongoHouse)
        with scene.house.server.client() as client:
            assert client.admin.command("hello")["ok"]
