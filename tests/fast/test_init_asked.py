"""`zbackup init` at a terminal, with copies elsewhere, and on a host that receives."""

import json
import os
import pwd
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.fast.init_host import SOCKET, Host, mysqld
from tests.fast.server import FakeRecovery
from tests.fast.test_init_story import FIRST, Printed, on_a_host, on_systemd, steps, told
from tests.fast.world import VAULT
from zbackup.config.load import load
from zbackup.features.init import install_service
from zbackup.features.init.jobs import host as host_module
from zbackup.features.init.jobs import receiving
from zbackup.features.init.plan import service
from zbackup.model.errors import DatabaseError, Declined, NotFound, Refused, UsageError
from zbackup.model.recovery import CheckedTables

__all__ = ["on_a_host"]

KEY = "ssh-ed25519 " + "A" * 68
NAME, RETENTION, COPIES, DO = "Name for the server at", "Retention", "Copies to", "Do that?"
ADMINISTRATOR, PASSWORD = "Administrator of that server", "Password"
USUAL = [(NAME, "DEFAULT"), (RETENTION, "DEFAULT"), (COPIES, "DEFAULT")]


# at a terminal


def test_without_a_terminal_nobody_is_asked(host: Host, capsys: Printed) -> None:
    assert host.init() == UsageError.exit_status
    assert "add --yes" in told(capsys)[1] and not host.etc.exists()
    host.answers = []
    host.errors_to_a_file = True  # nobody would see the question
    assert host.init() == UsageError.exit_status and not host.etc.exists()


def test_at_a_terminal_all_is_asked_and_shown_before_anything_is_done(host: Host, capsys: Printed) -> None:
    host.answers = [(NAME, "shop"), (RETENTION, "long"), (COPIES, "later"), (DO, "y")]
    assert host.init() == 0
    out, err = told(capsys)
    assert host.answers == [] and len(steps(err)) == 5 and "set up, but for the daemon: shop" in out
    assert "any moment of the last" in err and "lost with the pool" in err
    (instance,) = load(host.config).instance.values()
    assert instance.name == "shop" and not instance.ship


def test_a_step_is_shown_once(host: Host, capsys: Printed) -> None:
    host.answers = [*USUAL, (DO, "y")]
    host.init()
    err = told(capsys)[1]
    assert [err.count(text) for text in FIRST] == [1, 1]
    assert host.init() == 0  # nothing to do is nothing to ask
    assert steps(told(capsys)[1]) == []


def test_who_declines_has_changed_nothing(host: Host, capsys: Printed) -> None:
    for answers in ([*USUAL, (DO, "n")], [(NAME, "-")]):
        host.answers = list(answers)
        before = host.state()
        assert host.init() == Declined.exit_status
        assert "nothing was changed" in told(capsys)[1]
        assert host.answers == [] and host.state() == before and not host.etc.exists()


def test_what_makes_no_sense_is_asked_again(host: Host, capsys: Printed) -> None:
    host.answers = [
        *[(NAME, "Big Shop"), (NAME, "shop")],
        *[(RETENTION, "eternal"), (RETENTION, "short")],
        *[(COPIES, "tape"), (COPIES, "zfs:vault/copies")],
        (DO, "y"),
    ]
    assert host.init("--no-drill") == 0
    err = told(capsys)[1]
    for said in ("a name is up to 40", "choose one of short", '"tape" is not an address'):
        assert said in err
    (instance,) = load(host.config).instance.values()
    assert instance.ship[0].label == "copies" and host.answers == []


def test_two_servers_do_not_get_one_name(host: Host) -> None:
    host.world.pools.create("tank/two", {}).mounted = "/srv/two"
    host.processes = [mysqld(), mysqld("/run/b", 111, directories=("/srv/two",))]
    host.answers = [(NAME, "a"), (NAME, "a"), (NAME, "b"), *USUAL[1:], (DO, "y")]
    assert host.init("--no-drill") == Refused.exit_status  # there is one server, whose data are a's
    assert {name: each.datasets for name, each in load(host.config).instance.items()} == {
        "a": ("tank/db",),
        "b": ("tank/two",),
    }


def test_of_two_servers_one_may_be_left_out(host: Host, capsys: Printed) -> None:
    host.world.pools.create("tank/two", {}).mounted = "/srv/two"
    host.processes = [mysqld(), mysqld("/run/b", 111, directories=("/srv/two",))]
    host.answers = [(NAME, "-"), (NAME, "b"), *USUAL[1:], (DO, "y")]
    host.init("--no-drill")
    assert list(load(host.config).instance) == ["b"]
    assert f"not protected: {SOCKET}: left out" in told(capsys)[1]


def test_an_administrator_is_asked_for_where_nobody_is_let_in(host: Host, capsys: Printed) -> None:
    host.server().admits = ("dba", "hush")
    wrong = [(ADMINISTRATOR, "dba"), (PASSWORD, "no")]
    host.answers = [*wrong, (ADMINISTRATOR, "dba"), (PASSWORD, "hush"), *USUAL, (DO, "y")]
    assert host.init() == 0
    out, err = told(capsys)
    assert "hush" not in out + err and f"{SOCKET}: Access denied" in err
    assert host.server().password and not (host.etc / "db.account.sql").exists()


def test_who_names_no_administrator_gets_the_script(host: Host, capsys: Printed) -> None:
    host.server().admits = ("dba", "hush")
    host.answers = [(ADMINISTRATOR, ""), *USUAL, (DO, "y")]
    assert host.init() == DatabaseError.exit_status
    assert (host.etc / "db.account.sql").exists() and "is not made yet" in told(capsys)[1]
    host.server().create_account("zbackup", (host.etc / "db.password").read_text().strip())
    host.answers = [(DO, "y")]  # it is configured: nobody is asked for it again
    assert host.init() == 0


def test_nobody_is_asked_for_an_administrator_of_a_server_that_is_not_wanted(host: Host) -> None:
    host.server("/run/b").admits = ("dba", "hush")
    host.processes = [mysqld(), mysqld("/run/b", 111)]
    host.answers = [*USUAL, (DO, "y")]
    assert host.init("--no-drill", "--instance", f"db={SOCKET}") == 0
    assert host.answers == []


def test_no_password_is_asked_for_that_an_ordinary_user_would_hear(host: Host, capsys: Printed) -> None:
    host.server("/run/eve").admits = ("dba", "hush")
    host.processes = [mysqld("/run/eve", 1000, user="eve")]
    host.answers = [(NAME, "-")]
    assert host.init("--instance", "x=/run/eve") == Declined.exit_status
    told_why = "/run/eve: the ordinary user eve runs it: no administrator's password is sent"
    assert host.answers == [] and told_why in told(capsys)[1]
    host.processes.append(mysqld())
    host.answers = [*USUAL, (DO, "y")]
    assert host.init("--no-drill") == 0
    assert told_why not in told(capsys)[1] and host.server("/run/eve").password is None


# copies elsewhere


def test_copies_by_ssh_get_a_key_of_their_own_and_it_is_said_what_is_left(
    host: Host, capsys: Printed
) -> None:
    host.init("--copies", "ssh://zrecv@vault/tank/b", "--no-drill", "--yes")
    out, err = told(capsys)
    (ship,) = load(host.config).instance["db"].ship
    assert ship.ssh is not None and str(ship.ssh.identity) == str(host.etc / "offsite.sshkey")
    line = "zbackup init --receive --dataset tank/b --key 'ssh-ed25519 PUBLIC db1'"
    assert line in out and "Its host key is not known here" in out
    assert "make an ssh key without a passphrase" in err and "Keep a copy" not in out


def test_the_other_hosts_key_is_written_once_beside_those_that_are_known(host: Host, capsys: Printed) -> None:
    host.etc.mkdir(mode=0o755)
    known = host.etc / "offsite.known_hosts"
    known.write_text("other ssh-ed25519 BBBB\n")
    words = ("--copies", "ssh://zrecv@vault/tank/b", "--host-key", KEY, "--no-drill", "--yes")
    assert host.init("--print", *words) == 0 and known.read_text() == "other ssh-ed25519 BBBB\n"
    told(capsys)
    host.init(*words)
    out, err = told(capsys)
    assert known.read_text() == f"other ssh-ed25519 BBBB\nvault {KEY}\n"
    assert "Its host key is not known here" not in out and "write the other host's key" in err
    before = known.stat().st_mtime_ns
    host.world.pools.create("tank/two", {}).mounted = "/srv/two"
    host.processes.append(mysqld("/run/b", 111, directories=("/srv/two",)))
    host.init(*words)
    assert known.stat().st_mtime_ns == before and set(load(host.config).instance) == {"db", "two"}
    assert "write the other host's key" not in told(capsys)[1]


def test_copies_in_a_bucket_get_a_key_that_is_to_be_kept(host: Host, capsys: Printed, tmp_path: Path) -> None:
    (tmp_path / "s3").write_text("hush\n")
    (tmp_path / "s3").chmod(0o600)
    words = ("--copies", "s3://bucket/db1", "--no-drill", "--yes", "--endpoint", "https://s3.here:9000")
    host.init(*words, "--access-key", "AKIA", "--secret-key-file", str(tmp_path / "s3"))
    out, err = told(capsys)
    assert f"Keep a copy of {host.etc / 'db.key'}" in out and "AWS tools" not in out
    assert (host.etc / "db.s3-secret").read_text() == "hush\n" and "hush" not in out + err
    text = host.config.read_text()
    assert 'endpoint = "https://s3.here:9000"' in text and "hush" not in text and "path_style = true" in text


def test_keys_to_a_bucket_that_are_not_told_are_found_elsewhere(host: Host, capsys: Printed) -> None:
    host.init("--copies", "s3://bucket/db1", "--no-drill", "--yes")
    out, _ = told(capsys)
    assert f"Keep a copy of {host.etc / 'db.key'}" in out and "as the AWS tools find them" in out
    assert "access_key" not in host.config.read_text() and not (host.etc / "db.s3-secret").exists()


@pytest.mark.parametrize("access", ["", "AKIA"])
def test_at_a_terminal_a_bucket_is_asked_for(host: Host, access: str) -> None:
    secret = [("Secret key", "hush")] if access else []
    bucket = [("The S3 server's URL", "here"), ("Access key", access), *secret, ("Public key", "")]
    again = [("The S3 server's URL", ""), *bucket[1:]]
    host.answers = [*USUAL[:2], (COPIES, "s3://bucket/db1"), *bucket, *again, (DO, "y")]
    host.init("--no-drill")
    assert host.answers == [] and ("access_key" in host.config.read_text()) is bool(access)
    assert (host.etc / "db.s3-secret").exists() is bool(access)


# a host that receives


@pytest.fixture
def receiver(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """zrecv is known, and the host has a key."""
    here = SimpleNamespace(pw_uid=os.geteuid() or 4711, pw_gid=os.getegid(), pw_dir=str(tmp_path))
    monkeypatch.setattr(pwd, "getpwnam", {"zrecv": here}.__getitem__)
    monkeypatch.setattr(receiving, "HOST_KEY", tmp_path / "host.pub")
    (tmp_path / "host.pub").write_text("ssh-ed25519 HOST root@vault\n")
    monkeypatch.setattr(host_module, "own_program", lambda: "/usr/bin/zbackup")
    return host


def receive(host: Host, *words: str) -> int:
    return host.init("--receive", "--dataset", f"{VAULT}/db1", *words)


LINE = f'restrict,command="/usr/bin/zbackup gate --root {VAULT}/db1 --append-only" {KEY}'


def test_a_host_receives_after_one_command_and_says_what_the_sender_has_to_do(
    receiver: Host, capsys: Printed, tmp_path: Path
) -> None:
    (tmp_path / "db1.pub").write_text(f"{KEY}\n")
    assert receive(receiver, "--key", str(tmp_path / "db1.pub"), "--quota", "1G", "--yes") == 0
    out, err = told(capsys)
    file = tmp_path / ".ssh/authorized_keys"
    assert file.read_text() == f"{LINE}\n" and f"the key is in {file}:" in out
    assert f'zbackup init --copies ssh://zrecv@THIS-HOST/{VAULT}/db1 --host-key "ssh-ed25519 HOST"' in out
    assert [argv[:2] for argv in receiver.ran] == [("zfs", "create"), ("zfs", "allow")]
    assert f"quota={1 << 30}" in receiver.ran[0] and len(steps(err)) == 2
    assert receive(receiver, "--key", KEY, "--user", "new", "--yes", "--print") == 0
    assert "make the user new" in told(capsys)[1]
    assert receive(receiver, "--yes", "--quiet") == 0
    assert steps(told(capsys)[1]) == []


@pytest.mark.parametrize("name", ["db1.pub", "./db1", "/db1"])
def test_a_key_may_be_named_by_its_file(
    receiver: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    given = f"{tmp_path}{name}" if name.startswith("/") else name
    Path(given).write_text(f"{KEY}\n")
    assert receive(receiver, "--key", given, "--yes") == 0
    assert (tmp_path / ".ssh/authorized_keys").read_text() == f"{LINE}\n"


def test_what_a_host_would_do_to_receive_is_shown_and_not_done(receiver: Host, capsys: Printed) -> None:
    assert receive(receiver, "--key", KEY, "--print", "--json") == 0
    data = json.loads(told(capsys)[0])["data"]
    assert (data["dry_run"], data["authorized_keys"], data["line"]) == (True, None, LINE)
    assert data["host_key"] == "ssh-ed25519 HOST" and not any(step["done"] for step in data["steps"])
    assert receiver.ran == [] and not (receiver.etc.parent / ".ssh").exists()
    assert receive(receiver, "--key", KEY, "--yes", "--json") == 0
    data = json.loads(told(capsys)[0])["data"]
    assert not data["dry_run"] and data["authorized_keys"].endswith("/.ssh/authorized_keys")
    assert all(step["done"] for step in data["steps"])


def test_without_the_senders_key_the_line_is_shown_to_be_put_in(receiver: Host, capsys: Printed) -> None:
    (receiver.etc.parent / "host.pub").unlink()
    assert receive(receiver, "--yes") == 0
    out, _ = told(capsys)
    assert "put the sender's key into ~zrecv/.ssh/authorized_keys" in out and "AAAA... db1" in out
    assert "--host-key" not in out and len(receiver.ran) == 2
    assert not (receiver.etc.parent / ".ssh").exists()


def test_who_receives_is_asked_first(receiver: Host, capsys: Printed) -> None:
    receiver.answers = [(DO, "n")]
    assert receive(receiver, "--key", KEY) == Declined.exit_status
    assert len(steps(told(capsys)[1])) == 2
    assert receiver.ran == [] and not (receiver.etc.parent / ".ssh").exists()
    receiver.answers = [(DO, "y")]
    assert receive(receiver, "--key", KEY) == 0
    assert len(receiver.ran) == 2 and len(steps(told(capsys)[1])) == 2


def test_a_key_that_may_do_more_is_refused_before_anything_is_made(receiver: Host) -> None:
    (receiver.etc.parent / ".ssh").mkdir(mode=0o700)
    (receiver.etc.parent / ".ssh/authorized_keys").write_text(f"{KEY}\n")
    assert receive(receiver, "--key", KEY, "--yes") == Refused.exit_status
    assert receiver.ran == []


def test_no_key_starts_a_program_that_others_could_replace(
    receiver: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(program: str) -> None:
        raise Refused(f"{program}: others may write there")

    monkeypatch.setattr(host_module, "require_roots_program", refuse)
    assert receive(receiver, "--key", KEY, "--yes") == Refused.exit_status
    assert receiver.ran == []


def test_copies_are_received_in_a_pool_that_is_there(receiver: Host) -> None:
    assert receiver.init("--receive", "--dataset", "nowhere/b", "--yes") == NotFound.exit_status
    assert receiver.ran == []


# the service alone


def test_the_service_is_installed_once(host: Host, capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    on_systemd(host)
    place = host.etc.parent / "system"
    monkeypatch.setattr(service, "UNIT_DIRECTORY", str(place))
    host.facts = replace(host.facts, units={name: f"/x/{name}" for name in service.SETTINGS})
    assert host.init("--print", command="install-service") == 0
    out, err = told(capsys)
    assert "install the unit zbackup.service" in err and out.strip() == ""
    assert not place.exists() and host.ran == []
    assert host.init("--json", command="install-service") == 0
    rows = json.loads(told(capsys)[0])["data"]
    assert len(rows) == len(service.UNITS) + 3 and all(row["done"] for row in rows)
    assert {each.name for each in place.iterdir()} == set(service.UNITS)
    host.there = {str(each): each.read_text() for each in place.iterdir()}
    assert host.init(command="install-service") == 0
    assert told(capsys)[0] == "nothing to do: the service's files are in place\n" and len(host.ran) == 3
    (place / "zbackup.service").write_text("mine")
    host.there[str(place / "zbackup.service")] = "mine"
    assert host.init(command="install-service") == Refused.exit_status
    assert (place / "zbackup.service").read_text() == "mine"
    told(capsys)
    assert host.init("--replace", command="install-service") == 0
    assert told(capsys)[0] == "the service's files are in place\n"
    assert (place / "zbackup.service").read_text() != "mine"


def test_no_service_is_installed_without_systemd_by_others_or_for_a_program_of_others(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert host.init(command="install-service") == Refused.exit_status

    def refuse(program: str) -> None:
        raise Refused(f"{program}: others may write there")

    on_systemd(host)
    host.facts = replace(host.facts, user=False)
    monkeypatch.setattr(host_module, "require_roots_program", refuse)
    assert host.init(command="install-service") == Refused.exit_status
    monkeypatch.setattr(host_module, "require_roots_program", lambda _: None)
    monkeypatch.setattr(install_service, "os", SimpleNamespace(geteuid=lambda: 1000))
    assert host.init(command="install-service") == Refused.exit_status
    assert host.ran == []


# what is told


def test_tables_that_were_not_checked_are_told(
    host: Host, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = CheckedTables(tables=3, unchecked=("shop.u",))
    monkeypatch.setattr(FakeRecovery, "check_tables", lambda *_: found)
    assert host.init("--yes") == 0
    assert "3 tables checked, 1 NOT CHECKED (to be upgraded first): passed" in told(capsys)[1]
