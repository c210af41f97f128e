"""Texts that `zbackup init` writes and says of one server or another, line by line."""

from dataclasses import replace

import pytest

from tests.unit.plan.test_init_plan import BARE, MOUNTED, PACKAGED, TEXTS, newcomer, server
from tests.unit.plan.test_init_receive import KEY
from tests.unit.plan.test_init_verdict import START
from zbackup.config.load import parse
from zbackup.features.init.plan import placement, receive, service
from zbackup.features.init.plan.config_text import HEADER, instance, quoted, whole
from zbackup.features.init.plan.presets import USUAL, preset, reaches
from zbackup.features.init.plan.steps import script_command, script_path, steps
from zbackup.features.init.plan.verdict import JobSeen, lacking, needed, of_jobs
from zbackup.features.init.setup import AccountState, DestinationSetup, FoundServer, Newcomer
from zbackup.model.errors import Refused, UsageError

PROCESS = server().process


# the configuration


def lines(new: Newcomer) -> list[str]:
    return instance(new).split("\n")


def test_a_new_configuration_begins_with_what_it_is_and_an_old_one_stays() -> None:
    one = newcomer()
    assert whole("", [one]) == f"{HEADER}\n{instance(one)}"
    assert whole("# mine\n", [one]) == f"# mine\n\n{instance(one)}"
    assert whole("# mine", [one]) == f"# mine\n\n{instance(one)}"
    assert whole("", []) == ""


def test_a_server_is_reached_by_its_socket_or_by_host_and_port() -> None:
    assert 'socket = "/run/mysqld/mysqld.sock"' in lines(newcomer())
    far = newcomer(server=server(socket="", host="db1", port=3307))
    assert {'host = "db1"', "port = 3307"} <= set(lines(far)) and "socket" not in instance(far)
    assert 'user = "zbackup"  # may lock and look, and reads no row' in lines(newcomer())
    assert "user =" not in instance(newcomer(password=""))


def test_copies_and_the_service_are_written_where_there_are_any() -> None:
    none = lines(newcomer())
    assert "# [[instance.shop.ship]]" in none and not any(each.startswith("ship =") for each in none)
    assert "[instance.shop.service]" not in none
    copies = DestinationSetup(to="zfs:o/b", name="c")
    plain = lines(newcomer(copies=copies))
    assert f'ship = "{USUAL.snapshot}"' in plain and "[[instance.shop.ship]]" in plain
    assert not any(each.startswith("[instance.shop.ship.") for each in plain)
    by_ssh = replace(copies, kind="ssh", table=(("identity", '"/k"'),))
    assert "[instance.shop.ship.ssh]" in lines(newcomer(copies=by_ssh))
    unit = newcomer(server=server(process=replace(PROCESS, unit="mysql.service")))
    assert 'unit = "mysql.service"' in lines(unit)
    assert parse(whole("", [unit])).instance["shop"].service is not None


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("8.4.3", "# mysql 8.4.3"),
        ("8\n\x1b[1m\u00e4", "# mysql 8[1m"),
        ("\n", "# mysql of a version that is not known"),
        ("x" * 99, f"# mysql {'x' * 80}"),
    ],
)
def test_what_a_server_says_of_itself_is_harmless_in_a_comment(version: str, said: str) -> None:
    assert lines(newcomer(server=server(version=version)))[0] == said


def test_what_is_no_letter_is_escaped() -> None:
    assert quoted('a"\\\n\x01\x7f') == '"a\\"\\\\\\n\\u0001\\u007f"'


def test_a_policy_is_said_with_what_it_reaches() -> None:
    assert preset("short").name == "short" and reaches(USUAL, log=True) == USUAL.reach
    assert reaches(USUAL, log=False) == (
        f"{USUAL.reach} (of a server without a log, its backups alone: no moment between them)"
    )


# where a server's files are


def proposed(found: FoundServer, *wanted: str, **mounted: str) -> list[str]:
    return placement.proposals(found, wanted or ("tank/mysql",), mounted or MOUNTED)


def test_a_log_of_its_own_dataset_is_proposed_where_both_are_on_one() -> None:
    (text,) = proposed(server())
    assert text.startswith("data and binary log are on one dataset")
    assert "zfs create -u -o recordsize=128K -o mountpoint=/var/lib/mysql-binlog tank/mysql/binlog, " in text
    assert proposed(server(engine="mongodb")) == []
    assert proposed(server(homes={"/var/lib/mysql": "tank/mysql", "/log": "tank/log"}), "tank/mysql") == []


def test_a_dataset_with_more_than_the_server_is_told() -> None:
    two = {"/srv/db/x/data": "tank/srv", "/log": "tank/log"}

    def told(at: str) -> list[str]:
        return placement.proposals(server(homes=two), ("tank/srv",), {"tank/srv": at})

    assert told("/srv/db") == ["tank/srv holds more than this server (/srv/db): all of it is in every backup"]
    assert told("/srv/db/x") == told("/srv/db/x/data") == told("") == []


def test_how_to_move_is_said_of_the_server_as_it_is() -> None:
    def said(**more: object) -> str:
        with pytest.raises(Refused) as refused:
            placement.datasets(server(homes={"/var/lib/mysql": ""}, **more), MOUNTED)
        return str(refused.value)

    assert "recordsize=16K" in said() and "stop the server, copy /var/lib/mysql there" in said()
    assert "recordsize=32K" in said(engine="mongodb") and "POOL/mongodb" in said(engine="mongodb")
    assert "stop mysql.service, copy" in said(process=replace(PROCESS, unit="mysql.service"))


@pytest.mark.parametrize("homes", [{"/x": "tank"}, {"/x": "rpool/ROOT"}])
def test_a_pool_and_the_system_are_no_dataset_for_a_server(homes: dict[str, str]) -> None:
    (home,) = homes.values()
    what = "the pool's own" if home == "tank" else "the system's root"
    with pytest.raises(Refused, match=f"on {home}, {what} dataset, and all below"):
        placement.datasets(server(homes=homes), MOUNTED)


def test_an_instance_is_called_like_its_dataset_or_its_engine() -> None:
    assert placement.name_for(server(), ("tank/My DB",), ()) == "my-db"
    assert placement.name_for(server(), ("tank/shop",), ("shop", "shop2")) == "shop3"
    assert placement.name_for(server(), ("tank/...",), ()) == placement.name_for(server(), (), ()) == "mysql"


# the steps


def texts(new: Newcomer, account: AccountState | None = None) -> list[tuple[str, str]]:
    found = steps([new], {new.name: account} if account else {}, "/c", BARE, {}, [])
    return [(step.kind, step.path) for step in found if step.path]


def test_the_files_that_copies_need_are_made_first() -> None:
    file = '{ file = "/etc/zbackup/k" }'
    table = (
        ("identity", '"/i"'), ("known_hosts", '"/h"'), ("secret_key", file.replace("/k", "/s")), ("key", file)
    )  # fmt: skip
    new = newcomer(copies=DestinationSetup(to="s3://b", name="c", kind="s3", table=table))
    assert texts(new) == [
        ("identity", "/i"), ("credential", "/etc/zbackup/s"), ("key", "/etc/zbackup/k"), ("config", "/c")
    ]  # fmt: skip
    assert texts(newcomer()) == [("config", "/c")]


@pytest.mark.parametrize(
    ("login", "engine", "kind", "path"),
    [
        ("admin", "mysql", "account", ""),
        ("refused", "mysql", "account-file", "/etc/zbackup/shop.account.sql"),
        ("refused", "mongodb", "account-file", "/etc/zbackup/shop.account.js"),
    ],
)
def test_an_account_is_made_or_written_down(login: str, engine: str, kind: str, path: str) -> None:
    new = newcomer(server=server(login=login, engine=engine))
    assert script_path(new) == f"/etc/zbackup/shop.account.{'js' if engine == 'mongodb' else 'sql'}"
    found = steps([new], {"shop": AccountState(secret=True)}, "/c", BARE, {}, [])
    assert (found[0].kind, found[0].path) == (kind, path)
    assert steps([new], {"shop": AccountState()}, "/c", BARE, {}, [])[0].kind == "secret"
    assert steps([new], {"shop": AccountState(works=True)}, "/c", BARE, {}, [])[0].kind == "config"


def test_the_command_for_an_administrator_is_the_servers_own() -> None:
    by = {
        engine: script_command(newcomer(server=server(engine=engine)))
        for engine in ("mysql", "mariadb", "mongodb")
    }
    assert by["mysql"].startswith("mysql -S /run/") and by["mariadb"].startswith("mariadb -S /run/")
    assert by["mongodb"].startswith("mongosh --host /run/mysqld/mysqld.sock -u ADMINISTRATOR")
    far = newcomer(server=server(engine="mongodb", socket="", host="db1", port=27018))
    assert script_command(far).startswith("mongosh --host db1 --port 27018 -u ADMINISTRATOR")


def test_what_is_configured_already_is_finished_and_a_daemon_that_runs_is_not_started() -> None:
    def argvs(unfinished: dict[str, tuple[bool, bool]], *, active: bool) -> list[str]:
        found = steps([], {}, "/c", replace(PACKAGED, active=active), unfinished, [])
        return [step.kind if step.kind != "run" else " ".join(step.argv[:2]) for step in found]

    assert argvs({"a": (True, False)}, active=False) == ["snapshot", "systemctl enable"]
    assert argvs({"a": (False, False)}, active=True) == []
    assert argvs({}, active=False) == []


# the service


def test_the_rights_to_send_are_for_who_sends() -> None:
    (alone,), (ships,) = (service.delegate(["tank/a"], ships=each) for each in (False, True))
    assert alone.argv == ("zfs", "allow", "-u", "zbackup", service.PERMISSIONS, "tank/a")
    assert ships.argv[4] == f"{service.PERMISSIONS},{service.SENDING}"
    found = steps([newcomer()], {}, "/c", PACKAGED, {}, [])
    assert found[0].argv[4] == service.PERMISSIONS
    assert steps([newcomer()], {}, "/c", BARE, {}, [])[0].kind == "config", "root needs no rights"


def test_a_daemon_that_does_not_run_reads_nothing_and_is_told_of() -> None:
    running = replace(PACKAGED, active=True)
    assert service.reload(PACKAGED) == service.reload(replace(BARE, active=True)) == []
    assert [step.argv[1] for step in service.reload(running)] == ["reload"]
    assert [step.argv[1] for step in service.reload(running, ["mongodb"])] == ["try-restart"]
    assert service.start(BARE) == [] and service.by_hand(PACKAGED) == ""
    assert service.by_hand(BARE).startswith("systemd does not run here: have your supervisor keep")
    other = service.start(PACKAGED)
    assert service.stopped(PACKAGED, other) == "" and service.stopped(running, []) == ""
    assert service.stopped(PACKAGED, []).startswith("the daemon does not run")


def test_files_that_are_as_they_should_be_are_left() -> None:
    bare = replace(PACKAGED, units={}, user=True)
    every = {step.path: step.content for step in service.install(TEXTS, bare, {}) if step.kind == "write"}
    one, *rest = every
    found = service.install(TEXTS, bare, {path: every[path] for path in rest})
    assert [step.path for step in found if step.kind == "write"] == [one]
    assert service.install(TEXTS, bare, every, replace=True) == []
    assert len(every) == len(service.UNITS) + len(service.SETTINGS)


# a host that receives


def test_names_of_users_and_keys() -> None:
    receive.require_names("tank/b/db1", "zrecv")
    for user in ("Root", "", "a b", "x" * 33):
        with pytest.raises(UsageError, match="is no name for a user"):
            receive.require_names("tank/b/db1", user)
    assert receive.public_key(KEY) == KEY and receive.public_key(f"{KEY} a b!") == f"{KEY} a-b"


def test_a_quota_is_that_of_the_senders_dataset_alone() -> None:
    found = receive.steps("tank/b/db1", "u", 5, there=["tank"], known=True)
    assert [step.argv[-3:] for step in found[:2]] == [
        ("-o", "mountpoint=none", "tank/b"), ("-o", "quota=5", "tank/b/db1")
    ]  # fmt: skip
    none = receive.steps("tank/b", "u", 0, there=[], known=True)
    assert not any("quota" in word for step in none for word in step.argv)
    assert [step.argv[1] for step in receive.steps("tank/b", "u", 5, there=[], known=True)] == [
        "create",
        "allow",
    ]


def test_a_line_is_added_behind_a_line_break() -> None:
    wanted = receive.line("/usr/bin/zbackup", "tank/b", f"{KEY} db1")
    assert receive.with_line("", wanted) == f"{wanted}\n"
    assert (
        receive.with_line("a", wanted) == f"a\n{wanted}\n"
        and receive.with_line("a\n", wanted) == f"a\n{wanted}\n"
    )
    assert receive.with_line(wanted, wanted) == wanted
    bare = wanted.removesuffix(" db1")
    assert receive.with_line(f"{bare}\n", wanted) == f"{bare}\n", "the comment is nothing"
    odd = "no key at all"
    assert receive.with_line("", odd) == f"{odd}\n" and receive.with_line(f"{odd}\n", odd) == f"{odd}\n"
    with pytest.raises(Refused, match=r"another key: sh\?\[1m ssh-ed25519"):
        receive.with_line(f"sh\x1b[1m {KEY}", wanted)


# the verdict


def test_rights_are_those_that_hold_on_the_dataset() -> None:
    said = (
        "---- Permissions on a/b ---\nDescendent permissions:\n\tuser zbackup hold\n"
        "---- Permissions on a ---\nLocal permissions:\n\tuser zbackup release\n"
        "Local+Descendent permissions:\n\teveryone snapshot\n\tuser other userprop\n"
    )
    wanted = needed(prunes=False, ships=False)
    assert lacking(said, "a/b", ("zbackup",), wanted) == ("userprop", "hold", "release")
    assert needed(prunes=True, ships=False) == ("snapshot", "userprop", "hold", "release", "destroy", "mount")
    assert needed(prunes=False, ships=True)[-2:] == ("send", "bookmark")


def test_the_moment_of_the_start_itself_counts() -> None:
    failed = JobSeen(job="snapshot", failed=START, failures=1, message="no")
    assert of_jobs([failed], START).why == "snapshot: no"
    assert of_jobs([JobSeen(job="snapshot", last=START)], START).state == "waiting"
    assert of_jobs([JobSeen(job="watch", failed=None, failures=1)], START).state == "waiting"
