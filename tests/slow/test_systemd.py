"""The units as a host runs them: by a real systemd, which starts, watches, reloads and stops the daemon."""

import re
import shlex
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest

from tests.lab import servers
from tests.lab.pool import Pool, create_pool, run
from tests.lab.server_user import SERVER_UID
from tests.lab.servers.templates import DAEMON as DAEMON_OF
from tests.lab.variants import Variant
from tests.slow.systemd_machine import ETC, PROJECT, Systemd
from tests.system.conftest import house
from tests.system.house import House, next_second, wait_until
from tests.unit.docs.pages import blocks
from tests.unit.docs.typed import page_of, shell

__all__ = ["house"]

DAEMON = "zbackup.service"
DROP_IN = ETC / "zbackup.service.d"
SOCKET = "zbackup-helper.socket"
PRODUCTION = "production.service"
UNIT = """[Service]
ExecStart=/usr/bin/setpriv --reuid={uid} --regid={uid} --clear-groups {argv}
"""


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-11.8")


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    """Where the unit's PrivateTmp leaves it in sight."""
    before, tempfile.tempdir = tempfile.tempdir, "/srv"
    made = create_pool()
    tempfile.tempdir = before
    yield made
    made.destroy()


@pytest.fixture(scope="module")
def systemd(house: House) -> Iterator[Systemd]:
    """A host set up as the documentation says, with the passwords where only root can read them."""
    Path("/dev/zfs").chmod(0o666)  # as the rules of udev that come with OpenZFS do
    with Path("/etc/group").open("a") as groups:
        groups.write(f"mysql:x:{SERVER_UID}:\n")
    etc = Path("/etc/zbackup")
    etc.mkdir()
    config = house.configure(
        "unit",
        run_dir=Path("/run/zbackup"),
        daemon={"state_dir": "/var/lib/zbackup", "watch": "3s"},
        password={"credential": "shop"},
        schedule={"snapshot": "5s", "prune": "5s"},
        retention={"last": 3, "minimum": 1, "window": "1 minute"},
        clones={"memory": "32MiB", "memory_max": "320MiB", "cpu_quota": "150%"},
        service={"unit": PRODUCTION},
    )
    text = config.read_text().replace(str(house.home / "clones"), "/var/lib/zbackup/clones")
    (etc / "config.toml").write_text(text)
    shutil.copy(house.home / "password", etc / "shop.password")
    DROP_IN.mkdir(parents=True)
    example = Path(__file__).resolve().parents[2] / "systemd/zbackup.service.d/credentials.conf.example"
    shutil.copy(example, DROP_IN / "credentials.conf")
    # For this test alone: a quick watchdog, and a Python that may lie in somebody's home.
    (DROP_IN / "lab.conf").write_text("[Service]\nWatchdogSec=6s\nProtectHome=read-only\nRestartSec=1s\n")
    machine = Systemd()
    machine.boot()
    machine.type(shell("run-as-a-service.md", "chgrp zbackup"))
    machine.type(shell("run-as-a-service.md", "chmod 750"))
    machine.type(shell("least-privilege.md", "usermod -aG mysql"))
    secret = etc / "shop.password"
    shutil.chown(secret, "root", "root")  # given by systemd, which is root
    secret.chmod(0o600)
    here = {"tank/mysql": shlex.quote(house.pool.data.name)}
    run(*shlex.split(shell("run-as-a-service.md", "zfs allow", here)))
    yield machine
    machine.power_off()


def main_pid(systemd: Systemd) -> int:
    return int(systemd.show(DAEMON, "MainPID"))


def send(systemd: Systemd, number: signal.Signals) -> None:
    assert systemd.inside("kill", f"-{number.value}", str(main_pid(systemd))).rc == 0


def taken(house: House) -> int:
    return len(house.snapshots())


def test_it_starts_and_works_with_nothing_but_its_credentials(house: House, systemd: Systemd) -> None:
    systemd.type(shell("run-as-a-service.md", "systemctl daemon-reload"))  # it waits for READY=1
    assert systemd.show(DAEMON, "ActiveState") == "active"
    user = systemd.inside("ps", "-o", "user=", "-p", str(main_pid(systemd))).out.strip()
    assert user == "zbackup"
    systemd.wait_for_log(DAEMON, '"snapshot.created"', 2)
    systemd.wait_for_log(DAEMON, '"job": "prune"')
    assert "job.failed" not in systemd.journal(DAEMON)
    wait_until("it says how it is", lambda: "1 instance" in systemd.show(DAEMON, "StatusText"), 60)
    assert Path("/var/lib/zbackup/daemon.json").exists()
    print(systemd.type(shell("run-as-a-service.md", "systemctl status")))
    for line in (
        shell("run-as-a-service.md", "journalctl -u zbackup"),
        shell("troubleshooting.md", "journalctl -u zbackup"),
    ):
        assert "snapshot.created" in systemd.type(line).out


def test_it_reloads(systemd: Systemd) -> None:
    before = main_pid(systemd)
    systemd.type(shell("run-as-a-service.md", "systemctl reload"))  # it waits for READY=1 after RELOADING=1
    systemd.wait_for_log(DAEMON, '"config.reloaded"')
    assert (systemd.show(DAEMON, "ActiveState"), main_pid(systemd)) == ("active", before)


def test_one_that_hangs_is_killed_and_started_again(house: House, systemd: Systemd) -> None:
    before = main_pid(systemd)
    send(systemd, signal.SIGSTOP)
    wait_until("another one runs", lambda: main_pid(systemd) not in (0, before), 120)
    wait_until("it is up", lambda: systemd.show(DAEMON, "ActiveState") == "active", 60)
    more = taken(house)
    systemd.wait_for_log(DAEMON, '"daemon.started"', 2)
    wait_until("it works", lambda: taken(house) != more, 60)


def test_a_recovered_server_outlives_the_daemon(house: House, systemd: Systemd) -> None:
    """Of a restore, and of the template for recovered servers."""
    report = systemd.zbackup("restore", "--to", "now", "--name", "rec", "--json").data

    def answers() -> bool:
        with house.clone(report) as connection, connection.cursor() as cursor:
            return bool(cursor.execute("SELECT 1"))

    assert answers()
    systemd.do("restart", DAEMON)
    send(systemd, signal.SIGKILL)
    systemd.wait_for_log(DAEMON, '"daemon.started"', 4)
    assert answers()
    assert systemd.zbackup("clone", "stop", "rec").rc == 0
    systemd.do("start", "zbackup-clone@rec.service")
    assert answers()
    systemd.do("restart", DAEMON)
    assert answers()
    systemd.do("stop", "zbackup-clone@rec.service")
    listed = systemd.zbackup("clone", "list", "--json").data
    assert [clone["running"] for clone in listed] == [False]
    assert systemd.zbackup("clone", "destroy", "rec", "--yes").rc == 0


def test_the_helper_removes_what_a_killed_restore_left(house: House, systemd: Systemd) -> None:
    systemd.type(shell("least-privilege.md", "systemctl enable --now zbackup-helper.socket"))
    systemd.do("stop", DAEMON)
    note = Path("/run/zbackup/half.process")
    script = f"""/usr/local/bin/zbackup restore --to now --name half & RESTORE=$!
        until [ -s {note} ]; do sleep 0.05; done
        kill -KILL $RESTORE; sleep 1; kill -0 $(cut -d' ' -f1 {note})"""
    said = systemd.inside("sh", "-c", script)
    assert said.rc == 0, f"its server goes on: {said}"
    assert f"{house.clones}/half" in house.names()
    systemd.do("start", DAEMON)
    systemd.wait_for_log(DAEMON, "removed the unfinished clone half")
    assert [name for name in house.names() if name.startswith(f"{house.clones}/half")] == []
    assert not note.exists()


def test_it_is_upgraded(systemd: Systemd) -> None:
    """As the page says for a host without a package, with the same version again."""
    before = main_pid(systemd)
    systemd.type(shell("run-as-a-service.md", "systemctl stop"))
    print(systemd.inside("sh", "-c", shell("run-as-a-service.md", "pgrep")))
    install = shell("run-as-a-service.md", "install -m 644 systemd/zbackup.service systemd/zbackup-helper")
    systemd.type(f"cd {shlex.quote(str(PROJECT))} && {install}")
    ours = {"--create": "--create zbackup.conf"}
    systemd.type(shell("run-as-a-service.md", "systemd-tmpfiles --create", ours))
    assert main_pid(systemd) not in (0, before)
    systemd.type(shell("restore-drills.md", "systemctl daemon-reload"))
    assert systemd.ask("is-active", "zbackup-drill.socket") == "active"
    systemd.type(shell("append-only-backup-host.md", "systemctl enable --now zbackup"))
    assert systemd.ask("is-enabled", DAEMON) == "enabled"


def test_the_gate_tells_the_journal_what_it_refused(systemd: Systemd) -> None:
    gate = ("/usr/local/bin/zbackup", "gate", "--root", "tank/backups/db1", "--append-only")
    refused = systemd.inside("env", "SSH_ORIGINAL_COMMAND=zfs destroy tank/backups/db1", *gate)
    assert refused.rc == 9 and "refused by the gate" in refused.err, refused
    line = shell("append-only-backup-host.md", "journalctl -t zbackup-gate")
    wait_until("it is written there", lambda: "refused by the gate" in systemd.type(line).out, 60)


def test_told_to_stop_it_stops(house: House, systemd: Systemd) -> None:
    systemd.do("stop", DAEMON)
    assert (systemd.show(DAEMON, "ActiveState"), systemd.show(DAEMON, "Result")) == ("inactive", "success")
    systemd.wait_for_log(DAEMON, '"daemon.stopped"')
    assert house.sessions() == []
    assert [b["name"] for b in house.backups() if not (b["complete"] and b["finished"])] == []


def test_a_clone_s_limits_are_held_by_a_scope(systemd: Systemd) -> None:
    assert systemd.zbackup("clone", "create", "--name", "small").rc == 0
    for again in (True, False):
        pid = Path("/run/zbackup/small.process").read_text().split()[0]
        scope = systemd.inside("cat", f"/proc/{pid}/cgroup").out.strip().rpartition("/")[2]
        assert scope.startswith("zbackup-server-"), scope
        assert systemd.show(scope, "MemoryMax") == str(320 << 20)
        assert float(systemd.show(scope, "CPUQuotaPerSecUSec").removesuffix("s")) == 1.5
        if again:
            assert systemd.zbackup("clone", "stop", "small").rc == 0
            assert systemd.zbackup("clone", "start", "small").rc == 0
    assert systemd.zbackup("clone", "destroy", "small", "--yes").rc == 0


def test_a_switch_stops_and_starts_production_s_unit(house: House, systemd: Systemd) -> None:
    settings = house.server.settings
    program = servers.path(settings.flavour) / "bin" / DAEMON_OF[settings.kind]
    argv = " ".join(f'"{word}"' for word in (str(program), *settings.arguments()))
    (ETC / PRODUCTION).write_text(UNIT.format(uid=SERVER_UID, argv=argv))
    house.server.stop()
    systemd.do("daemon-reload")
    systemd.do("start", PRODUCTION)
    try:
        wait_until("production answers", lambda: answers(house), 60)
    finally:
        print(systemd.ask("status", PRODUCTION), house.server.last_lines())
    then, moment = house.server.checksum(), next_second()
    house.server.sql("DROP TABLE shop.orders")
    dropped = house.server.checksum()
    assert systemd.zbackup("restore", "--to", moment.isoformat(), "--name", "good").rc == 0
    # Who is no service of systemd's has no credentials.
    by_hand, text = ETC.with_name("by-hand.toml"), Path("/etc/zbackup/config.toml").read_text()
    password = '{ "file" = "/etc/zbackup/shop.password" }'
    by_hand.write_text(text.replace('{ credential = "shop" }', password))
    assert password in by_hand.read_text()
    stops_too_slowly(house, systemd, by_hand)
    seen = {systemd.show(PRODUCTION, "MainPID")}
    for words, sums in ((("good",), then), (("--undo",), dropped)):
        said = systemd.zbackup("--config", str(by_hand), "switch", "shop", *words, "--confirm", "shop")
        assert said.rc == 0, said
        assert house.server.checksum() == sums
        assert systemd.show(PRODUCTION, "ActiveState") == "active"
        seen.add(systemd.show(PRODUCTION, "MainPID"))
    assert len(seen) == 3, "it was stopped and started each time"


def test_a_timer_takes_snapshots_where_no_daemon_runs(house: House, systemd: Systemd) -> None:
    service, timer = (block.text for block in blocks(page_of("systemd-timers.md")) if block.kind == "ini")
    by_hand = f"Environment=ZBACKUP_CONFIG={ETC.with_name('by-hand.toml')}\n"
    (ETC / "zbackup-snapshot.service").write_text(f"{service}{by_hand}")
    (ETC / "zbackup-snapshot.timer").write_text(timer)
    systemd.type(shell("systemd-timers.md", "systemctl daemon-reload"))
    systemd.type(shell("systemd-timers.md", "systemctl enable --now"))
    assert systemd.ask("is-active", "zbackup-snapshot.timer") == "active"
    before = taken(house)
    systemd.do("start", "zbackup-snapshot.service")
    assert taken(house) > before


def stops_too_slowly(house: House, systemd: Systemd, config: Path) -> None:
    """Given up by the switch, the stop is carried out all the same. Production has to run afterwards."""
    before = systemd.show(PRODUCTION, "MainPID")
    drop_in = ETC / f"{PRODUCTION}.d"
    drop_in.mkdir()
    (drop_in / "slow.conf").write_text("[Service]\nExecStop=/usr/bin/sleep 8\n")
    systemd.do("daemon-reload")
    hasty = config.with_name("hasty.toml")
    unit = f'unit = "{PRODUCTION}"'
    hasty.write_text(config.read_text().replace(unit, f'{unit}, limit = "2s"'))
    said = systemd.zbackup("--config", str(hasty), "switch", "shop", "good", "--confirm", "shop")
    assert said.rc == 3 and "starts it again" in said.err, said
    wait_until("it was stopped", lambda: systemd.show(PRODUCTION, "MainPID") not in ("0", before), 60)
    wait_until("it answers again", lambda: answers(house), 60)
    shutil.rmtree(drop_in)
    systemd.do("daemon-reload")


def answers(house: House) -> bool:
    try:
        return bool(house.server.sql("SELECT 1"))
    except pymysql.MySQLError:
        return False


def test_how_it_is_confined(systemd: Systemd) -> None:
    scores = {}
    for unit in (DAEMON, "zbackup-helper@x.service", "zbackup-clone@x.service", "zbackup-drill@x.service"):
        said = systemd.inside("systemd-analyze", "--no-pager", "security", unit).out.splitlines()[-1]
        print(said)
        scores[unit] = float(re.findall(r"\d+\.\d+", said)[-1])
    assert scores[DAEMON] <= 3.0
    # Nothing can be ended by memory's limits here: the lab's kernel has no cgroups for memory.
    for unit in ("zbackup-clone@x.service", "zbackup-drill@x.service"):
        assert systemd.show(unit, "OOMPolicy") == "continue"
