"""Who owns a database's host has all that is on it, and reads nothing of what it shipped before.

A host ships and archives for a public key, and does all of its daily work. Then it is taken over, and lost;
on another host, with the private key, everything comes back.
"""

import base64
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.destinations.shop import BUCKET
from tests.lab.pool import Pool, create_pool, run
from tests.lab.s3_server import ACCESS, SECRET, S3Server, client, s3_server
from tests.lab.variants import Variant
from tests.system.archive_story import archiving, lose_host, require_all_back
from tests.system.house import House, next_second, now, utc, wait_until
from tests.system.program import Result
from tests.unit.docs.typed import typed
from zbackup.destinations.s3.encryption import KEY, KeyFiles, Scope
from zbackup.destinations.s3.manifest_schema import SealedKey
from zbackup.destinations.s3.sealed_keys import PrivateKeys
from zbackup.model.errors import ZbackupError
from zbackup.model.key_text import private_bytes

PREFIX = "write/only"
ROOT = f"{PREFIX}/shop"
TOLD = "-- a row that nobody else is to read: 5f1c9d --"


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-10.11")


@dataclass
class Hosts:
    """The database's host, with a directory that is all of its own; and another one, with the private key."""

    house: House
    server: S3Server
    new: Pool
    private: Path
    public: str
    sending: Path
    burnt: Path

    def here(self, *words: str) -> Result:
        return self.house.zb(*words, config=self.sending)

    def there(self, *words: str) -> Result:
        return self.house.zb(*words, config=self.burnt)

    def ship(self, **more: object) -> dict[str, object]:
        table = {
            "endpoint": self.server.endpoint,
            "region": "us-east-1",
            "access_key": ACCESS,
            "secret_key": {"file": str(self.house.home / "secret")},
            "path_style": True,
            "segment": "1MiB",
            "uploads": 4,
            "key": {"file": str(self.house.home / "key")},
            "max_chain": 1,
            "compression": "none",
        }
        return {"name": "cloud", "to": f"s3://{BUCKET}/{PREFIX}", "initial": "allow", "s3": table | more}

    def objects(self, below: str) -> dict[str, bytes]:
        direct = client(self.server)
        listed = direct.list_objects_v2(Bucket=BUCKET, Prefix=f"{ROOT}/{below}").get("Contents", ())
        return {
            found["Key"]: direct.get_object(Bucket=BUCKET, Key=found["Key"])["Body"].read()
            for found in listed
        }


@pytest.fixture(scope="module")
def hosts(house: House) -> Iterator[Hosts]:
    """Three backups of a growing table in two chains, and log that is archived behind them."""
    new = create_pool()
    for name, text in {"secret": SECRET, "key": base64.b64encode(os.urandom(KEY)).decode()}.items():
        (house.home / name).write_text(text)
        (house.home / name).chmod(0o600)
    with s3_server() as server:
        client(server).create_bucket(Bucket=BUCKET)
        private = new.home / "shop.private"
        here = {"/root/shop.private": str(private)}
        page = typed("off-site-copies-s3.md", "zbackup key --new", here)
        made = house.zb(*page, "--json").data
        hosts = Hosts(house, server, new, private, made["public_key"], house.default, house.default)
        ship = hosts.ship(public_key=hosts.public)
        hosts.sending = house.configure("sending", **archiving(ship))
        hosts.burnt = house.configure(
            "burnt",
            datasets=[f"{new.name}/gone"],
            ship=[hosts.ship(private_key=[{"file": str(private)}])],
            recovery={"clones": f"{new.name}/back", "mountpoint": str(new.home / "back")},
        )
        house.server.sql("CREATE DATABASE story")
        house.server.sql("CREATE TABLE story.told (n INT PRIMARY KEY, said TEXT)")
        for number in range(3):
            house.server.sql("INSERT INTO story.told VALUES (%s, %s)", (number, TOLD))
            next_second()
            house.snapshot(config=hosts.sending)
            assert hosts.here("ship").rc == 0
        assert hosts.here("archive", "shop", "--once").rc == 0
        house.server.sql("INSERT INTO story.told VALUES (3, %s)", (TOLD,))
        assert hosts.here("archive", "shop", "--once").rc == 0
        yield hosts
    new.destroy()


def test_the_host_does_all_of_its_daily_work_without_the_private_key(hosts: Hosts) -> None:
    listed = hosts.here("list", "--at", "cloud", "--json").data[0]["backups"]
    assert len(listed) == 3
    verified = hosts.here("verify", "--at", "cloud").succeeded
    assert "3 backups, by the listing of their objects" in verified and "nothing of it read" in verified
    assert hosts.here("window", "--at", "cloud", "--json").data[0]["gaps"] == []
    assert len(hosts.here("status", "--json").data) == 1
    checked = {f["subject"]: f for f in hosts.here("check", "--json").data[0]["findings"]}
    assert checked["keys of cloud"]["severity"] == "ok"
    assert "write-only: the private key of" in checked["keys of cloud"]["text"]
    streams = {key.rpartition("/@")[2].partition("/")[0] for key in hosts.objects("streams/")}
    assert sum("-full" in each for each in streams) >= 2 and any("-from-" in each for each in streams)


@pytest.mark.parametrize(
    "words",
    [
        ("restore", "--from", "cloud", "--to", "latest", "--name", "taken"),
        ("restore", "--from", "cloud", "--to", "latest", "--name", "taken", "--dry-run"),
        ("verify", "--at", "cloud", "--read", "all"),
        ("verify", "--at", "cloud", "--drill"),
        ("log", "--at", "cloud"),
        ("key", "shop", "--at", "cloud"),
    ],
    ids=" ".join,
)
def test_what_has_to_read_ends_before_anything_is_made(hosts: Hosts, words: tuple[str, ...]) -> None:
    before = hosts.house.state()
    refused = hosts.here(*words)
    assert refused.rc == 9, refused
    (said,) = [line for line in refused.err.splitlines() if "private key" in line]
    assert said.endswith("run the same command on a host that has it, with --private-key FILE")
    assert hosts.house.state() == before


def candidates(directory: Path) -> set[bytes]:
    """All that may be a key in the files below a directory, in each way in which keys are written."""
    found: set[bytes] = set()
    for path in directory.rglob("*"):
        if not path.is_file() or path.stat().st_size > 1 << 20:
            continue
        body = path.read_bytes()
        found |= {body} if len(body) == KEY else set()
        found |= {base64.b64decode(word) for word in re.findall(rb"[A-Za-z0-9+/]{43}=", body)}
        found |= {bytes.fromhex(word.decode()) for word in re.findall(rb"\b[0-9a-f]{64}\b", body)}
        found |= {private_bytes(word.decode()) for word in re.findall(rb"AGE-SECRET-KEY-1[A-Z0-9]{58}", body)}
    return found


def attack(hosts: Hosts, mine: set[bytes]) -> tuple[int, int]:
    """How many segments and pieces of archived log open with these keys, and all that they unwrap."""
    segments = hosts.objects("segments/")
    opened = 0
    for key, body in hosts.objects("streams/").items():
        if not key.endswith("stream.json"):
            continue
        page = json.loads(body)
        begun = page["begun"]
        way = "full" if begun["base"] is None else f"from-{begun['base']}"
        stream = f"{begun['line']}/@{begun['guid']}-{way}"
        scope = Scope(about=stream, root=begun["root"], server=begun["server"])
        keys = mine | all_opened(mine, scope, begun["encryption"], begun.get("contents"))
        for number, segment in enumerate(page["segments"]):
            found = next(b for k, b in segments.items() if k.endswith(f"{number:08}.{segment['sha256']}"))
            last = int(number == len(page["segments"]) - 1)
            place = f"zbackup segment 1\n{stream}\n{number}\n{last}".encode()
            opened += any(opens(each, found, place) for each in keys)
    logs = 0
    for key, body in hosts.objects("log/").items():
        if key.endswith(".writer"):
            continue
        line, _, content = body.partition(b"\n")
        head, (server, file, chunk) = json.loads(line), key.removeprefix(f"{ROOT}/log/").split("/")
        scope = Scope(about=f"the log of {server}", root=ROOT, server=server)
        keys = mine | all_opened(mine, scope, head["encryption"], head.get("contents"))
        name = f"log {server}/{file}/{chunk} {head['compression']}"
        place = f"zbackup segment 1\n{name}\n0\n1".encode()
        logs += any(opens(each, content, place) for each in keys)
    return opened, logs


def all_opened(
    mine: set[bytes], scope: Scope, envelope: dict[str, str], contents: dict[str, str] | None
) -> set[bytes]:
    """The keys that these keys open, by each way that there is."""
    found: set[bytes] = set()
    for key in mine:
        try:
            store = KeyFiles(lambda key=key: (key,))  # type: ignore[misc]
            found.add(store.unwrap(store.key_id, envelope["wrapped"], scope))
        except ZbackupError:
            pass
        if contents:
            try:
                sealed = SealedKey.model_validate(contents)
                private = PrivateKeys(lambda key=key: (key,))  # type: ignore[misc]
                if private.has(sealed.public_key):
                    found.add(private.unseal(sealed, scope).key)
            except ZbackupError:
                pass
    return found


def opens(key: bytes, body: bytes, place: bytes) -> bool:
    try:
        AESGCM(key).decrypt(body[:12], body[12:], place)
    except InvalidTag:
        return False
    return True


def test_nothing_that_is_on_the_host_opens_what_it_shipped_or_archived(hosts: Hosts) -> None:
    """Configuration, key file, state, run directory and cache; the private key, tried the same way, does."""
    mine = candidates(hosts.house.home)
    assert base64.b64decode((hosts.house.home / "key").read_text()) in mine and len(mine) > 3
    assert attack(hosts, mine) == (0, 0)
    assert not [path for path in hosts.house.home.rglob(".unfinished/*/*") if path.is_file()]
    assert not [key for key, body in hosts.objects("").items() if TOLD.encode() in body]
    private = private_bytes(hosts.private.read_text())
    opened, logs = attack(hosts, {private})
    assert opened == len(hosts.objects("segments/")) and logs == len(
        [key for key in hosts.objects("log/") if not key.endswith(".writer")]
    )
    assert opened > 5 and logs >= 2


def test_with_the_private_key_it_is_tried_and_read_elsewhere(hosts: Hosts) -> None:
    tried = hosts.there("key", "shop", "--at", "cloud", "--json").data[0]
    assert tried["streams"] >= 1 and tried["read"] > 0 and tried["log_read"] > 0
    given = hosts.here("key", "shop", "--at", "cloud", "--private-key", str(hosts.private), "--json").data[0]
    assert given == tried
    environment = {
        "AWS_ACCESS_KEY_ID": ACCESS,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    where = {
        "s3://bucket/prefix": f"s3://{BUCKET}/{PREFIX}",
        "--key shop.key": f"--key {hosts.house.home / 'key'}",
        "shop.private": str(hosts.private),
    }
    page = typed("off-site-copies-s3.md", "zbackup key --from", where)
    alone = hosts.house.bare(*page, "--endpoint", hosts.server.endpoint, "--json", environment=environment)
    assert alone.data[0] == tried
    # Without a configuration: what is printed for the new host has the public key, and not the private one.
    words = ("--to", "latest", "--name", "bare", "--server", str(hosts.house.program), "-q")
    restoring = (
        "restore",
        *page[1:],
        "--endpoint",
        hosts.server.endpoint,
        "--below",
        f"{hosts.new.name}/alone",
    )
    said = hosts.house.bare(*restoring, *words, environment=environment).succeeded
    assert f'public_key = "{hosts.public}"' in said and str(hosts.private) not in said
    printed = hosts.house.home / "printed.toml"
    printed.write_text(said.partition("production's place:\n\n")[2])
    assert hosts.house.zb("clone", "destroy", "bare", "--yes", config=printed).rc == 0
    other = hosts.new.home / "other.private"
    assert hosts.house.zb("key", "--new", str(other)).rc == 0
    refused = hosts.here("key", "shop", "--at", "cloud", "--private-key", str(other))
    assert refused.rc == 9 and "only the private key of the public key" in refused.err, refused
    assert hosts.there("verify", "--at", "cloud", "--read", "all").rc == 0
    drilled = hosts.there("verify", "--at", "cloud", "--drill", "--json").data[0]
    assert drilled["drill"]["tables"] > 0
    shown = hosts.here("log", "--at", "cloud", "--private-key", str(hosts.private), "--table", "story.told")
    assert shown.rc == 0 and "story.told" in shown.out, shown


def test_the_bucket_is_pruned_and_collected_without_the_private_key(hosts: Hosts) -> None:
    rules = {"keep": [], "last": 1, "minimum": 1, "window": "1 minute"}
    ship = hosts.ship(public_key=hosts.public) | {"retention": rules, "grace": "0s"}
    config = hosts.house.configure("pruning", ship=[ship])
    backups = hosts.house.backups()
    newest = utc(backups[-1]["as_of"])
    wait_until("none is needed for the promised minute", lambda: now() - newest > timedelta(minutes=1), 90)
    pruned = hosts.house.zb("prune", "shop", "--at", "cloud", "--json", config=config).data[0]
    assert len(pruned["destroyed"]) == 2 and pruned["skipped"] == []
    assert hosts.here("verify", "--at", "cloud").rc == 0
    hosts.house.snapshot(config=hosts.sending)
    assert len(hosts.here("ship", "--json").data[0]["committed"]) == 1
    assert hosts.there("verify", "--at", "cloud", "--read", "all").rc == 0


def test_the_host_is_lost_and_all_comes_back_where_the_private_key_is(hosts: Hosts) -> None:
    """The last: nothing is left but the bucket, the two keys and a configuration."""

    def require_rows(report: dict[str, Any]) -> None:
        with hosts.house.clone(report) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT n, said FROM story.told ORDER BY n")
            assert list(cursor.fetchall()) == [(n, TOLD) for n in range(4)]

    loss = lose_host(hosts.house, hosts.sending)
    assert attack(hosts, {base64.b64decode((hosts.house.home / "key").read_text())}) == (0, 0)
    require_all_back(hosts.house, loss, "cloud", hosts.there, require_more=require_rows)
    assert run("zfs", "list", "-Ho", "name", hosts.new.name)
