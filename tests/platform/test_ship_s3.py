"""Shipping to a bucket on a real S3 server, and coming back from it with the documentation alone."""

import base64
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.destinations.shop import BUCKET, Shop, new_shop, some_key
from tests.lab.pool import Dataset, Pool, run
from tests.lab.s3_proxy import Fault, proxy
from tests.lab.s3_server import SECRET, S3Server, client, s3_server
from tests.platform.bucket import Bucketed
from zbackup.destinations.s3.chains import Chains
from zbackup.jobs.ship import look, ship
from zbackup.model.errors import Diverged
from zbackup.plan.ship import UpToDate


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as started:
        client(started).create_bucket(Bucket=BUCKET)
        yield started


@pytest.fixture
def shop(server: S3Server, tmp_path: Path) -> Shop:
    return new_shop(server, tmp_path)


def ship_now(yard: Bucketed) -> list[str]:
    """Names of what was committed by one run."""
    ctx = yard.context()
    return [b.name for b in ship(ctx, ctx.targets[0]).committed]


def comes_back(yard: Bucketed, member: Dataset, name: str, key: Path | None = None) -> bool:
    """Whether the recipe of the documentation makes the same files of what is in the bucket."""
    target = f"{yard.vault.name}/back-{name}"
    yard.by_hand(member.name, name, target, key)
    same = yard._content(member.name, name) == yard._content(target, name)
    run("zfs", "destroy", "-r", target)
    return same


def test_a_full_copy_then_increments_and_back_by_hand(pool: Pool, vault: Pool, shop: Shop) -> None:
    yard = Bucketed(pool, vault, shop)
    first = yard.backup(1_500_000)
    assert ship_now(yard) == [first]
    second = yard.backup()
    ctx = yard.context()
    report = ship(ctx, ctx.targets[0])
    assert all(s.step.origin and s.step.origin.name.endswith(f"@{first}") for s in report.sent)
    assert look(ctx, ctx.targets[0]).plan == UpToDate(report.newest)
    assert comes_back(yard, yard.inner, second), "which takes both streams"
    outer, inner = sorted(yard.marks())
    assert outer.startswith("#zbackup-ship:bucket:") and inner.startswith("/bin log#zbackup-ship:bucket:")
    for member in yard.members:
        run("zfs", "destroy", f"{member.name}@{second}")
    third = yard.backup()
    assert ship_now(yard) == [third], "it goes on from the bookmark"
    assert [s.base is None for s in yard.streams(yard.outer.name, third)] == [True, False, False]


def test_compressed_and_encrypted_by_us_comes_back_by_hand(pool: Pool, vault: Pool, shop: Shop) -> None:
    key = some_key()
    path = shop.home / "key"
    path.write_bytes(base64.b64encode(key) + b"\n")
    yard = Bucketed(pool, vault, shop, keys=(key,), compression="zstd")
    yard.backup(1_500_000)
    ship_now(yard)
    second = yard.backup()
    ship_now(yard)
    assert comes_back(yard, yard.outer, second, path)


def test_a_chain_that_is_long_enough_begins_anew(pool: Pool, vault: Pool, shop: Shop) -> None:
    yard = Bucketed(pool, vault, shop, chains=Chains(most=1))
    names = [yard.backup()]
    ship_now(yard)
    for _ in range(4):
        names.append(yard.backup())
        assert ship_now(yard) == [names[-1]]
    assert [len(yard.streams(yard.outer.name, name)) for name in names] == [1, 2, 1, 2, 1]
    assert yard.committed() == names
    assert len(yard.marks()) == 2, "bookmarks of the newest alone"


def test_another_servers_backups_are_not_mixed_in(pool: Pool, vault: Pool, shop: Shop) -> None:
    one, other = Bucketed(pool, vault, shop), Bucketed(pool, vault, shop)
    one.backup()
    ship_now(one)
    other.backup()
    with pytest.raises(Diverged, match=r"(?s)no snapshot is of these.*another prefix of the bucket"):
        ship_now(other)


CONFIG = """
run_dir = "{home}"
[instance.shop]
engine = "mysql"
datasets = ["{dataset}"]
socket = "/nowhere"
user = "nobody"
password = {{ file = "{password}" }}
[[instance.shop.ship]]
to = "s3://{bucket}/{prefix}"
name = "bucket"
initial = "allow"
[instance.shop.ship.s3]
endpoint = "{endpoint}"
region = "us-east-1"
access_key = "test-access"
secret_key = {{ file = "{password}" }}
path_style = true
segment = "1MiB"
uploads = 2
key = {{ file = "{key}" }}
"""


def test_the_program_killed_at_a_request_goes_on(pool: Pool, vault: Pool, shop: Shop) -> None:
    """SIGKILL as the Nth request comes, for one N after the other; then once in peace."""
    yard = Bucketed(pool, vault, shop)
    name = yard.backup(1_500_000)
    password, key = shop.home / "password", shop.home / "key"
    password.write_text(SECRET, encoding="ascii")
    key.write_text(base64.b64encode(some_key()).decode(), encoding="ascii")
    for secret in (password, key):
        secret.chmod(0o600)
    at = 0
    running: list[subprocess.Popen[bytes]] = []

    def kill(number: int, _: str) -> Fault | None:
        if number != at:
            return None
        os.kill(running[-1].pid, signal.SIGKILL)
        return Fault(body=0)

    with proxy(shop.server.endpoint, kill) as through:
        config = shop.home / "zbackup.toml"
        words = {"home": pool.home, "dataset": yard.outer.name, "password": password, "key": key}
        place = {"bucket": BUCKET, "prefix": shop.prefix, "endpoint": through.endpoint}
        config.write_text(CONFIG.format(**words, **place), encoding="ascii")
        for at in (4, 7, 11, 0):
            through.seen.clear()
            argv = [str(Path(sys.executable).with_name("zbackup")), "--config", str(config), "ship", "shop"]
            running.append(subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
            said, _ = running[-1].communicate(timeout=300)
            if not at:
                assert running[-1].returncode == 0, said.decode()
    assert name in said.decode()
    assert [r.returncode for r in running].count(-signal.SIGKILL) == 3
    assert yard.committed() == [name]
    assert comes_back(yard, yard.inner, name, key)
    assert all("@" not in mark for mark in yard.marks()), "nothing is held any more"
