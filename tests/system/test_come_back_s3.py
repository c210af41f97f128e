"""Shipped to a bucket, and brought back from it where nothing is but a configuration and the key."""

import base64
import os
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.destinations.shop import BUCKET
from tests.lab.pool import Pool, create_pool, run
from tests.lab.s3_proxy import Fault, Proxy, proxy
from tests.lab.s3_server import ACCESS, SECRET, S3Server, client, s3_server
from tests.lab.variants import Variant
from tests.system.archive_story import archiving, lose_host, require_all_back
from tests.system.forked import forks
from tests.system.house import House, next_second, now, utc, wait_until
from tests.system.program import Result, Run
from tests.unit.docs.typed import shell, typed

PREFIX = "fire/drill"
BUCKETS = "zbackup.destinations.s3.from_config"
BEFORE = 14
"""So many segments of a stream are asked for before it is cut: more than can be on their way."""
AGAIN = 10
"""Of these so many may be asked for again: four were on their way, four waited, and two are looked at."""


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-10.11")


class Offsite:
    """zbackup with a bucket as its destination, where the database is and where nothing is."""

    def __init__(self, house: House, server: S3Server, through: Proxy, new: Pool) -> None:
        self.house, self.server, self.through, self.new = house, server, through, new
        self.moments: list[datetime] = []
        self.secret, self.key = house.home / "secret", house.home / "key"
        self.secret.write_text(SECRET)
        self.secret.chmod(0o600)
        here = {"/etc/zbackup/shop.key": shlex.quote(str(self.key))}
        run("sh", "-c", shell("off-site-copies-s3.md", "openssl rand", here))
        run("sh", "-c", shell("off-site-copies-s3.md", "chmod 600", here))
        self.sending = house.configure("sending", ship=[self.ship(server.endpoint)])
        self.burnt = self.elsewhere("burnt")

    def ship(self, endpoint: str, **changes: object) -> dict[str, object]:
        """Chains of two streams, so that there are several."""
        table = {
            "endpoint": endpoint,
            "region": "us-east-1",
            "access_key": ACCESS,
            "secret_key": {"file": str(self.secret)},
            "path_style": True,
            "segment": "1MiB",
            "uploads": 4,
            "key": {"file": str(self.key)},
            "max_chain": 1,
        }
        return {
            "name": "cloud",
            "to": f"s3://{BUCKET}/{PREFIX}",
            "initial": "allow",
            "s3": {k: v for k, v in (table | changes).items() if v is not None},
        }

    def elsewhere(self, name: str, **changes: object) -> Path:
        """The configuration of a host that has another pool, and no dataset of the instance."""
        return self.house.configure(
            name,
            datasets=[f"{self.new.name}/gone"],
            ship=[self.ship(self.through.endpoint, **changes)],
            recovery={"clones": f"{self.new.name}/back", "mountpoint": str(self.new.home / "back")},
        )

    def back(self, *words: str, config: Path | None = None) -> Result:
        return self.house.zb(*words, config=config or self.burnt)

    def restoring(self, to: str, name: str) -> tuple[str, ...]:
        here = {"latest": to, "rescue": name}
        return (*typed("off-site-copies-s3.md", "zbackup restore shop --from cloud", here), "--json")

    def told(self, result: Result, name: str) -> list[int]:
        """The rows on the server that a restore made under that name, and its end."""
        with self.house.clone(result.data) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT n FROM story.told ORDER BY n")
            rows = [int(row[0]) for row in cursor.fetchall()]
        assert self.back("clone", "destroy", name, "--yes").rc == 0
        assert self.left() == [f"{self.new.name}/back"]
        return rows

    def left(self) -> list[str]:
        """All there is on the new pool, without the pool."""
        return run("zfs", "list", "-Hrt", "all", "-o", "name", self.new.name).split("\n")[1:-1]


@pytest.fixture(scope="module")
def offsite(house: House) -> Iterator[Offsite]:
    """Three backups of a growing table in two chains, on a real server."""
    new = create_pool()
    with (
        s3_server() as server,
        proxy(server.endpoint, lambda number, method: None) as through,
        forks(house.home, BUCKETS) as house.forks,
    ):
        client(server).create_bucket(Bucket=BUCKET)
        made = Offsite(house, server, through, new)
        house.server.sql("CREATE DATABASE story")
        house.server.sql("CREATE TABLE story.told (n INT PRIMARY KEY)")
        house.server.sql("CREATE TABLE story.bulk (content LONGBLOB)")
        for _ in range(5):
            house.server.sql("INSERT INTO story.bulk VALUES (%s)", (os.urandom(3 << 20),))
        for number in range(3):
            house.server.sql("INSERT INTO story.told VALUES (%s)", (number * 2,))
            made.moments.append(next_second())
            house.server.sql("INSERT INTO story.told VALUES (%s)", (number * 2 + 1,))
            next_second()
            house.snapshot()
            dry = typed("off-site-copies-s3.md", "zbackup ship shop cloud --dry-run")
            assert house.zb(*dry, config=made.sending).rc == 0
            page = typed("off-site-copies-s3.md", "zbackup ship shop cloud --initial")
            sent = house.zb(*page[: None if number == 0 else 1], config=made.sending)
            assert sent.rc == 0, sent
        yield made
    new.destroy()


def gets(through: Proxy) -> list[str]:
    """The segments that were asked for."""
    return [seen for seen in through.seen if seen.startswith("GET ") and "/segments/" in seen]


def test_what_is_there_is_listed_without_the_host(offsite: Offsite) -> None:
    page = typed("off-site-copies-s3.md", "zbackup list shop --at cloud")
    listed = offsite.back(*page, "--json").data[0]["backups"]
    assert [b["name"] for b in listed] == [b["name"] for b in offsite.house.backups()]
    report = offsite.back("window", "--at", "cloud", "--json").data[0]
    assert len(report["ranges"]) == 1 and report["gaps"] == []
    verified = offsite.back("verify", "--at", "cloud", "--json").data[0]
    assert len(verified["proven"]) == len(listed) and verified["problems"] == []


def test_a_dry_run_fetches_nothing(offsite: Offsite) -> None:
    offsite.through.seen.clear()
    planned = offsite.back(*offsite.restoring("latest", "dry"), "--dry-run").data
    assert planned["fetch"] > 1_000_000
    assert offsite.left() == [] and gets(offsite.through) == []


def test_to_a_moment_between_two_chains(offsite: Offsite) -> None:
    """The base is the last of one, and its log goes on in the full stream of the next."""
    report = offsite.back(*offsite.restoring(offsite.moments[2].isoformat(), "between"))
    assert offsite.told(report, "between") == [0, 1, 2, 3, 4]


def test_a_drill_proves_what_it_does_at_home_and_leaves_nothing(offsite: Offsite) -> None:
    """Killed when its server is being made, the next one does it all: from a backup to the next."""
    words = (*typed("off-site-copies-s3.md", "zbackup verify shop --at cloud"), "--json")
    begun = offsite.house.begin(*words, config=offsite.burnt, forked=True)
    clone = f"{offsite.new.name}/back/shop-drill"
    wait_until("what was fetched is cloned", lambda: f"{clone}/0" in offsite.left(), 120)
    begun.signal_group(signal.SIGKILL)
    assert begun.end().rc == -signal.SIGKILL
    assert clone in offsite.left()
    older, newest = offsite.house.backups()[-2:]
    drill = offsite.back(*words).data[0]["drill"]
    assert drill["base"]["name"] == older["name"] and drill["gtid"] == newest["gtid"]
    assert drill["verdict"]["transactions"] > 0 and drill["tables"] > 2
    assert offsite.left() == [f"{offsite.new.name}/back"]
    listed = offsite.back("list", "--at", "cloud", "--json").data[0]["backups"]
    assert {b["name"]: b["drill"] for b in listed if b["drill"]} == {older["name"]: drill["verdict"]}


def test_killed_while_it_fetches_it_goes_on_where_it_was(offsite: Offsite) -> None:
    """By SIGKILL, in the middle of the first stream and of the second: what has arrived is not fetched again.

    Nothing damaged is restored; the same command goes on when the object is as it was.
    """
    through = offsite.through
    words = offsite.restoring(offsite.moments[1].isoformat(), "killed")
    first = killed_at(offsite, words, lambda: len(of(through, "-full")) > BEFORE)
    second = killed_at(offsite, words, lambda: len(of(through, "-from-")) > 0)
    assert len(first & second) <= AGAIN < BEFORE
    through.seen.clear()
    with damaged(offsite):
        refused = offsite.back(*words)
        assert refused.rc == 11 and "is not what was stored: it is damaged" in refused.out, refused
        verified = offsite.back("verify", "--at", "cloud", "--read", "all")
        assert verified.rc == 11 and "damaged" in verified.out, verified
        assert offsite.back("clone", "list", "--json").data[0]["kind"] == "copy"
    through.seen.clear()
    report = offsite.back(*words)
    assert "continuing with what was fetched" in report.err, report
    assert not first & set(gets(through)), "that stream is whole"
    assert offsite.told(report, "killed") == [0, 1, 2]


def killed_at(offsite: Offsite, words: tuple[str, ...], when: Callable[[], bool]) -> set[str]:
    """SIGKILL as the first segment is asked for that it is said to be time at; all that were asked for."""
    through = offsite.through
    begun: list[Run] = []
    through.seen.clear()

    def kill(_: int, method: str) -> Fault | None:
        if method == "GET" and when():
            begun[0].signal_group(signal.SIGKILL)
        return None

    through.fault = kill
    begun.append(offsite.house.begin(*words, config=offsite.burnt, forked=True))
    assert begun[0].end().rc == -signal.SIGKILL
    through.fault = lambda number, method: None
    return set(gets(through))


def of(through: Proxy, stream: str) -> list[str]:
    """Its segments that were asked for."""
    return [seen for seen in gets(through) if stream in seen]


@contextmanager
def damaged(offsite: Offsite) -> Iterator[None]:
    """One bit of the chain's second stream."""
    direct = client(offsite.server)
    listed = direct.list_objects_v2(Bucket=BUCKET, Prefix=f"{PREFIX}/shop/segments/")["Contents"]
    key = next(found["Key"] for found in listed if "-from-" in found["Key"])
    good = direct.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    bad = bytearray(good)
    bad[len(bad) // 2] ^= 1
    direct.put_object(Bucket=BUCKET, Key=key, Body=bytes(bad))
    yield
    direct.put_object(Bucket=BUCKET, Key=key, Body=good)


def test_without_the_key_nothing_is_begun(offsite: Offsite) -> None:
    other = offsite.house.home / "another key"
    other.write_text(base64.b64encode(os.urandom(32)).decode())
    other.chmod(0o600)
    before = offsite.left()
    config = offsite.elsewhere("keyless", key={"file": str(other)})
    refused = offsite.back(*offsite.restoring("latest", "keyless"), config=config)
    assert refused.rc == 5 and "needs the key" in refused.out, refused
    config = offsite.elsewhere("expired")
    offsite.through.fault = lambda number, method: Fault(status=400, code="ExpiredToken")
    refused = offsite.back(*offsite.restoring("latest", "expired"), config=config)
    offsite.through.fault = lambda number, method: None
    assert refused.rc == 3 and "the session token has expired" in refused.out, refused
    assert offsite.left() == before


def test_a_host_with_nothing_but_the_key_restores_from_the_bucket_alone(offsite: Offsite) -> None:
    """No configuration anywhere: what lies there names itself, and the configuration for it is printed."""
    house, below = offsite.house, f"{offsite.new.name}/alone"
    known = {"ID=...": f"ID={ACCESS}", "KEY=...": f"KEY={SECRET}", "eu-central-1": "us-east-1"}
    exported = shlex.split(shell("disaster-recovery.md", "export", known))[1:]
    environment = dict(each.split("=", 1) for each in exported)
    address = ("--from", f"s3://{BUCKET}/{PREFIX}", "--endpoint", offsite.through.endpoint)
    key = ("--key", str(offsite.key))
    to = ("restore", *address, "--below", below, "--server", str(house.program), "--to", "latest")
    here = {"s3://company-backups/db1": address[1], "/root/shop.key": str(offsite.key)}
    words = typed("disaster-recovery.md", "zbackup list --from s3", here)
    (there,) = house.bare(*words, *address[2:], "--json", environment=environment).data
    assert [b["name"] for b in there["backups"]] == [b["name"] for b in house.backups()]
    assert (there["instance"], there["servers"][0]["engine"]) == ("shop", "mariadb")
    (reach,) = house.bare("window", *address, *key, "--json", environment=environment).data
    assert (reach["ranges"][0]["after"], reach["promised"]) == (there["window"]["after"], None), reach
    assert "can be restored." in house.bare("window", *address, *key, environment=environment).succeeded
    assert "key FILE" in house.bare(*to, "-q", environment=environment).refused(9)
    offsite.key.chmod(0o644)
    assert "lets others read" in house.bare(*to, *key, "-q", environment=environment).refused(2)
    offsite.key.chmod(0o600)
    assert offsite.left() == [f"{offsite.new.name}/back"]
    page = typed("disaster-recovery.md", "zbackup restore --from s3", here | {"tank/recovered": below})
    more = (*address[2:], "--server", str(house.program), "--name", "alone", "-q")
    said = house.bare(*page, *more, environment=environment).succeeded
    text, _, configuration = said.partition("production's place:\n\n")
    assert "Connect with:" in text, said
    config = house.home / "printed.toml"
    config.write_text(configuration)
    fetched, alone = house.zb("clone", "list", "--json", config=config).data
    assert (alone["name"], alone["running"], fetched["name"]) == ("alone", True, "alone.copy")
    with house.clone(alone) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM story.told")
        assert cursor.fetchall() == ((6,),)
    assert house.zb("clone", "destroy", "alone", "--yes", config=config).rc == 0
    assert offsite.left() == [f"{offsite.new.name}/alone", f"{offsite.new.name}/back"]
    run("zfs", "destroy", below)


def test_the_bucket_is_pruned_by_rules_of_its_own(offsite: Offsite) -> None:
    rules = {"keep": [], "last": 1, "minimum": 1, "window": "1 minute"}
    ship = offsite.ship(offsite.server.endpoint) | {"retention": rules, "grace": "0s"}
    config = offsite.house.configure("pruning", ship=[ship])
    backups = offsite.house.backups()
    names, newest = [b["name"] for b in backups], utc(backups[-1]["as_of"])
    wait_until("none is needed for the promised minute", lambda: now() - newest > timedelta(minutes=1), 90)
    dry = typed("off-site-copies-s3.md", "zbackup prune shop --at cloud --dry-run")
    planned = offsite.house.zb(*dry, "--json", config=config).data[0]
    assert [b["name"] for b in planned["destroy"]] == names[:-1]
    page = typed("off-site-copies-s3.md", "zbackup prune shop --at cloud")
    pruned = offsite.house.zb(*page, "--json", config=config).data[0]
    assert [b["name"] for b in pruned["destroyed"]] == names[:-1] and pruned["skipped"] == []
    listed = client(offsite.server).list_objects_v2(Bucket=BUCKET, Prefix=f"{PREFIX}/shop/backups/")
    assert len(listed["Contents"]) == 1
    offsite.house.snapshot()
    assert len(offsite.house.zb("ship", "--json", config=offsite.sending).data[0]["committed"]) == 1


def test_the_host_is_lost_and_what_was_archived_comes_back(offsite: Offsite) -> None:
    """The last, for nothing is left but the bucket, its key and a configuration.

    The base is a stream from the one backup that the bucket's prune has left, so that is whole, too.
    """

    def require_rows(report: dict[str, Any]) -> None:
        with offsite.house.clone(report) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT n FROM story.told ORDER BY n")
            assert [row[0] for row in cursor.fetchall()] == list(range(6))
        rest = offsite.back("list", "--at", "cloud", "--json").data[0]["backups"]
        assert report["base"]["name"] == rest[-1]["name"] and len(rest) == 2

    ship = offsite.ship(offsite.server.endpoint)
    loss = lose_host(offsite.house, offsite.house.configure("archiving", **archiving(ship)))
    require_all_back(offsite.house, loss, "cloud", offsite.back, require_more=require_rows)
