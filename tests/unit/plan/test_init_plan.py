"""Decisions of `zbackup init`: every text it writes is one that zbackup reads, and what was there stays as it
is."""

import string
import tomllib
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from zbackup.config.load import parse
from zbackup.config.retention import tier
from zbackup.config.units import instance_name_is_valid
from zbackup.features.init.plan import placement, service
from zbackup.features.init.plan.config_text import quoted, whole
from zbackup.features.init.plan.presets import PRESETS, USUAL, cost, preset
from zbackup.features.init.plan.steps import script_command, steps
from zbackup.features.init.setup import AccountState, DestinationSetup, FoundServer, HostFacts, Newcomer
from zbackup.model.errors import Refused, UsageError
from zbackup.proc.listening import FoundProcess

BARE = HostFacts(systemd=False, user=False, program="/usr/bin/zbackup")
MACHINE = replace(
    BARE, systemd=True, user=True, units={name: f"/usr/lib/systemd/system/{name}" for name in service.UNITS}
)
PACKAGED = replace(
    MACHINE,
    units={**MACHINE.units, **{name: f"/usr/lib/x/{name}" for name in service.SETTINGS}},
)


def server(**more: object) -> FoundServer:
    values: dict[str, object] = {
        "process": FoundProcess(
            pid=7, uid=27, gid=27, user="mysql", program="/usr/sbin/mysqld", directories=("/var/lib/mysql",)
        ),
        "engine": "mysql",
        "version": "8.4.3",
        "socket": "/run/mysqld/mysqld.sock",
        "homes": {"/var/lib/mysql": "tank/mysql"},
        "login": "admin",
    }
    return FoundServer(**{**values, **more})  # type: ignore[arg-type]


def newcomer(name: str = "shop", **more: object) -> Newcomer:
    values: dict[str, object] = {
        "name": name,
        "server": server(),
        "datasets": ("tank/mysql",),
        "preset": USUAL,
        "password": f"/etc/zbackup/{name}.password",
    }
    return Newcomer(**{**values, **more})  # type: ignore[arg-type]


KEY_FILE = '{ file = "/etc/zbackup/k" }'
names = st.text(string.ascii_lowercase + string.digits + "-_", min_size=1, max_size=40).filter(
    instance_name_is_valid
)
paths = st.text(st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), min_size=1).map(
    "/run/{}".format
)
parts = st.text(string.ascii_letters + string.digits + "_.:-", min_size=1, max_size=20).filter(
    lambda p: p not in (".", "..")
)
datasets = st.lists(parts, min_size=1, max_size=3).map(lambda each: "/".join(["tank", *each]))
copies = st.sampled_from(
    [
        None,
        DestinationSetup(to="zfs:other/backups", name="copies"),
        DestinationSetup(
            to="ssh://zrecv@vault:2222/tank/b",
            name="offsite",
            kind="ssh",
            table=(("identity", '"/etc/zbackup/k"'), ("known_hosts", '"/etc/zbackup/h"')),
        ),
        DestinationSetup(to="s3://bucket/x", name="offsite", kind="s3", table=(("key", KEY_FILE),)),
        DestinationSetup(
            to="s3://bucket/x",
            name="offsite",
            kind="s3",
            table=(
                ("endpoint", '"https://s3.example.com"'),
                ("path_style", "true"),
                ("access_key", '"AKIA"'),
                ("secret_key", KEY_FILE),
                ("key", KEY_FILE),
            ),
        ),
    ]
)
newcomers = st.lists(
    st.builds(
        newcomer,
        names,
        server=st.builds(
            server,
            engine=st.sampled_from(["mysql", "mariadb", "mongodb"]),
            version=st.text(st.characters(exclude_categories=["Cs"])),
            socket=paths,
        ),
        datasets=st.tuples(datasets),
        preset=st.sampled_from(PRESETS),
        password=st.one_of(st.just(""), paths),
        copies=copies,
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda new: new.name,
)


def apart(new: list[Newcomer]) -> bool:
    """No two on one dataset, which the configuration refuses."""
    held = sorted(f"{name}/" for each in new for name in each.datasets)
    return not any(two.startswith(one) for one, two in combinations(held, 2))


@given(newcomers)
def test_what_is_written_is_what_zbackup_reads(new: list[Newcomer]) -> None:
    assume(apart(new))
    settings = parse(whole("", new))
    assert list(settings.instance) == [each.name for each in new]
    for each in new:
        read = settings.instance[each.name]
        assert str(read.socket) == str(Path(each.server.socket))
        assert read.datasets == each.datasets
        assert read.engine == each.server.engine
        assert len(read.retention.keep) == len(each.preset.keep)
        assert [str(ship.to) for ship in read.ship] == ([each.copies.to] if each.copies else [])
        assert (read.password.where if read.password else "") == each.password


@given(
    newcomers, newcomers, st.sampled_from(["", "\n", "\n# the end", "# no line break", "\r\n\r\n", "\n\n\t "])
)
def test_what_was_there_stays_byte_for_byte(old: list[Newcomer], new: list[Newcomer], end: str) -> None:
    assume(not {n.name for n in old} & {n.name for n in new} and apart([*old, *new]))
    before = whole("", old) + end
    after = whole(before, new)
    assert after.startswith(before)
    was, now = parse(before), parse(after)
    assert {name: now.instance[name] for name in was.instance} == was.instance
    assert list(now.instance) == [n.name for n in (*old, *new)]
    assert whole(after, []) == after


@given(st.text())
def test_a_quoted_text_is_that_text_or_refused(text: str) -> None:
    try:
        written = quoted(text)
    except Refused:
        assert any("\ud800" <= c <= "\udfff" for c in text)
        return
    assert tomllib.loads(f"x = {written}") == {"x": text}


@pytest.mark.parametrize("each", PRESETS, ids=lambda each: each.name)
def test_a_preset_says_how_many_backups_it_keeps(each: object) -> None:
    assert each in PRESETS
    chosen = next(p for p in PRESETS if p is each)
    hours = {"minute": 1 / 60, "hour": 1, "day": 24, "week": 168, "month": 730, "year": 8760}
    kept = 0.0
    for text in chosen.keep:
        rule = tier(text)
        assert rule.span is not None
        kept += rule.span.count * hours[rule.span.unit] / (rule.step.count * hours[rule.step.unit])
    assert round(kept) == chosen.backups
    assert str(chosen.backups) in cost(chosen)


def test_an_unknown_preset_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="short, standard, long"):
        preset("forever")


# steps


def kinds(*args: object, **more: object) -> list[str]:
    return [step.kind for step in steps(*args, **more)]  # type: ignore[arg-type]


def test_the_password_is_written_before_the_account_and_the_account_before_the_configuration() -> None:
    found = kinds([newcomer()], {"shop": AccountState(exists=False)}, "/c", BARE, {}, [])
    assert found == ["secret", "account", "config", "snapshot", "drill"]


def test_what_is_done_already_is_left_out() -> None:
    ready = {"shop": AccountState(works=True, exists=True, secret=True)}
    assert kinds([newcomer()], ready, "/c", BARE, {}, []) == ["config", "snapshot", "drill"]
    half = {"shop": AccountState(exists=True, secret=True)}
    assert kinds([newcomer()], half, "/c", BARE, {}, [])[0] == "account"
    assert kinds([], {}, "/c", BARE, {}, []) == []
    assert kinds([], {}, "/c", replace(PACKAGED, active=True), {}, []) == []


def test_what_a_killed_run_left_is_finished() -> None:
    assert kinds([], {}, "/c", BARE, {"shop": (True, True)}, []) == ["snapshot", "drill"]
    assert kinds([], {}, "/c", BARE, {"shop": (False, True)}, []) == ["drill"]
    assert kinds([], {}, "/c", PACKAGED, {"shop": (False, True)}, []) == ["drill", "run"]


def test_a_daemon_that_somebody_stopped_stays_so_and_that_is_said() -> None:
    assert kinds([], {}, "/c", PACKAGED, {}, []) == []
    assert "the daemon does not run" in service.stopped(PACKAGED, [])
    assert service.stopped(PACKAGED, steps([newcomer()], {}, "/c", PACKAGED, {}, [])) == ""
    assert service.stopped(replace(PACKAGED, active=True), []) == service.stopped(BARE, []) == ""


@pytest.mark.parametrize("engine", ["mysql", "mongodb"])
def test_a_command_that_is_shown_runs_nothing_else(engine: str) -> None:
    new = newcomer(server=server(engine=engine, socket="/tmp/$(id)/x y.sock"))
    assert "'/tmp/$(id)/x y.sock'" in script_command(new)


def test_nobody_has_to_log_in_where_the_server_asks_nobody() -> None:
    new = newcomer(server=server(engine="mongodb", login="open"), password="")
    assert kinds([new], {}, "/c", BARE, {}, []) == ["config", "snapshot", "drill"]


def test_where_nobody_can_make_the_account_it_is_written_what_does() -> None:
    new = newcomer(server=server(login="refused"))
    found = steps([new], {"shop": AccountState()}, "/c", BARE, {}, [])
    assert [step.kind for step in found][:2] == ["secret", "account-file"]
    assert (
        script_command(new) == "mysql -S /run/mysqld/mysqld.sock -u root -p < /etc/zbackup/shop.account.sql"
    )


def test_under_systemd_the_daemon_may_and_is_started_last() -> None:
    ready = {"shop": AccountState(works=True)}
    found = steps(
        [newcomer(copies=DestinationSetup(to="zfs:o/b", name="c"))], ready, "/c", PACKAGED, {}, ["mysql"]
    )
    assert found[0].argv == (
        "zfs",
        "allow",
        "-u",
        "zbackup",
        f"{service.PERMISSIONS},send,bookmark",
        "tank/mysql",
    )
    assert found[-1].argv[:3] == ("systemctl", "enable", "--now")
    running = steps([newcomer()], ready, "/c", replace(PACKAGED, active=True), {}, [])
    commands = [step.argv for step in running if step.argv]
    assert ("systemctl", "reload", "zbackup.service") in commands
    assert not any("enable" in argv for argv in commands)


# the service


TEXTS = {
    name: f"# {name}\nExecStart=/usr/local/bin/zbackup x\n" for name in (*service.UNITS, *service.SETTINGS)
}


def test_the_service_is_installed_with_the_program_that_installs_it() -> None:
    machine = replace(MACHINE, units={}, user=False, program="/opt/zbackup/bin/zbackup")
    found = service.install(TEXTS, machine, {})
    written = {step.path: step.content for step in found if step.kind == "write"}
    assert "ExecStart=/opt/zbackup/bin/zbackup x" in written["/etc/systemd/system/zbackup.service"]
    assert "/etc/sysusers.d/zbackup.conf" in written and "/etc/tmpfiles.d/zbackup.conf" in written
    assert [step.argv[0] for step in found if step.argv] == [
        "systemd-sysusers",
        "systemd-tmpfiles",
        "systemctl",
    ]
    assert service.install(TEXTS, replace(machine, user=True), written) == []


def test_what_a_package_brought_is_left_to_it() -> None:
    assert service.install(TEXTS, PACKAGED, {}) == []
    assert service.install(TEXTS, BARE, {}) == []
    without_user = service.install(TEXTS, replace(PACKAGED, user=False), {})
    assert "systemd-sysusers" in {step.argv[0] for step in without_user if step.argv}


def test_a_unit_that_somebody_changed_is_replaced_only_when_asked() -> None:
    path = "/etc/systemd/system/zbackup.service"
    machine = replace(PACKAGED, units={**PACKAGED.units, "zbackup.service": path})
    with pytest.raises(Refused, match="drop-in"):
        service.install(TEXTS, machine, {path: "# mine"})
    assert service.install(TEXTS, machine, {path: "# mine"}, replace=True)[0].path == path


def joined(groups: list[str], there: dict[str, str]) -> dict[str, str]:
    """The drop-ins after the steps."""
    found = [step for step in service.join_groups(groups, there) if step.kind == "write"]
    return there | {step.path: step.content for step in found}


def test_groups_that_the_units_do_not_name_go_into_drop_ins() -> None:
    assert service.join_groups(["mysql", "root", "sudo", ""], {}) == []
    daemon, reader, again = service.join_groups(["mongodb", "mysql", "mongodb"], {})
    assert [step.path for step in (daemon, reader)] == list(service.DROP_INS)
    assert daemon.content == reader.content
    assert daemon.content.endswith("[Service]\nSupplementaryGroups=mongodb\n")
    assert again.argv == ("systemctl", "daemon-reload")


def test_a_group_that_was_joined_stays_joined() -> None:
    before = joined(["mongodb"], {})
    assert {text.splitlines()[-1] for text in joined(["percona"], before).values()} == {
        "SupplementaryGroups=mongodb percona"
    }
    assert service.join_groups(["mongodb"], before) == [] == service.join_groups([], before)


def test_who_reads_for_the_page_is_let_in_also_where_the_daemon_was_before() -> None:
    daemon, reader = service.DROP_INS
    before = {daemon: joined(["mariadb"], {})[daemon]}
    assert joined([], before) == {daemon: before[daemon], reader: before[daemon]}


def test_a_daemon_that_runs_gets_a_new_group_by_being_started_again() -> None:
    running = replace(PACKAGED, active=True)
    ready = {"shop": AccountState(works=True)}
    for drop_ins in ({}, joined(["mongodb"], {})):
        found = steps([newcomer()], ready, "/c", running, {}, ["mongodb"], drop_ins)
        argvs = [step.argv for step in found]
        assert ("systemctl", "try-restart", "zbackup.service") in argvs
        restarted = argvs.index(("systemctl", "try-restart", "zbackup.service"))
        assert restarted > [step.kind for step in found].index("config")


# placement


MOUNTED = {"tank/mysql": "/var/lib/mysql", "tank": "/tank", "rpool/ROOT": "/"}


def test_a_server_on_datasets_of_one_pool_is_covered_by_the_outer_ones() -> None:
    found = server(homes={"/a": "tank/mysql", "/b": "tank/mysql/binlog"})
    assert placement.datasets(found, MOUNTED) == ("tank/mysql",)


def test_a_place_that_nothing_shows_to_be_the_servers_is_not_believed() -> None:
    with pytest.raises(Refused, match="/etc, which does not belong to its user mysql"):
        placement.datasets(server(doubted=("/etc",)), MOUNTED)


@pytest.mark.parametrize(
    ("homes", "why"),
    [
        ({}, "cannot be located"),
        ({"/var/lib/mysql": ""}, "lies on no ZFS dataset: make a dataset"),
        ({"/a": "tank/mysql", "/log": ""}, "/log lies on no ZFS dataset"),
        ({"/a": "tank/mysql", "/b": "other/log"}, "several pools"),
        ({"/tank/mysql": "tank"}, "the pool's own dataset"),
        ({"/var/lib/mysql": "rpool/ROOT"}, "the system's root dataset"),
    ],
)
def test_one_that_no_snapshot_covers_is_refused_with_what_to_do(homes: dict[str, str], why: str) -> None:
    with pytest.raises(Refused, match=why):
        placement.datasets(server(homes=homes), MOUNTED)


@given(datasets, st.lists(names, max_size=5))
def test_a_name_is_always_a_valid_one_that_is_free(dataset: str, taken: list[str]) -> None:
    name = placement.name_for(server(), (dataset,), taken)
    assert instance_name_is_valid(name) and name not in taken
