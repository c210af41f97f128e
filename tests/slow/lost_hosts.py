"""Hosts that are lost while they write, again and again, each with all of its datasets.

At a random moment under load the archiver and the server are killed (SIGKILL), with sync_binlog 0 and 1 in
turn, and the datasets are destroyed. Two of four have their archive on another pool, two in a bucket,
encrypted; or all of them have it behind another host's gate. What the destination has is restored, and judged
by the journal of what was acknowledged: all that was archived is there, it is a prefix of each writer's
transactions, none in part.
And no more is lost than was promised: nothing that was acknowledged longer before the end than the interval
and the longest time that an append took.
"""

import base64
import json
import os
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.destinations.shop import BUCKET
from tests.lab.load import verify
from tests.lab.load_journal import Verdict, nanoseconds, read
from tests.lab.pool import Pool, create_pool, run
from tests.lab.s3_server import ACCESS, SECRET, client, s3_server
from tests.lab.two_hosts import TwoHosts
from tests.lab.variants import Variant
from tests.system.archive_story import EVERY, Loss, archiving, lose_host
from tests.system.come_back import make_log
from tests.system.conftest import end_clones
from tests.system.forked import forks
from tests.system.house import House, build, utc
from zbackup.proc.run_directory import daemon_directory

ROUNDS = int(os.environ.get("ZBACKUP_SLOW_ROUNDS", "50"))
EVERY_S = float(EVERY.removesuffix("s"))
SLACK_S = 2.0
"""For the last append, which was under way: nobody knows how long it would have taken."""


@dataclass(slots=True)
class _Appends:
    """How long each look at the log and what it appended took, in seconds, as the archiver's state tells."""

    file: Path
    longest: float = 0.0
    _over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def watched(self) -> Iterator[None]:
        watcher = threading.Thread(target=self._watch)
        watcher.start()
        try:
            yield
        finally:
            self._over.set()
            watcher.join()

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            try:
                written, said = self.file.stat().st_mtime, json.loads(self.file.read_text())["archived"]
            except FileNotFoundError:
                continue
            # Written anew between the two, it only seems longer.
            if said:
                self.longest = max(self.longest, written - utc(said).timestamp())


@dataclass(frozen=True, kw_only=True)
class Lost:
    """How many acknowledged transactions were lost, how long before the end the first of them was
    acknowledged, and how long an append took at most, in seconds."""

    count: int
    seconds: float
    append: float


@dataclass(frozen=True, kw_only=True)
class _Destination:
    """Its tables in the configuration, of who sends and of who restores, and what ssh needs."""

    sending: Mapping[str, object]
    restoring: Mapping[str, object]
    environment: Mapping[str, str] = field(default_factory=dict)
    ready: Callable[[], object] = lambda: None
    """Is called when the first backup is there."""


def lose_hosts(pool: Pool, flavour: str, rounds: int = ROUNDS, hosts: TwoHosts | None = None) -> None:
    """Archive through the gate of the second of the `hosts`, if given. Print, at the end, how much was lost
    at most; `-rP` shows it."""
    chosen = random.Random(flavour)
    there, new = create_pool(), create_pool()
    lost: list[Lost] = []
    try:
        for number in range(rounds):
            lost.append(_round(pool, (there, new), flavour, number, chosen, hosts))
            print(f"round {number}: {lost[-1]}", flush=True)
    finally:
        new.destroy()
        there.destroy()
    seconds = sorted(each.seconds for each in lost)
    print(
        f"{flavour}: {rounds} hosts lost what they acknowledged in their last {seconds[rounds // 2]:.2f} s"
        f" (median), at most {seconds[-1]:.2f} s; an append took at most {max(x.append for x in lost):.2f} s"
    )


def _round(
    pool: Pool,
    others: tuple[Pool, Pool],
    flavour: str,
    number: int,
    chosen: random.Random,
    hosts: TwoHosts | None,
) -> Lost:
    there, new = others
    home = pool.home / f"h{number}"
    home.mkdir()
    data = pool.dataset(f"data {number}")
    log = pool.dataset(f"data {number}/log")
    variant = Variant(flavour=flavour, options=(f"--sync-binlog={number % 2}",))
    by_gate = _gate(hosts, number) if hosts else None
    with (
        by_gate or _destination(there, home, number) as where,
        build(pool, home, variant, data, log) as server,
    ):
        house = House(pool, home, server, (data.name,))
        config = house.configure("archiving", **archiving(where.sending))
        burnt = house.configure(
            "burnt",
            datasets=[f"{new.name}/gone"],
            ship=[where.restoring],
            recovery={"clones": f"{new.name}/back{number}", "mountpoint": str(home / "back")},
        )
        appends = _Appends(daemon_directory(home / "run") / "shop.archive.there.json")
        with forks(home) as house.forks:
            house.snapshot(config)
            assert house.zb("ship", config=config, environment=where.environment).rc == 0
            where.ready()
            with appends.watched():
                loss = lose_host(house, config, where.environment, lambda: time.sleep(chosen.uniform(0, 3)))
            words = ("restore", "--from", "there", "--to", "latest", "--name", "back", "--json")
            report = house.zb(*words, config=burnt, environment=where.environment).data
            with house.clone(report) as connection:
                verdict = verify(connection, loss.journal, loss.archived, loss.gone)
            assert house.zb("clone", "destroy", "back", "--yes", config=burnt).rc == 0
            end_clones(house)
    lost = require_promise(loss, verdict, appends.longest)
    shutil.rmtree(home, ignore_errors=True)
    return lost


@contextmanager
def _gate(hosts: TwoHosts, number: int) -> Iterator[_Destination]:
    """On the second host: by a key that may only append, and one that may only read."""
    root = f"{hosts.root}/lost{number}"
    run("zfs", "create", "-o", "canmount=off", "-o", "mountpoint=none", root)

    def ship(key: str) -> dict[str, object]:
        ssh = {"identity": str(hosts.identity(key)), "known_hosts": str(hosts.known_hosts)}
        return {"name": "there", "to": f"{hosts.url}/lost{number}", "initial": "allow", "ssh": ssh}

    yield _Destination(
        sending=ship("append-only"),
        restoring=ship("read-only"),
        environment=hosts.environment,
        ready=lambda: make_log(root),
    )
    run("zfs", "destroy", "-r", root)


@contextmanager
def _destination(there: Pool, home: Path, number: int) -> Iterator[_Destination]:
    if number // 2 % 2 == 0:
        root = f"{there.name}/copies{number}"
        run("zfs", "create", "-o", "canmount=off", "-o", "mountpoint=none", root)
        ship: dict[str, object] = {"name": "there", "to": f"zfs:{root}", "initial": "allow"}
        yield _Destination(sending=ship, restoring=ship)
        run("zfs", "destroy", "-r", root)
        return
    files = {"secret": SECRET, "key": base64.b64encode(os.urandom(32)).decode()}
    for name, text in files.items():
        (home / name).write_text(text)
        (home / name).chmod(0o600)
    with s3_server() as server:
        client(server).create_bucket(Bucket=BUCKET)
        s3 = {
            "endpoint": server.endpoint,
            "region": "us-east-1",
            "access_key": ACCESS,
            "secret_key": {"file": str(home / "secret")},
            "path_style": True,
            "key": {"file": str(home / "key")},
        }
        ship = {"name": "there", "to": f"s3://{BUCKET}/lost", "initial": "allow", "s3": s3}
        yield _Destination(sending=ship, restoring=ship)


def require_promise(loss: Loss, verdict: Verdict, append: float) -> Lost:
    """What is not there was acknowledged in the last interval and append (of so many seconds at most)."""
    assert append > 0, "the archiver's state was never seen"
    missing = [
        entry.acked
        for entry in read(loss.journal)
        if entry.acked is not None and entry.seq > verdict.last[entry.thread]
    ]
    seconds = (nanoseconds(loss.gone) - min(missing)) / 1e9 if missing else 0.0
    assert seconds <= max(EVERY_S, append) + append + SLACK_S, f"{seconds:.2f} s, an append {append:.2f} s"
    return Lost(count=len(missing), seconds=seconds, append=append)
