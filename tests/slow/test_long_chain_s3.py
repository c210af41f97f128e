"""Bring back the last of a chain: a full stream and fifty incremental ones, from a bucket alone."""

import base64
import os
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tests.destinations.shop import BUCKET
from tests.lab.pool import Pool, create_pool
from tests.lab.s3_server import ACCESS, SECRET, S3Server, client, s3_server
from tests.lab.variants import Variant
from tests.system.conftest import house
from tests.system.forked import forks
from tests.system.house import House, next_second

__all__ = ["house"]

INCREMENTS = 50
ROWS = 1_000
"""So many of a kilobyte each are written between two backups."""


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-10.11")


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as started:
        client(started).create_bucket(Bucket=BUCKET)
        yield started


@pytest.fixture(scope="module", autouse=True)
def forked(house: House) -> Iterator[None]:
    with forks(house.home, "zbackup.destinations.s3.from_config") as house.forks:
        yield


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Pool]:
    made = create_pool()
    yield made
    made.destroy()


def ship(house: House, server: S3Server) -> dict[str, object]:
    secret, key = house.home / "secret", house.home / "key"
    for path, text in ((secret, SECRET), (key, base64.b64encode(os.urandom(32)).decode())):
        path.write_text(text)
        path.chmod(0o600)
    table: dict[str, object] = {
        "endpoint": server.endpoint,
        "region": "us-east-1",
        "access_key": ACCESS,
        "secret_key": {"file": str(secret)},
        "path_style": True,
        "key": {"file": str(key)},
        "max_chain": INCREMENTS,
    }
    return {"name": "cloud", "to": f"s3://{BUCKET}/chain", "initial": "allow", "s3": table}


def write(house: House, number: int) -> None:
    rows = [(number * ROWS + row, os.urandom(500).hex()) for row in range(ROWS)]
    house.server.sql(f"INSERT INTO story.told VALUES {', '.join(map(repr, rows))}")


def tell(house: House, sending: Path) -> datetime:
    """Backups, each shipped; returns a moment that is just before the last one's last row."""
    for number in range(INCREMENTS + 1):
        write(house, number)
        moment = next_second()
        house.server.sql("INSERT INTO story.told VALUES (%s, 'late')", (-number - 1,))
        house.snapshot()
        sent = house.zb("ship", config=sending)
        assert sent.rc == 0, sent
    return moment


@pytest.mark.timeout(7200)
def test_a_full_stream_and_fifty_increments(
    house: House, server: S3Server, elsewhere: Pool, capsys: pytest.CaptureFixture[str]
) -> None:
    """To a moment before the last of them, which is in the log that the last one brings."""
    place = ship(house, server)
    sending = house.configure("sending", ship=[place])
    house.server.sql("CREATE DATABASE story")
    house.server.sql("CREATE TABLE story.told (n INT PRIMARY KEY, text VARCHAR(1000))")
    moment = tell(house, sending)
    clones = {"clones": f"{elsewhere.name}/back", "mountpoint": str(elsewhere.home / "back")}
    burnt = house.configure("burnt", datasets=[f"{elsewhere.name}/gone"], ship=[place], recovery=clones)
    words = ("restore", "--from", "cloud", "--to", moment.isoformat(), "--name", "back", "--json")
    planned = house.zb(*words, "--dry-run", config=burnt).data
    began = time.monotonic()
    restored = house.begin(*words, config=burnt).end(3600)
    took = time.monotonic() - began
    rows = (INCREMENTS + 1) * ROWS
    with house.clone(restored.data) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*), MIN(n), MAX(n) FROM story.told")
        assert cursor.fetchone() == (rows + INCREMENTS, -INCREMENTS, rows - 1)
    assert house.zb("clone", "destroy", "back", "--yes", config=burnt).rc == 0
    assert planned["fetch"] > rows * 1000
    with capsys.disabled():
        print(f"\n{1 + INCREMENTS} streams, {planned['fetch'] / (1 << 20):.0f} MiB: {took:.1f} s")
