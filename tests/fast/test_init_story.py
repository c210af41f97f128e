"""`zbackup init` on a host in memory: what it shows, does and refuses."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fast.init_host import SOCKET, Host, mysqld
from tests.fast.world import World
from zbackup.config.load import load
from zbackup.features.init import finish
from zbackup.features.init.jobs import host as host_module
from zbackup.features.init.plan import service
from zbackup.model.errors import (
    CommandFailed,
    ConfigError,
    DatabaseError,
    NotFound,
    Refused,
    UsageError,
    VerificationFailed,
)

Printed = pytest.CaptureFixture[str]


@pytest.fixture(name="host")
def on_a_host(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host(world, tmp_path)
    made.at_home(monkeypatch)
    world.writing = False
    return made


def told(capsys: Printed) -> tuple[str, str]:
    out, err = capsys.readouterr()
    return out, err


def steps(err: str) -> list[str]:
    """The numbered steps that were shown."""
    lines = [line.removeprefix("zbackup:").strip() for line in err.splitlines()]
    return [line.partition(". ")[2] for line in lines if line.partition(". ")[0].isdecimal()]


def on_systemd(host: Host, *, active: bool = False) -> None:
    """The service's files are those that a package brings."""
    units = {name: f"/usr/lib/{name}" for name in (*service.UNITS, *service.SETTINGS)}
    host.facts = replace(host.facts, systemd=True, user=True, units=units, active=active)


FIRST = [
    "take the first backup of db",
    "restore it once, check every table, and remove that again: a drill of db",
]


def test_one_command_protects_a_host(host: Host, capsys: Printed) -> None:
    assert host.init("--yes") == 0
    out, err = told(capsys)
    assert "set up, but for the daemon: db, after" in out and "`/usr/bin/zbackup daemon` running" in out
    assert len(steps(err)) == 5 and steps(err)[-2:] == FIRST
    password = (host.etc / "db.password").read_text().strip()
    assert host.server().account_works("zbackup", password) and password not in out + err
    assert load(host.config).instance["db"].datasets == ("tank/db",)
    assert "found mysql 8.4.3 at /run/mysqld/mysqld.sock, on tank/db, tank/db/log\n" in err
    assert "  # " not in err  # nothing is run that one could type


def test_run_again_it_does_nothing_and_says_that_all_is_well(host: Host, capsys: Printed) -> None:
    host.init("--yes")
    before = host.state()
    told(capsys)
    assert host.init("--yes") == 0
    out, err = told(capsys)
    assert steps(err) == [] and "instance db already" in err and "set up" in out
    assert host.state() == before


def test_what_is_printed_is_what_would_be_and_nothing_is_changed(host: Host, capsys: Printed) -> None:
    before = host.state()
    assert host.init("--print") == 0
    out, err = told(capsys)
    assert list(tomllib.loads(out)["instance"]) == ["db"] and steps(err)[-2:] == FIRST
    assert host.init("--print", "--json") == 0
    data = json.loads(told(capsys)[0])["data"]
    assert data["dry_run"] and data["added"] == ["db"] and data["configuration"] == out
    assert not any(step["done"] for step in data["steps"]) and len(data["steps"]) == 5
    assert host.state() == before and not host.etc.exists()


def test_json_tells_what_was_done(host: Host, capsys: Printed) -> None:
    assert host.init("--yes", "--json") == 0
    data = json.loads(told(capsys)[0])["data"]
    assert (data["dry_run"], data["added"], data["not_protected"]) == (False, ["db"], [])
    assert "configuration" not in data and data["config"] == str(host.config)
    assert [step["kind"] for step in data["steps"]] == ["secret", "account", "config", "snapshot", "drill"]
    assert all(step["done"] for step in data["steps"])
    assert data["steps"][0]["path"] == str(host.etc / "db.password") and data["steps"][0]["command"] is None
    assert data["steps"][1]["instance"] == "db" and data["steps"][1]["path"] is None


def test_a_drill_that_is_not_wanted_is_not_made_now_or_later(host: Host, capsys: Printed) -> None:
    assert host.init("--yes", "--no-drill") == 0
    assert steps(told(capsys)[1])[-1:] == FIRST[:1]
    assert host.init("--yes", "--no-drill") == 0
    assert steps(told(capsys)[1]) == []
    assert host.init("--yes") == 0
    assert steps(told(capsys)[1]) == FIRST[1:]
    assert host.init("--yes") == 0
    assert steps(told(capsys)[1]) == []


def test_a_drill_that_fails_is_no_success_and_is_made_again(host: Host, capsys: Printed) -> None:
    host.world.damaged_tables = ("shop.orders: a page has a wrong checksum",)
    assert host.init("--yes") == VerificationFailed.exit_status
    out, err = told(capsys)
    assert "shop.orders" in err and "set up" not in out and "protected:" not in out
    host.world.damaged_tables = ()
    assert host.init("--yes") == 0
    out, err = told(capsys)
    assert steps(err) == FIRST[1:] and "set up, but for the daemon: db" in out


def test_a_backup_that_fails_is_not_drilled_and_the_daemon_tries_it_again(
    host: Host, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_systemd(host)

    def fails(ctx: Any) -> None:
        raise DatabaseError("the lock was not granted")

    monkeypatch.setattr(finish, "snapshot", fails)
    assert host.init("--yes", "--json") == DatabaseError.exit_status
    out, err = told(capsys)
    data = json.loads(out)["data"]
    assert data["not_protected"][0] == "the lock was not granted" and "the lock was not granted" in err
    done = {step["kind"]: step["done"] for step in data["steps"]}
    assert (done["config"], done["snapshot"], done["drill"]) == (True, False, False)
    assert host.ran[-1][:3] == ("systemctl", "enable", "--now")


def test_what_fails_before_the_configuration_ends_it(host: Host, capsys: Printed) -> None:
    on_systemd(host)
    host.fails = ("zfs", "allow")
    assert host.init("--yes") == CommandFailed.exit_status
    assert not host.config.exists() and host.ran == []
    host.fails = ()
    assert host.init("--yes") == 0
    assert "protected: db, after" in told(capsys)[0]


# the service


def test_under_systemd_the_daemon_gets_its_rights_and_is_started(host: Host, capsys: Printed) -> None:
    on_systemd(host)
    assert host.init("--yes") == 0
    out, err = told(capsys)
    assert "protected: db, after" in out and "supervisor" not in out
    rights, start = host.ran
    assert rights[:4] == ("zfs", "allow", "-u", "zbackup") and rights[-1] == "tank/db"
    assert start == ("systemctl", "enable", "--now", *service.STARTED)
    assert f"# {' '.join(start)}" in err
    assert host.init("--yes") == 0
    assert len(host.ran) == 2 and steps(told(capsys)[1]) == []


def test_the_services_files_come_first_where_no_package_brought_them(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_systemd(host)
    place = host.etc.parent / "system"
    monkeypatch.setattr(service, "UNIT_DIRECTORY", str(place))
    monkeypatch.setattr(service, "SETTINGS", {name: str(place / name) for name in service.SETTINGS})
    host.facts = replace(host.facts, units={})
    assert host.init("--yes") == 0
    assert host.ran[0][0] == "systemd-sysusers"
    unit = (place / "zbackup.service").read_text()
    assert f"ExecStart={host.facts.program} daemon" in unit


def test_a_program_that_others_could_replace_is_started_by_no_unit(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_systemd(host)

    def refuse(program: str) -> None:
        raise Refused(f"{program}: others may write there")

    monkeypatch.setattr(host_module, "require_roots_program", refuse)
    for active in (False, True):
        host.facts = replace(host.facts, active=active)
        assert host.init("--yes") == Refused.exit_status
        assert not host.etc.exists() and host.ran == []
    host.facts = replace(host.facts, systemd=False, active=False)  # no unit starts it there
    assert host.init("--yes") == 0
    host.facts = replace(host.facts, systemd=True)
    assert host.init("--yes") == Refused.exit_status
    host.facts = replace(host.facts, active=True)  # it runs, and nothing comes new
    assert host.init("--yes") == 0


def test_an_instance_that_is_lost_is_no_success(host: Host, capsys: Printed) -> None:
    host.init("--yes")
    with host.config.open("a") as file:
        file.write("\n[instance.gone]\nengine = 'mongodb'\ndatasets = ['tank/gone']\n")
    told(capsys)
    assert host.init("--yes") != 0
    out, _ = told(capsys)
    assert "Instance db: ok" in out and "Instance gone: critical" in out and "set up" not in out


def test_what_the_daemon_cannot_do_is_no_success(host: Host, capsys: Printed) -> None:
    on_systemd(host)
    host.verdict = [Refused("db: the daemon cannot do its work")]
    assert host.init("--yes") == Refused.exit_status
    out, err = told(capsys)
    assert "the daemon cannot do its work" in err and "protected:" not in out


def test_a_daemon_that_somebody_stopped_stays_so_and_that_is_said(host: Host, capsys: Printed) -> None:
    on_systemd(host)
    host.init("--yes")
    host.facts = replace(host.facts, active=False)
    host.verdict = [Refused("it was asked for a verdict")]
    told(capsys)
    before = host.state()
    assert host.init("--yes") == 0
    out, err = told(capsys)
    assert "advice: the daemon does not run" in err and "set up, but for the daemon: db" in out
    assert "systemctl enable --now" in out and host.state() == before


def test_a_drill_that_is_not_wanted_starts_no_daemon_that_somebody_stopped(host: Host) -> None:
    on_systemd(host)
    host.init("--yes", "--no-drill")
    host.facts = replace(host.facts, active=False)
    before = host.state()
    assert host.init("--yes", "--no-drill") == 0
    assert host.state() == before
    assert host.init("--yes") == 0
    assert host.ran[-1][:3] == ("systemctl", "enable", "--now")


def test_a_configuration_that_the_daemon_cannot_read_is_told(
    host: Host, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_systemd(host)
    monkeypatch.setattr(host_module, "daemon_may_read", lambda _: False)
    for _ in range(2):
        assert host.init("--yes") == 0
    assert told(capsys)[1].count("the daemon cannot read") == 1
    monkeypatch.setattr(host_module, "daemon_may_read", lambda _: True)
    assert host.init("--yes") == 0
    host.facts = replace(host.facts, systemd=False)
    monkeypatch.setattr(host_module, "daemon_may_read", lambda _: False)
    assert host.init("--yes") == 0
    assert "cannot read" not in told(capsys)[1]


# what is refused


def test_without_a_server_there_is_nothing_to_set_up(host: Host, capsys: Printed) -> None:
    host.processes = []
    assert host.init("--yes") == NotFound.exit_status
    assert "no mysqld, mariadbd or mongod runs" in told(capsys)[1]
    host.processes = [mysqld(uid=0)]
    assert host.init("--yes") == Refused.exit_status
    assert "no database server here can be protected: it runs as root" in told(capsys)[1]
    host.processes = [mysqld(uid=1000, user="eve")]
    assert host.init("--yes") == Refused.exit_status
    err = told(capsys)[1]
    assert "nothing is protected: /run/mysqld/mysqld.sock: the ordinary user eve" in err
    assert "found mysql (version not told) at /run/mysqld/mysqld.sock, run by the ordinary user eve\n" in err
    host.processes = [mysqld(unit="")]
    assert host.init("--yes") == Refused.exit_status
    err = told(capsys)[1]
    assert "tank/db/log, run by u110 outside any unit of systemd\n" in err
    assert f"nothing is protected: {SOCKET}: u110 runs it outside any unit" in err
    host.processes = [mysqld(directories=("/var/lib/mysql",))]
    assert host.init("--yes") == Refused.exit_status
    assert "/var/lib/mysql lies on no ZFS dataset" in told(capsys)[1]
    assert not host.etc.exists() and host.server().asked_to_create == 0


def test_processes_that_are_too_many_are_counted(host: Host, capsys: Printed) -> None:
    host.processes, host.cut = [], 3
    assert host.init("--yes") == Refused.exit_status
    assert "found 3 more processes that run a database server" in told(capsys)[1]


def test_a_configuration_that_nothing_can_be_added_to_is_refused_first(host: Host) -> None:
    host.etc.mkdir(mode=0o755)
    host.config.write_text('instance = { old = { engine = "mongodb", datasets = ["tank/other"] } }\n')
    before = host.state()
    assert host.init("--yes") == ConfigError.exit_status
    assert host.state() == before


def test_what_zbackup_runs_where_the_configuration_says_is_not_offered(host: Host, capsys: Printed) -> None:
    host.etc.mkdir(mode=0o755)
    text = "run_dir = '/run/elsewhere'\n[instance.old]\nengine = 'mongodb'\ndatasets = ['tank/other']\n"
    host.config.write_text(text)
    host.processes = [mysqld("/run/elsewhere/old-drill/m.sock")]
    host.init("--print")
    assert "found mysql" not in told(capsys)[1]


def test_who_wants_quiet_hears_of_results_alone(host: Host, capsys: Printed) -> None:
    assert host.init("--yes", "--quiet") == 0
    out, err = told(capsys)
    assert "set up" in out and steps(err) == [] and "found" not in err


MONGOD = mysqld(program="/usr/bin/mongod", sockets=(), ports=(("127.0.0.1", 27017),))


def test_an_open_mongod_needs_no_account(host: Host, capsys: Printed) -> None:
    host.processes = [MONGOD]
    open_to_all = host.server("127.0.0.1:27017")
    open_to_all.admits, open_to_all.is_open = ("", None), True
    host.init("--yes", "--no-drill")
    assert set(open_to_all.asked) == {("", None)} and open_to_all.password is None
    (instance,) = load(host.config).instance.values()
    assert (instance.engine, instance.password) == ("mongodb", None)
    assert [each.name for each in host.etc.iterdir()] == ["config.toml"]
    assert "account" not in " ".join(steps(told(capsys)[1]))


def test_one_that_cannot_be_protected_does_not_keep_another_from_it(host: Host, capsys: Printed) -> None:
    host.processes = [mysqld(directories=("/var/lib/mysql",)), mysqld("/run/b", 111)]
    assert host.init("--print") == Refused.exit_status
    told(capsys)
    assert host.init("--yes", "--json") == Refused.exit_status
    data = json.loads(told(capsys)[0])["data"]
    assert data["added"] == ["db"] and "lies on no ZFS dataset" in data["not_protected"][0]
    assert "db" in load(host.config).instance


def test_one_that_is_left_is_no_success_unless_others_were_named(host: Host, capsys: Printed) -> None:
    host.processes = [mysqld(), mysqld("/run/eve", 1000), mysqld("/run/root", 0)]
    assert host.init("--yes", "--no-drill") == Refused.exit_status
    err = told(capsys)[1]
    assert (
        "not protected: /run/eve" in err
        and "(process 0, user u0): it runs as root" in err
        and "not every server" in err
    )
    assert host.init("--yes", "--instance", f"db={SOCKET}") == 0
    assert "not protected: /run/eve" in told(capsys)[1]


def test_a_server_that_is_named_and_not_there_is_not_found(host: Host, capsys: Printed) -> None:
    assert host.init("--yes", "--instance", "shop=/run/other") == NotFound.exit_status
    assert f"no database server runs at /run/other; found: {SOCKET}" in told(capsys)[1]


def test_a_name_that_is_taken_is_refused(host: Host, capsys: Printed) -> None:
    host.etc.mkdir()
    host.config.write_text("[instance.shop]\nengine = 'mongodb'\ndatasets = ['tank/other']\n")
    before = host.state()
    assert host.init("--yes", "--instance", f"shop={SOCKET}") == UsageError.exit_status
    assert 'there is an instance "shop" already' in told(capsys)[1] and host.state() == before


def test_where_nobody_is_let_in_a_script_is_left_and_nothing_is_backed_up(
    host: Host, capsys: Printed
) -> None:
    host.server().admits = ("dba", "hush")
    assert host.init("--yes") == DatabaseError.exit_status
    out, err = told(capsys)
    script = host.etc / "db.account.sql"
    assert f"run mysql -S {SOCKET} -u root -p < {script}, and then zbackup init again" in err
    assert script.stat().st_mode & 0o777 == 0o600 and "CREATE USER" in script.read_text()
    assert "backup zbackup-" not in err and "db" in load(host.config).instance and "set up" not in out
    host.server().create_account("zbackup", (host.etc / "db.password").read_text().strip())
    assert host.init("--yes") == 0
    assert steps(told(capsys)[1]) == FIRST


def test_an_administrators_password_goes_to_the_named_server_alone(host: Host, tmp_path: Path) -> None:
    host.server().admits = host.server("/run/b").admits = ("dba", "hush")
    host.processes = [mysqld(), mysqld("/run/b", 111)]
    (tmp_path / "hush").write_text("hush\n")
    (tmp_path / "hush").chmod(0o600)
    words = ("--admin-user", "dba", "--admin-password-file", str(tmp_path / "hush"))
    assert host.init("--yes", "--instance", f"db={SOCKET}", *words) == 0
    assert ("dba", "hush") in host.server().asked and ("dba", "hush") not in host.server("/run/b").asked
    assert host.server().password
