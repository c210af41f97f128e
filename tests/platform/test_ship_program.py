"""zbackup ship as its users run it, as a program: what it says and how it ends."""

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.lab.pool import run
from tests.platform.shipping import START, Yard
from tests.system.forked import Forks, shared
from tests.system.program import spoken
from tests.unit.docs.typed import shell, typed
from zbackup.jobs.job_history import JobHistory
from zbackup.jobs.journal import Journal
from zbackup.jobs.ship.lag import shipped
from zbackup.jobs.ship.ship import ship
from zbackup.model.errors import Refused
from zbackup.model.record import PREFIX

LIMIT_S = 240
ZBACKUP = Path(sys.executable).with_name("zbackup")


class Program:
    """zbackup with a configuration for a yard, to two destinations."""

    def __init__(self, yard: Yard, home: Path, forks: Forks) -> None:
        self.forks = forks
        self.config = home / "zbackup.toml"
        self.config.write_text(
            f'run_dir = "{home}"\n[instance.shop]\nengine = "mysql"\ndatasets = ["{yard.outer.name}"]\n'
            f'[[instance.shop.ship]]\nto = "zfs:{yard.root}"\nname = "vault"\nbandwidth = "100MiB"\n'
            '[[instance.shop.ship]]\nto = "ssh://127.0.0.1:1/tank"\nname = "nowhere"\n'
        )

    def __call__(self, *words: str) -> "subprocess.CompletedProcess[str]":
        argv = ("--config", str(self.config), "ship", *words)
        return subprocess.CompletedProcess(argv, *self.forks.run(argv, {}, 180))

    def data(self, *words: str, status: int = 0) -> list[dict[str, Any]]:
        done = self(*words, "--json")
        assert done.returncode == status, done.stderr
        rows: list[dict[str, Any]] = json.loads(done.stdout)["data"]
        return rows


@pytest.fixture
def program(yard: Yard, tmp_path: Path) -> Program:
    return Program(yard, tmp_path, shared())


def test_the_way_from_nothing_to_a_divergence(yard: Yard, program: Program) -> None:
    first = yard.backup()
    refused = program("shop", "vault")
    assert (refused.returncode, len(spoken(refused.stderr))) == (9, 1), refused.stderr
    assert "zbackup ship shop vault --initial" in refused.stderr
    vault = {"offsite": "vault"}
    dry = typed("off-site-copies-zfs.md", "zbackup ship shop offsite --dry-run", vault)
    (plan,) = program.data(*dry[1:], "--initial")
    assert (plan["plan"], plan["commit"], len(plan["send"])) == ("steps", [first], 2)
    initial = typed("off-site-copies-zfs.md", "zbackup ship shop offsite --initial", vault)
    (done,) = program.data(*initial[1:])
    assert (done["committed"], done["newest"], yard.committed()) == ([first], first, [first])
    assert "up to date" in program("shop", "vault").stdout
    # One destination that cannot be reached does not keep the other from its turn.
    second = yard.backup()
    rows = {row["destination"]: row for row in program.data("--parallel", "2", status=12)}
    assert rows["vault"]["committed"] == [second]
    assert rows["nowhere"]["error"]["kind"] == "ConnectionFailed"
    run("zfs", "snapshot", f"{yard.home}/{yard.outer.name}@mine")
    diverged = program("shop", "vault")
    assert (diverged.returncode, len(spoken(diverged.stderr))) == (13, 1), diverged.stderr
    assert "@mine (guid" in diverged.stderr and f"@{second} (guid" in diverged.stderr
    here = {"tank/backups/shop": shlex.quote(yard.home)}
    run(*shlex.split(shell("off-site-copies-zfs.md", "zfs rename", here)))
    (again,) = program.data(*initial[1:])
    assert again["committed"] == [second]
    assert program("shop", "elsewhere").returncode == 4


def test_a_host_that_receives_says_how_it_is(yard: Yard, program: Program, tmp_path: Path) -> None:
    """Without a configuration; then with one that names the place and rules, and has no such instance."""

    def received(*words: str, config: Path | None = None) -> tuple[int, dict[str, Any]]:
        given = ("--config", str(config)) if config else ()
        rc, out, err = program.forks.run((*given, "received", *words, "--json"), {}, 180)
        assert err == ""
        return rc, json.loads(out)["data"][0]

    rc, nothing = received(yard.root)
    assert (rc, nothing["instances"], nothing["health"]) == (1, [], "critical")
    names = []
    for _ in range(2):
        names.append(yard.backup())
        ship(yard.context(), yard.destination())
    newest = f"{yard.home}/{yard.outer.name}@{names[-1]}"
    run("zfs", "hold", "somebody", newest)
    rc, report = received(yard.root)
    (lot,) = report["instances"]
    named = typed(
        "append-only-backup-host.md",
        "zbackup received",
        {"tank/backups": shlex.quote(yard.root), "26h": "9d"},
    )
    assert received(*named[1:])[0] == 0
    rc_fleet, said, _ = program.forks.run(("fleet", yard.root, "--max-age", "9d", "--json"), {}, 180)
    fleet = json.loads(said)["data"]
    (member,) = fleet["instances"]
    assert (rc_fleet, fleet["health"], member["instance"], member["newest"]) == (0, "ok", "shop", names[-1])
    assert member["backups"] == 2 and member["exposed_seconds"] > 3600
    assert (rc, report["health"], lot["instance"], lot["dataset"]) == (0, "ok", "shop", yard.home)
    assert (lot["newest"]["name"], report["held"]) == (names[-1], [{"snapshot": newest, "tag": "somebody"}])
    assert lot["age_seconds"] > 3600 and report["space"]["available"] > 1_000_000
    assert (received(yard.root, "--max-age", "30m")[0], received(yard.root, "--max-age", "9d")[0]) == (1, 0)
    cut = ["sh", "-c", 'zfs send "$1" | head -c 200000 | zfs receive -su -o readonly=on "$2"', "sh"]
    copy = f"{yard.home}/cut"
    assert subprocess.run(
        [*cut, f"{yard.outer.name}@{names[0]}", copy], capture_output=True, check=False
    ).returncode
    assert received(yard.root)[1]["arriving"] == [copy]
    config = tmp_path / "receiver.toml"
    config.write_text(
        f'run_dir = "{tmp_path}"\ndaemon = {{ state_dir = "{tmp_path}" }}\n'
        f'[instance.shop]\nengine = "mysql"\ndatasets = ["{yard.vault.name}/gone"]\n'
        f'[[instance.shop.ship]]\nto = "zfs:{yard.root}"\nname = "here"\nprune = "1s"\n'
        'grace = "0s"\nretention = { last = 1, minimum = 1, window = "1 minute" }\n'
    )
    rc, report = received(config=config)
    assert (rc, [f["subject"] for f in report["findings"]]) == (1, ["holds", "daemon"])
    assert report["prune"][0]["due"] == names[:-1]
    for command in ("status", "check"):
        rc, out, err = program.forks.run(("--config", str(config), command), {}, 180)
        assert rc == 4 and "zbackup received" in out + err


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not what():
        assert time.monotonic() < end
        time.sleep(0.3)


def test_the_daemon_prunes_at_a_destination_and_says_when_it_differs(yard: Yard, tmp_path: Path) -> None:
    ctx = yard.context()
    names = []
    for _ in range(4):
        names.append(yard.backup())
        ship(ctx, ctx.destinations[0])
    config = tmp_path / "zbackup.toml"
    config.write_text(
        f'run_dir = "{tmp_path}"\ndaemon = {{ state_dir = "{tmp_path}" }}\n'
        f'[instance.shop]\nengine = "mysql"\ndatasets = ["{yard.outer.name}"]\n'
        f'[[instance.shop.ship]]\nto = "zfs:{yard.root}"\nname = "vault"\nprune = "1s"\nverify = "1s"\n'
        'verify_read = "all"\ngrace = "0s"\nretention = { last = 2, minimum = 1, window = "1 minute" }\n'
    )
    daemon = subprocess.Popen([str(ZBACKUP), "--config", str(config), "daemon"], stderr=subprocess.DEVNULL)
    journal = Journal(tmp_path)

    def failures() -> dict[str, str]:
        return {row.job: row.error for row in journal.read() if row.last}

    try:
        until(lambda: yard.committed() == names[2:])
        until(lambda: failures() == {"prune:vault": "", "verify:vault": ""})
        run("zfs", "set", f"{PREFIX}gtid=forged", f"{yard.home}/{yard.outer.name}@{names[-1]}")
        until(lambda: failures() == {"prune:vault": "", "verify:vault": "VerificationFailed"})
    finally:
        daemon.terminate()
        assert daemon.wait(LIMIT_S) == 0


def test_a_stream_that_a_restart_of_the_daemon_cuts_calls_nobody_and_is_gone_on_with(
    yard: Yard, tmp_path: Path
) -> None:
    name = yard.backup(3_000_000)
    config, called = tmp_path / "zbackup.toml", tmp_path / "called"
    hook = tmp_path / "hook"
    hook.write_text(f'#!/bin/sh\necho "$ZBACKUP_JOB $ZBACKUP_RESULT" >> {shlex.quote(str(called))}\n')
    hook.chmod(0o755)

    def daemon(bandwidth: str) -> "subprocess.Popen[bytes]":
        config.write_text(
            f'run_dir = "{tmp_path}"\ndaemon = {{ state_dir = "{tmp_path}" }}\n'
            f'[instance.shop]\nengine = "mysql"\ndatasets = ["{yard.outer.name}"]\n'
            f'schedule = {{ ship = "1h" }}\nnotify = {{ on_failure = ["{hook}"], on_success = ["{hook}"] }}\n'
            f'[[instance.shop.ship]]\nto = "zfs:{yard.root}"\nname = "vault"\ninitial = "allow"\n'
            f"{bandwidth}\n"
        )
        return subprocess.Popen([str(ZBACKUP), "--config", str(config), "daemon"], stderr=subprocess.DEVNULL)

    def end(running: "subprocess.Popen[bytes]") -> None:
        running.terminate()
        assert running.wait(LIMIT_S) == 0

    first = daemon('bandwidth = "100KiB"')
    try:
        until(lambda: any(dataset.partial for dataset in yard.inventory().datasets))
    finally:
        end(first)
    (run_cut,) = [each for each in JobHistory(tmp_path).read() if each.job == "ship"]
    assert (run_cut.result, called.exists(), yard.committed()) == ("postponed", False, [])
    assert run_cut.message == "zfs send: zbackup was told to end"
    second = daemon("")
    try:
        until(lambda: yard.committed() == [name])
        until(called.exists)
    finally:
        end(second)
    assert called.read_text() == "ship success\n" and yard.same(name)


def test_how_far_a_destination_is_behind_is_known_without_it(yard: Yard) -> None:
    ctx = yard.context()

    def behind() -> tuple[str, timedelta] | None:
        (found,) = shipped(ctx, START + timedelta(hours=5))
        return (found.newest.name, found.behind) if found.newest and found.behind is not None else None

    assert behind() is None
    first = yard.backup()
    ship(ctx, ctx.destinations[0])
    second = yard.backup()
    assert behind() == (first, timedelta(hours=4))
    ship(ctx, ctx.destinations[0])
    assert behind() == (second, timedelta(hours=3))
    # Somebody put the copies aside: nothing is there.
    run("zfs", "rename", yard.home, f"{yard.home}.old")
    with pytest.raises(Refused):
        ship(ctx, yard.destination(initial=False))
    assert behind() is None
