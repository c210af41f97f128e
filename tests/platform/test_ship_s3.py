"""Shipping to a bucket on a real S3 server, and coming back from it with the documentation alone."""

import base64
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.destinations.shop import BUCKET, PRIVATE, PUBLIC, Shop, new_shop, seaweed_of, some_key
from tests.lab.pool import Dataset, Pool, run
from tests.lab.s3_accounts import READER, WRITER
from tests.lab.s3_proxy import Fault, proxy
from tests.lab.s3_rights import denied
from tests.lab.s3_server import ACCESS, SECRET, S3Server, client, s3_server
from tests.platform.bucket import Bucketed
from tests.platform.test_ship_program import LIMIT_S, ZBACKUP, until
from zbackup.jobs.journal import Journal
from zbackup.jobs.ship.ship import preview, ship
from zbackup.model.errors import Diverged
from zbackup.model.key_text import private_text
from zbackup.plan.ship.ship import UpToDate


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as started:
        client(started).create_bucket(Bucket=BUCKET)
        yield started


@pytest.fixture(scope="module")
def seaweed(server: S3Server) -> Iterator[S3Server]:
    with seaweed_of(server) as found:
        yield found


@pytest.fixture
def shop(server: S3Server, tmp_path: Path) -> Shop:
    return new_shop(server, tmp_path)


def ship_now(yard: Bucketed) -> list[str]:
    """Names of what was committed by one run."""
    ctx = yard.context()
    return [b.name for b in ship(ctx, ctx.destinations[0]).committed]


def comes_back(yard: Bucketed, member: Dataset, name: str, *keys: Path) -> bool:
    """Whether the recipe of the documentation makes the same files of what is in the bucket."""
    target = f"{yard.vault.name}/back-{name}"
    yard.by_hand(member.name, name, target, *keys)
    same = yard._content(member.name, name) == yard._content(target, name)
    run("zfs", "destroy", "-r", target)
    return same


def test_a_full_copy_then_increments_and_back_by_hand(pool: Pool, vault: Pool, shop: Shop) -> None:
    yard = Bucketed(pool, vault, shop)
    first = yard.backup(1_500_000)
    assert ship_now(yard) == [first]
    second = yard.backup()
    ctx = yard.context()
    report = ship(ctx, ctx.destinations[0])
    assert all(s.step.origin and s.step.origin.name.endswith(f"@{first}") for s in report.sent)
    assert preview(ctx, ctx.destinations[0]).plan == UpToDate(report.newest)
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


def test_a_bucket_is_moved_over_to_a_public_key_and_both_come_back_by_hand(
    pool: Pool, vault: Pool, shop: Shop
) -> None:
    """The new chain is begun without --initial, by a host that cannot read it."""
    key, path, private = some_key(), shop.home / "key", shop.home / "private"
    path.write_bytes(base64.b64encode(key) + b"\n")
    private.write_text(f"# a comment\n{private_text(PRIVATE)}\n")
    yard = Bucketed(pool, vault, shop, keys=(key,), compression="zstd")
    first = yard.backup(1_500_000)
    ship_now(yard)
    yard.storing["public"] = PUBLIC
    second = yard.backup()
    assert ship_now(yard) == [second]
    third = yard.backup()
    assert ship_now(yard) == [third]
    assert [s.base is None for s in yard.streams(yard.outer.name, third)] == [True, False]
    assert comes_back(yard, yard.outer, first, path)
    assert comes_back(yard, yard.outer, third, path, private)


def test_a_chain_that_is_long_enough_begins_anew(pool: Pool, vault: Pool, shop: Shop) -> None:
    yard = Bucketed(pool, vault, shop, max_chain=1)
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
daemon = {{ state_dir = "{home}" }}
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
{more}
[instance.shop.ship.s3]
endpoint = "{endpoint}"
region = "us-east-1"
access_key = "{access}"
secret_key = {{ file = "{password}" }}
path_style = true
segment = "1MiB"
uploads = 2
key = {{ file = "{key}" }}
"""
ON_SCHEDULE = """prune = "1s"
verify = "1s"
verify_read = "all"
grace = "0s"
retention = {{ last = 2, minimum = 1, window = "1 minute" }}"""


def configured(
    yard: Bucketed, key: bytes, endpoint: str, more: str = "", *, access: str = ACCESS
) -> tuple[Path, Path]:
    """The configuration of a host that ships the yard to its bucket, and the key's file."""
    home, secret, file = yard.pool.home, yard.shop.home / "password", yard.shop.home / "key"
    secret.write_text(SECRET, encoding="ascii")
    file.write_text(base64.b64encode(key).decode(), encoding="ascii")
    for path in (secret, file):
        path.chmod(0o600)
    config = yard.shop.home / "zbackup.toml"
    words = {"home": home, "dataset": yard.outer.name, "password": secret, "key": file, "more": more}
    place = {"bucket": BUCKET, "prefix": yard.shop.prefix, "endpoint": endpoint, "access": access}
    config.write_text(CONFIG.format(**words, **place), encoding="ascii")
    return config, file


def test_the_program_killed_at_a_request_goes_on(pool: Pool, vault: Pool, shop: Shop) -> None:
    """SIGKILL as the Nth request comes, for one N after the other; then once in peace."""
    yard = Bucketed(pool, vault, shop)
    name = yard.backup(1_500_000)
    at = 0
    running: list[subprocess.Popen[bytes]] = []

    def kill(number: int, _: str) -> Fault | None:
        if number != at:
            return None
        os.kill(running[-1].pid, signal.SIGKILL)
        return Fault(body=0)

    with proxy(shop.server.endpoint, kill) as through:
        config, key = configured(yard, some_key(), through.endpoint)
        for at in (4, 7, 11, 0):
            through.seen.clear()
            argv = [str(ZBACKUP), "--config", str(config), "ship", "shop"]
            running.append(subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
            said, _ = running[-1].communicate(timeout=300)
            if not at:
                assert running[-1].returncode == 0, said.decode()
    assert name in said.decode()
    assert [r.returncode for r in running].count(-signal.SIGKILL) == 3
    assert yard.committed() == [name]
    assert comes_back(yard, yard.inner, name, key)
    assert all("@" not in mark for mark in yard.marks()), "nothing is held any more"


def test_the_program_says_what_its_credentials_lack(
    pool: Pool, vault: Pool, shop: Shop, seaweed: S3Server
) -> None:
    """In its last line, with the status of it; nothing is lost, and the next run with that right goes on."""
    shop, key = replace(shop, server=seaweed), some_key()
    yard = Bucketed(pool, vault, shop, keys=(key,))
    rules = 'grace = "0s"\nretention = { last = 1, minimum = 1, window = "1 minute" }'

    def told(access: str, *words: str) -> tuple[int, str]:
        config, _ = configured(yard, key, seaweed.endpoint, rules, access=access)
        argv = [str(ZBACKUP), "--config", str(config), *words]
        ended = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        return ended.returncode, ended.stderr.rstrip().rpartition("\n")[2]

    names = [yard.backup()]
    ship_now(yard)
    names.append(yard.backup())
    lacking, said = told(READER, "ship", "shop")
    assert lacking == 3 and said.endswith("which takes s3:PutObject"), said
    assert yard.committed() == names[:1] and told(WRITER, "ship", "shop")[0] == 0
    assert yard.committed() == names and all("@" not in mark for mark in yard.marks())
    with denied(seaweed, BUCKET, WRITER, "s3:DeleteObject"):
        lacking, said = told(WRITER, "prune", "shop", "--at", "bucket")
    assert lacking == 3 and "which takes s3:DeleteObject" in said, said
    assert yard.committed() == names


def test_a_daemon_prunes_the_bucket_and_says_what_is_damaged_in_it(
    pool: Pool, vault: Pool, shop: Shop
) -> None:
    """On schedule: the older of two chains goes, with its segments; what is kept is read, then damaged."""
    key = some_key()
    yard = Bucketed(pool, vault, shop, keys=(key,), max_chain=1)
    names = []
    for _ in range(4):
        names.append(yard.backup())
        ship_now(yard)
    kept = {str(s) for member in yard.members for name in names[2:] for s in yard.streams(member.name, name)}
    config, _ = configured(yard, key, shop.server.endpoint, ON_SCHEDULE.format())
    journal = Journal(pool.home)

    def ended() -> dict[str, str]:
        return {row.job: row.error for row in journal.read() if row.last}

    argv = [str(ZBACKUP), "--config", str(config), "daemon"]
    with (shop.home / "log").open("wb") as sink:
        daemon = subprocess.Popen(argv, stderr=sink)
    try:
        until(lambda: yard.committed() == names[2:])
        until(lambda: ended() == {"prune:bucket": "", "verify:bucket": ""})
        left = [unquote(found.removeprefix(f"{shop.root}/segments/")) for found in shop.segments()]
        assert {found.rpartition("/")[0] for found in left} == kept
        damaged = next(found for found in shop.segments() if "-from-" in found)
        body = bytearray(shop.body(damaged))
        body[len(body) // 2] ^= 1
        shop.replace(damaged, bytes(body))
        until(lambda: ended() == {"prune:bucket": "", "verify:bucket": "VerificationFailed"})
    finally:
        daemon.terminate()
        assert daemon.wait(LIMIT_S) == 0
    said = (shop.home / "log").read_text()
    assert f"{damaged} is not what was stored: it is damaged" in said
    assert yard.committed() == names[2:]
