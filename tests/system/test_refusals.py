"""The first line of defence: one clear line, the documented exit status, and nothing changed."""

import fcntl
import json
import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.lab.pool import create_pool, run
from tests.lab.servers.accounts import ZBACKUP_PASSWORD
from tests.lab.variants import Variant
from tests.system.house import House, local, now, utc

CLONE, PORT = "taken", 33999


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mysql-9.7")


@pytest.fixture(scope="module")
def backup(house: House) -> dict[str, Any]:
    """The only backup, and a clone of it with a port, stopped."""
    house.server.sql("UPDATE shop.customers SET email = CONCAT('earlier', id)")
    taken = house.snapshot()
    house.server.sql("UPDATE shop.customers SET email = CONCAT('later', id)")
    house.restore("now", CLONE, "--port", str(PORT))
    assert house.zb("clone", "stop", CLONE, "--json").data["running"] is False
    return taken


@pytest.fixture(scope="module")
def before(house: House, backup: dict[str, Any]) -> list[str]:
    """All that there is when the first of them is refused."""
    return house.state()


@pytest.fixture(autouse=True)
def nothing_changes(house: House, before: list[str]) -> Iterator[None]:
    """Whatever is refused leaves everything as it was."""
    yield
    assert house.state() == before
    assert not house.server.running or house.sessions() == []


def refused(house: House, status: int, *words: str, config: Path | None = None) -> str:
    """What is said, on stderr and in JSON, by a command that must be refused.

    Without --quiet a restore says its moment first.
    """
    result = house.zb("--quiet", "--json", *words, config=config)
    assert ZBACKUP_PASSWORD not in str(result)
    said = result.refused(status)
    error = json.loads(result.out)["error"]
    assert (error["exit_status"], error["message"]) == (status, said)
    return said


def test_a_wrong_password(house: House) -> None:
    file = house.home / "wrong"
    file.write_text("not-the-password")
    file.chmod(0o600)
    config = house.configure("wrong", password={"file": str(file)})
    said = refused(house, 7, "snapshot", config=config)
    assert "refused the login of zbackup" in said and "check user and password" in said
    assert "not-the-password" not in said
    checked = house.zb("check", config=config)
    assert checked.rc == 7 and "check user and password" in checked.out
    assert house.zb("list", config=config).rc == 0, "a list needs no server"
    without_json = house.zb("snapshot", config=config)
    assert (without_json.out, without_json.refused(7)) == ("", said)


def test_a_server_that_is_down(house: House) -> None:
    house.server.stop()
    try:
        before = house.state()
        said = refused(house, 7, "snapshot")
        assert "cannot reach the server" in said and "is it running?" in said
        assert house.zb("check").rc == 7
        assert house.state() == before
    finally:
        house.server.start()


def test_a_socket_of_nobody(house: House) -> None:
    said = refused(house, 7, "snapshot", config=house.configure("nobody", socket="/nowhere/sql.sock"))
    assert "/nowhere/sql.sock" in said


@pytest.mark.parametrize(
    ("privilege", "lock"),
    [
        ("RELOAD", "ftwrl"),
        ("PROCESS", "none"),
        ("BACKUP_ADMIN", "backup-lock"),
        ("REPLICATION CLIENT", "none"),
    ],
)
def test_a_missing_privilege_is_named(house: House, privilege: str, lock: str) -> None:
    account = "'zbackup'@'localhost'"
    config = house.configure(f"privilege-{lock}", lock=lock)
    house.server.sql(f"REVOKE {privilege} ON *.* FROM {account}")
    try:
        assert f"GRANT {privilege} ON *.* TO {account}" in refused(house, 7, "snapshot", config=config)
    finally:
        house.server.sql(f"GRANT {privilege} ON *.* TO {account}")


def test_an_account_that_requires_tls_and_a_socket_that_has_none(house: House) -> None:
    house.server.sql("ALTER USER 'zbackup'@'localhost' REQUIRE SSL")
    try:
        said = refused(house, 7, "snapshot")
        assert "REQUIRE SSL" in said and "set host, port and tls instead of socket" in said
    finally:
        house.server.sql("ALTER USER 'zbackup'@'localhost' REQUIRE NONE")
    assert house.zb("check").rc == 0


def findings(house: House, config: Path) -> dict[str, dict[str, Any]]:
    """What check says, by its subject."""
    checked = json.loads(house.zb("check", "--json", config=config).out)["data"][0]["findings"]
    return {found["subject"]: found for found in checked}


def test_check_says_which_lines_to_write(house: House) -> None:
    named = findings(house, house.configure("engine", engine="mariadb"))["engine"]
    assert (named["severity"], named["fix"]) == ("critical", '[instance.shop] engine = "mysql"')
    placed = findings(house, house.configure("log only", datasets=[house.pool.log.name]))["placement"]
    assert placed["severity"] == "critical"
    assert json.loads(placed["fix"].partition(" datasets = ")[2]) == [house.pool.data.name]
    usual = findings(house, house.default)
    assert {s: usual[s]["severity"] for s in ("schedule", "off-site", "retention")} == dict.fromkeys(
        ("schedule", "off-site", "retention"), "advice"
    )


def test_check_sees_files_that_are_missing(house: House) -> None:
    gone = "/nowhere/id_ed25519"
    ship = {"to": "ssh://backup@127.0.0.1:1/tank/backups", "name": "offsite", "ssh": {"identity": gone}}
    mask = {"mask": [{"sql": "/nowhere/mask.sql"}]}
    config = house.configure("files", clones=mask, ship=[ship])
    found = json.loads(house.zb("check", "--json", config=config).out)["data"][0]["findings"]
    said = [f["text"] for f in found if f["severity"] == "critical"]
    assert f"{gone} is not there, or cannot be seen" in said
    assert "/nowhere/mask.sql is not there, or cannot be seen" in said


def test_a_backup_that_is_too_old_is_critical_without_a_schedule(house: House) -> None:
    configured = house.configure("age", max_age="1s")
    for words, config in ((("--max-age", "1s"), house.default), ((), configured)):
        (status,) = house.zb("status", "--json", *words, config=config).data
        assert status["health"] == "critical", status["findings"]
        assert any("and may be 1 s old" in f["text"] for f in status["findings"])
    assert house.zb("status", "--plugin", "--max-age", "1s").rc == 2
    assert house.zb("status", "--plugin", "--max-age", "9d").rc == 0
    refused(house, 2, "status", "--max-age", "soon")


def test_a_server_without_a_keyring_is_asked_for_it_once(house: House) -> None:
    for _ in range(2):
        house.zb("snapshot", "--dry-run")
    (count,) = house.server.sql(
        "SELECT COUNT(*) FROM performance_schema.error_log WHERE ERROR_CODE = 'MY-013712'"
    )
    assert count == (1,)


def test_a_dataset_that_is_missing(house: House) -> None:
    wanted = f"{house.pool.name}/no such"
    config = house.configure("missing", datasets=[wanted])
    for words in (("snapshot",), ("list",), ("restore", "--to", "now")):
        said = refused(house, 4, *words, config=config)
        assert wanted in said and "does not exist" in said


def test_data_on_two_pools(house: House) -> None:
    other = create_pool()
    try:
        second = other.dataset("more")
        config = house.configure("pools", datasets=[*house.datasets, second.name])
        before = run("zfs", "list", "-Hr", "-t", "all", other.name)
        said = refused(house, 9, "snapshot", config=config)
        assert "2 pools" in said and second.name in said and house.datasets[0] in said
        assert run("zfs", "list", "-Hr", "-t", "all", other.name) == before
    finally:
        other.destroy()


def test_data_outside_of_the_datasets(house: House) -> None:
    config = house.configure("outside", datasets=[house.pool.log.name])
    said = refused(house, 9, "snapshot", config=config)
    assert f"data in {house.server.settings.datadir}" in said
    assert house.pool.log.name in said
    assert "binlog in" not in said, "the binlog does lie there"


def test_a_linked_database_outside_of_the_datasets(house: House) -> None:
    elsewhere, link = house.home / "elsewhere", house.server.settings.datadir / "linked"
    elsewhere.mkdir()
    link.symlink_to(elsewhere)
    try:
        assert str(elsewhere) in refused(house, 9, "snapshot")
    finally:
        link.unlink()
        elsewhere.rmdir()


def test_a_lock_that_would_not_do(house: House) -> None:
    config = house.configure("stage", lock="backup-stage")
    assert "needs MariaDB" in refused(house, 9, "snapshot", config=config)


def test_a_name_that_is_taken(house: House) -> None:
    said = refused(house, 10, *_restore("now", CLONE))
    assert f"{house.clones}/{CLONE} exists" in said
    run("zfs", "create", f"{house.clones}/foreign")
    try:
        assert f"{house.clones}/foreign exists" in refused(house, 10, *_restore("now", "foreign"))
        assert f"{house.clones}/foreign" in house.names()
    finally:
        run("zfs", "destroy", f"{house.clones}/foreign")


@pytest.mark.parametrize("name", ["../up", "With Space", "a/b", "-x", "x" * 64, "a.log"])
def test_a_name_that_cannot_be(house: House, name: str) -> None:
    said = refused(house, 2, "restore", "--to", "now", f"--name={name}")
    assert "cannot be a clone's name" in said


def test_a_port_that_is_taken(house: House) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        said = refused(house, 10, *_restore("now", "other", "--port", str(port)))
        assert f"port {port} cannot be used" in said
    said = refused(house, 10, *_restore("now", "other", "--port", str(PORT)))
    assert f"port {PORT} belongs to the clone {CLONE}" in said


def test_a_moment_before_the_window(house: House, backup: dict[str, Any]) -> None:
    said = refused(house, 5, *_restore(local(utc(backup["as_of"])), "early"))
    assert f"the recovery window is after {local(utc(backup['as_of']))} " in said
    assert "no backup is that old" in refused(house, 5, *_restore("-30d", "early"))


def test_a_transaction_before_the_window(house: House, backup: dict[str, Any]) -> None:
    events = house.server.sql("SHOW BINLOG EVENTS LIMIT 3")
    file, start = next((e[0], e[1]) for e in events if e[2] == "Gtid")
    said = refused(house, 5, "restore", "--before", f"{file}:{start}", "--name", "early")
    assert f"no backup is that old: {file}:{start}, committed " in said
    assert f"the recovery window is after {local(utc(backup['as_of']))} " in said


def test_a_moment_in_the_future(house: House) -> None:
    said = refused(house, 5, *_restore(local(now() + timedelta(hours=1)), "late"))
    assert "in the future" in said and "the recovery window is after" in said


def test_a_time_that_happened_twice_or_never(house: House) -> None:
    twice = refused(house, 2, *_restore("2024-10-27 02:30", "fold"))
    assert "happened twice" in twice and "02:30:00+02:00" in twice and "02:30:00+01:00" in twice
    never = refused(house, 2, *_restore("2024-03-31 02:30", "gap"))
    assert "never happened" in never and "+01:00" in never and "+02:00" in never


@pytest.mark.parametrize("moment", ["soon", "2024-13-01 10:00", "25:00", ""])
def test_a_text_that_is_no_moment(house: House, moment: str) -> None:
    said = refused(house, 2, *_restore(moment, "nonsense"))
    assert f'"{moment}"' in said


def test_clones_that_are_not_there_or_not_confirmed(house: House) -> None:
    for verb in ("stop", "start"):
        assert CLONE in refused(house, 4, "clone", verb, "no-such")
    assert CLONE in refused(house, 4, "clone", "destroy", "no-such", "--yes")
    assert "--yes" in refused(house, 2, "clone", "destroy", CLONE)


def test_a_clone_that_holds_something_foreign(house: House) -> None:
    snapshot = f"{house.clones}/{CLONE}/0@mine"
    run("zfs", "snapshot", snapshot)
    try:
        before = house.state()
        said = refused(house, 9, "clone", "destroy", CLONE, "--yes")
        assert snapshot in said
        assert house.state() == before
    finally:
        run("zfs", "destroy", snapshot)


def test_an_instance_that_is_not_there(house: House) -> None:
    assert 'did you mean "shop"?' in refused(house, 4, "snapshot", "shpo")


def test_a_configuration_with_many_problems_names_all_of_them(house: House) -> None:
    config = house.configure("problems", lock="gentle", sokcet="/x", datasets=[], password="secret-word")
    result = house.zb("snapshot", config=config)
    assert result.rc == 2
    lines = result.err.splitlines()
    assert all(line.startswith(f"zbackup: {config}:") for line in lines), result
    for word in ("lock", "sokcet", "datasets", "password"):
        assert any(f"instance.shop.{word}" in line for line in lines), f"{word}: {result}"
    assert any('"socket"' in line for line in lines), "the nearest key is not named"
    assert "secret-word" not in result.err + result.out


def test_a_configuration_that_cannot_be_read(house: House) -> None:
    assert "no such configuration file" in refused(house, 2, "list", config=house.home / "nowhere.toml")
    broken = house.home / "broken.toml"
    broken.write_text("[instance.shop\n")
    assert f"{broken}:1: not valid TOML" in refused(house, 2, "list", config=broken)


def test_a_password_that_others_can_read(house: House) -> None:
    file = house.home / "open"
    file.write_text(ZBACKUP_PASSWORD)
    file.chmod(0o644)
    config = house.configure("open", password={"file": str(file)})
    assert "lets others read the secret" in refused(house, 2, "snapshot", config=config)


def test_another_zbackup_at_work_is_waited_for_and_named(house: House) -> None:
    """A clone that is being worked on is not touched by a second command."""
    with (house.home / "run" / ".daemon" / f"clone-{CLONE}.lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = refused(house, 10, "clone", "destroy", CLONE, "--yes")
    assert f"clone-{CLONE} is being worked on" in said


def test_without_a_backup_there_is_nothing_to_restore(house: House) -> None:
    empty = house.pool.dataset("empty")
    try:
        config = house.configure("empty", datasets=[empty.name])
        said = refused(house, 5, "restore", "--to", "now", config=config)
        assert "run zbackup snapshot first" in said
    finally:
        run("zfs", "destroy", empty.name)


def test_without_zfs_in_the_path(house: House) -> None:
    result = house.zb("-q", "list", environment={"PATH": "/nowhere"})
    assert "cannot run zfs" in result.refused(3)


def _restore(moment: str, name: str, *words: str) -> tuple[str, ...]:
    return ("restore", f"--to={moment}", "--name", name, *words)
