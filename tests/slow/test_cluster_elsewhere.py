"""A sharded cluster from a bucket and archived oplogs alone, on one host that has nothing of it.

To one cluster time between two shards' commit entries of a transaction, which base backups from before the
load and archived oplog lead to.
"""

import base64
import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from bson.timestamp import Timestamp

from tests.destinations.shop import BUCKET
from tests.lab.pool import Pool, create_pool
from tests.lab.s3_server import ACCESS, SECRET, client, s3_server
from tests.system.archive_story import archiving
from tests.system.cluster_past import Past, past, require_it_works, require_same
from tests.system.cluster_story import (
    CONFIG,
    SHARDS,
    ClusterHouse,
    Load,
    cluster_house,
    newest,
    torn,
)
from tests.system.house import wait_until

MEMBERS = (CONFIG, *SHARDS)
LIMIT_S = 3600


@dataclass(frozen=True)
class Loaded:
    """A cluster that was shipped, worked with, and archived; what it held at a cluster time in between."""

    house: ClusterHouse
    load: Load
    at: Timestamp
    was: Past
    ships: Mapping[str, Mapping[str, Any]]


@pytest.fixture(scope="module")
def loaded(pool: Pool) -> Iterator[Loaded]:
    with cluster_house(pool) as house, s3_server() as server:
        secret, key = house.home / "secret", house.home / "key"
        secret.write_text(SECRET)
        key.write_text(base64.b64encode(os.urandom(32)).decode())
        for path in (secret, key):
            path.chmod(0o600)
        with contextlib.suppress(Exception):
            client(server).create_bucket(Bucket=BUCKET)
        s3 = {
            "endpoint": server.endpoint,
            "region": "us-east-1",
            "access_key": ACCESS,
            "secret_key": {"file": str(secret)},
            "path_style": True,
            "key": {"file": str(key)},
        }
        ships = {
            member: {"name": "cloud", "to": f"s3://{BUCKET}/of-{member}", "initial": "allow", "s3": s3}
            for member in MEMBERS
        }
        sending = house.configure("sending", each=lambda member: archiving(ships[member]))
        house.back_up(config=sending)
        for member in MEMBERS:
            assert house.zb("ship", member, config=sending).rc == 0
        load = Load(house.cluster)
        with load.running():
            wait_until("a move", lambda: load.over or load.moves > 0, 600)
            archived(house, sending)
            since, transfers, moves = newest(house.cluster), load.transfers, load.moves
            wait_until("transfers", lambda: load.over or load.transfers >= transfers + 40, 600)
            wait_until("a move", lambda: load.over or load.moves > moves, 600)
        archived(house, sending)
        spans = torn(house.cluster, since)
        at = spans[len(spans) // 2][2]
        yield Loaded(house, load, at, past(house.cluster, at), ships)


def archived(house: ClusterHouse, config: Path) -> None:
    for member in MEMBERS:
        done = house.zb("archive", member, "--once", "--json", config=config).data[0]
        assert done["appended"] and not done["gap"] and not done["new_epoch"], done


@pytest.mark.timeout(LIMIT_S)
def test_all_members_from_a_bucket_on_one_host(loaded: Loaded) -> None:
    """One that has nothing of the cluster: another pool, and no dataset of its members."""
    new, house = create_pool(), loaded.house
    try:
        burnt = house.configure(
            "burnt",
            recovery={"clones": f"{new.name}/back", "mountpoint": str(new.home / "back")},
            each=lambda m: {"datasets": [f"{new.name}/gone-{m}"], "ship": [loaded.ships[m]]},
        )
        stamp = f"{loaded.at.time},{loaded.at.inc}"
        words = ("restore", "--cluster", "shop", "--from", "cloud", "--to-timestamp", stamp, "--name", "back")
        report = house.zb(*words, "--json", config=burnt).data
        # Of each member one backup is there, from before the load: what leads on from it is archived.
        assert all(member["replay"]["transactions"] for member in report["members"]), report["members"]
        require_same(report, loaded.was, loaded.load, loaded.at)
        require_it_works(report)
        for member in report["members"]:
            assert house.zb("clone", "destroy", member["clone"], "--yes", config=burnt).rc == 0
    finally:
        new.destroy()
