"""Forged records: a thief of a key that may only add sends what he likes, a host sends what nobody asked for.

Through a real sshd with the forced command, and with the program on the host that receives.
"""

import json
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.lab.pool import Pool, run
from tests.lab.two_hosts import TwoHosts, hosts
from tests.platform.test_ship_ssh import Overseas
from tests.system.forked import Forks, forks
from tests.unit.samples import PLAIN
from zbackup.jobs.restore.fetch import fetch
from zbackup.jobs.ship.ship import ship
from zbackup.model.errors import Refused
from zbackup.model.record import PREFIX
from zbackup.model.shipping import commit_properties
from zbackup.zfs.datasets import Zfs

__all__ = ["hosts"]

COUNT = 4
EVIL = "\x1b]0;owned\x07\u202e"


@pytest.fixture(scope="module", autouse=True)
def ssh_in_path(hosts: TwoHosts) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", hosts.environment["PATH"])
        yield


@pytest.fixture(scope="module")
def yard(pool: Pool, hosts: TwoHosts) -> Overseas:
    """Real backups of the last two days, every ten hours, which arrived by the key that may only add."""
    made = Overseas(pool, hosts)
    ctx = made.over_ssh(key="append-only")
    for _ in range(COUNT):
        made.backup(20_000, every=timedelta(hours=10))
        ship(ctx, ctx.destinations[0])
    assert len(made.committed()) == COUNT
    return made


class Receiver:
    """zbackup on the host that has the copies and nothing else of the instance."""

    def __init__(self, yard: Overseas, home: Path, forks: Forks) -> None:
        self.forks, self.config = forks, home / "zbackup.toml"
        self.config.write_text(
            f'run_dir = "{home}"\ndaemon = {{ state_dir = "{home}" }}\n'
            f'[instance.shop]\nengine = "mysql"\ndatasets = ["{yard.vault.name}/gone"]\n'
            f'[[instance.shop.ship]]\nto = "zfs:{yard.root}"\nname = "here"\n'
            'retention = { keep = ["every 1 day for 30 days"], minimum = 1, window = "1 day" }\n'
        )

    def run(self, *words: str) -> tuple[int, str, str]:
        return self.forks.run(("--config", str(self.config), *words), {}, 180)

    def data(self, *words: str) -> Any:
        rc, out, err = self.run(*words, "--json")
        assert rc == 0, err
        return json.loads(out)["data"][0]

    def going(self) -> set[str]:
        return {b["name"] for b in self.data("prune", "shop", "--at", "here", "--dry-run")["destroy"]}


@pytest.fixture(scope="module")
def receiver(yard: Overseas, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    home = tmp_path_factory.mktemp("receiver")
    with forks(home) as made:
        yield Receiver(yard, home, made)


def forge(yard: Overseas, name: str, changed: dict[str, str], **claims: Any) -> None:
    """What whoever has the key sends on top of what is there, and how he commits it."""
    newest = yard.copies()[-1].partition("@")[2]
    run("zfs", "snapshot", *(f"{member.name}@{name}" for member in yard.members))
    record = replace(
        PLAIN,
        backup=f"{yard.root}-{name}",
        members=tuple((d.name, str(d.mountpoint)) for d in yard.members),
        log_id="log",
        **claims,
    )
    copies = [f"{yard.home}/{member.name}@{name}" for member in yard.members]
    for member, copy in zip(yard.members, copies, strict=True):
        sent = yard.hosts.send(
            "-i",
            f"{member.name}@{newest}",
            f"{member.name}@{name}",
            copy.partition("@")[0],
            key="append-only",
        )
        assert sent.returncode == 0, sent.stderr
    guids = [int(run("zfs", "get", "-Hpo", "value", "guid", copy)) for copy in copies]
    marks = commit_properties(record, guids, "today") | {
        PREFIX + key: value for key, value in changed.items()
    }
    done = yard.hosts.ssh("zfs", "set", *(f"{k}={v}" for k, v in marks.items()), *copies, key="append-only")
    assert done.returncode == 0, done.stderr


def real(yard: Overseas) -> list[str]:
    return [f"zbackup-{number}" for number in range(1, COUNT + 1)]


def test_a_backup_that_claims_to_hold_all_makes_no_other_go(yard: Overseas, receiver: Receiver) -> None:
    """As of eight days ago, with the log up to now; then as many as `last` would count."""
    now = datetime.now(UTC)
    before = receiver.going()
    forge(
        yard,
        "liar",
        {},
        taken=now,
        as_of=now - timedelta(days=8),
        complete_to=now,
        log_from="binlog.000001:4",
        log_to="binlog.999999:100",
    )
    assert len(yard.committed()) == COUNT + 1
    assert receiver.going() & set(real(yard)) <= before
    rc, out, err = receiver.run("prune", "shop", "--at", "here")
    assert rc == 0 and {*real(yard)} - before <= set(yard.committed()), (out, err)


def test_one_record_out_of_bounds_is_named_and_nothing_else_fails(yard: Overseas, receiver: Receiver) -> None:
    """A position of thousands of digits, a moment of year 1, a clock that says infinity."""
    now = datetime.now(UTC)
    good = [name for name in yard.committed() if name.startswith("zbackup-")]
    bad = {
        "digits": {"log_from": "binlog." + "9" * 5000 + ":4"},
        "year": {"as_of": "0001-01-01T00:00:00+00:00"},
        "clock": {"clock": "boot inf synchronised"},
        "control": {"members": json.dumps([[f"tank{EVIL}", f"/m{EVIL}"]] * 2)},
    }
    for name, changed in bad.items():
        forge(yard, name, changed, taken=now, as_of=now, complete_to=now)
    listed = receiver.data("list", "shop", "--at", "here")
    assert [b["name"] for b in listed["backups"] if b["name"] != "liar"] == good
    for words in (("list", "shop"), ("window", "shop"), ("prune", "shop", "--dry-run")):
        unreadable = {
            each["snapshot"].partition("@")[2]: each["problem"]
            for each in receiver.data(*words, "--at", "here")["unreadable"]
        }
        assert set(unreadable) == set(bad), words
        assert all(f"zbackup:{key}" in unreadable[name] for name, changed in bad.items() for key in changed)
        rc, out, err = receiver.run(*words, "--at", "here")
        assert rc == 0 and "@digits cannot be read" in out, err
        assert "\x1b" not in out + err and "\u202e" not in out + err
    rc, out, err = receiver.run("received")
    assert "cannot be read" in out + err and "Traceback" not in err, (out, err)
    rc, out, err = receiver.run("verify", "shop", "--at", "here")
    assert rc == 11 and "@year cannot be read" in out, (out, err)
    rc, out, err = receiver.run("prune", "shop", "--at", "here")
    assert rc == 0 and set(bad) <= {copy.partition("@")[2] for copy in yard.copies()}, (out, err)


PACKAGE = """#!/bin/sh
if [ "$1" = send ] && [ "$2" != -nvP ]; then shift; exec {zfs} send -p "$@"; fi
exec {zfs} "$@"
"""


def test_a_package_in_place_of_a_stream_never_reaches_zfs_receive(yard: Overseas, hosts: TwoHosts) -> None:
    """It would carry properties; a restore takes what it asked for, by its guid, and nothing else."""
    ctx = yard.over_ssh(key="plain")
    run("zfs", "create", "-p", "-o", "canmount=off", ctx.clones)
    fake = hosts.programs / "zfs"
    fake.write_text(PACKAGE.format(zfs=shlex.quote(str(shutil.which("zfs")))))
    fake.chmod(0o755)
    container = f"{ctx.clones}/back.copy"
    with ctx.destinations[0].adapter.connect() as session:
        first = session.copies().backups[0]
        with pytest.raises(Refused, match="is refused: a package of streams"):
            fetch(ctx, session, "back", first, first, 0)
        assert [d.name for d in Zfs().filesystems(container)] == [container]
        fake.unlink()
        fetch(ctx, session, "back", first, first, 0)
    for part in Zfs().filesystems(container)[1:]:
        settings = Zfs().values(part.name, "readonly", "canmount", "exec", "setuid", "devices")
        assert settings == ("on", "noauto", "off", "off", "off"), part
