"""Discovery among hostile servers: root neither waits for whoever runs one, nor believes him, nor passes him
over silently."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from zbackup.config.load import parse
from zbackup.engines.mysql.server import account
from zbackup.features.init import command
from zbackup.features.init.draft import draft, known_hosts_line, with_known_host
from zbackup.features.init.jobs import accounts, administrators, discover, receiving
from zbackup.features.init.options import Wishes
from zbackup.features.init.setup import FoundServer
from zbackup.model.errors import DatabaseError, Refused
from zbackup.proc.listening import FoundProcess

KEY = "ssh-ed25519 " + "A" * 68


class Homes:
    """Each directory lies on a dataset of its own."""

    def homes(self, paths: list[str]) -> dict[str, str]:
        return {path: f"tank{path}" for path in paths}

    def filesystems(self, pool: str) -> list[Any]:
        return []


class Says:
    """A server that lets root in and says where its files are."""

    def __init__(self, *places: str) -> None:
        self.places = places

    def inspect(self) -> tuple[str, tuple[str, ...], bool]:
        return "8.4.3", self.places, False


def process(uid: int = 110, **more: Any) -> FoundProcess:
    values = {"pid": uid, "gid": uid, "user": f"u{uid}", "program": "/usr/sbin/mysqld", "sockets": ("/s/a",)}
    return FoundProcess(**{**values, **more}, uid=uid)


def server(uid: int = 110, unit: str = "mysql.service", **more: Any) -> FoundServer:
    one = process(uid, unit=unit, directories=("/data",), sockets=(f"/s/{uid}",))
    homes = {"/data": f"tank/m{uid}"}
    return FoundServer(
        process=one, engine="mysql", version="8", socket=f"/s/{uid}", homes=homes, login="admin", **more
    )


def wishes(**more: Any) -> Wishes:
    none = {"yes": True, "print_only": False, "named": {}, "retention": "", "copies": "", "host_key": ""}
    return Wishes(**{**none, "admin_user": "", "admin_password": None, "drill": True, **more})


def found(
    monkeypatch: pytest.MonkeyPatch,
    *processes: FoundProcess,
    named: tuple[str, ...] = (),
    cut: int = 0,
    says: str = "8.4.3",
    elsewhere: tuple[str, ...] = (),
    apart: bool = False,
) -> Any:
    """Discover; and the sockets that were connected to. Servers answer what one `says`, but at sockets that
    lie `elsewhere`, behind which is another process; `apart`: they have a network of their own."""
    asked: list[str] = []

    def greeting(path: str) -> str:
        asked.append(path)
        return says

    monkeypatch.setattr(discover, "running", lambda *_: (list(processes), cut))
    monkeypatch.setattr(discover, "listens", lambda path, pid: path not in elsewhere)
    monkeypatch.setattr(discover, "shares_network", lambda pid: not apart)
    monkeypatch.setattr(discover, "greeting", greeting)
    zfs = cast(Any, Homes())
    servers, passed = discover.discover(zfs, Path("/run/zbackup"), named, lambda _: [cast(Any, Says())])
    return servers, passed, asked


def test_nobody_connects_to_an_ordinary_users_server_that_is_not_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (seen,), passed, asked = found(monkeypatch, process(1000, directories=("/home/x",)))
    assert (seen.where, seen.login, asked, passed) == ("/s/a", "refused", [], ())


def test_of_one_that_is_named_no_other_socket_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    one = process(1000, sockets=("/s/a", "/s/b", "/s/c"))
    (seen,), _, asked = found(monkeypatch, one, named=("/s/b",))
    assert (seen.where, asked) == ("/s/b", ["/s/b"])


def test_what_zbackup_started_itself_is_neither_offered_nor_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clone = process(110, sockets=("/run/zbackup/shop-drill/mysql.sock",))
    assert found(monkeypatch, clone) == ((), (), [])


def test_nobody_connects_to_what_runs_as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    servers, (passed,), asked = found(monkeypatch, process(0))
    assert (servers, asked) == ((), []) and "runs as root" in passed.why


def test_a_server_is_reached_at_the_socket_that_it_answers_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind another of the same name may be somebody else's server, who is not even greeted."""
    one = process(sockets=("/s/a", "/s/b"), ports=(("0.0.0.0", 3306),))
    (seen,), passed, asked = found(monkeypatch, one, named=("/s/other",), elsewhere=("/s/a",))
    assert (seen.where, seen.engine, seen.login, asked) == ("/s/b", "mysql", "admin", ["/s/b"])
    servers, (passed,), asked = found(monkeypatch, one, elsewhere=("/s/a", "/s/b"))
    assert (servers, asked) == ((), []) and "answers at no socket" in passed.why
    servers, (passed,), _ = found(monkeypatch, one, says="")
    assert servers == () and "answers at no socket" in passed.why


def test_a_mysqld_may_be_a_mariadb(monkeypatch: pytest.MonkeyPatch) -> None:
    (seen,), _, _ = found(monkeypatch, process(), says="5.5.5-10.11.18-MariaDB-log")
    assert seen.engine == "mariadb"


MONGOD = "/usr/bin/mongod"


@pytest.mark.parametrize(
    ("where", "facts"),
    [
        ("127.0.0.1:27017", {"ports": (("127.0.0.1", 27017),)}),
        ("127.0.0.1:27018", {"ports": (("10.0.0.1", 27017), ("0.0.0.0", 27018))}),
        ("::1:27017", {"ports": (("::", 27017),)}),
        ("/s/a", {"ports": (("10.0.0.1", 27017),)}),
        ("/s/b", {"sockets": ("/s/gone", "/s/b")}),
    ],
)
def test_a_mongod_is_reached_by_its_port_on_this_host_or_else_by_its_socket(
    monkeypatch: pytest.MonkeyPatch, where: str, facts: dict[str, Any]
) -> None:
    (seen,), _, asked = found(monkeypatch, process(program=MONGOD, **facts), elsewhere=("/s/gone",))
    assert (seen.where, seen.engine, seen.login, asked) == (where, "mongodb", "admin", [])


@pytest.mark.parametrize("uid", [110, 1000])
def test_a_port_in_another_network_is_not_the_one_of_this_host(
    monkeypatch: pytest.MonkeyPatch, uid: int
) -> None:
    """A container's mongod is not taken for the one that has its port here, and is configured already."""
    ports = (("0.0.0.0", 27017),)
    far = process(uid, program=MONGOD, sockets=("/s/far",), ports=ports)
    known = parse("[instance.carts]\nengine = 'mongodb'\ndatasets = ['tank/carts']\n", "here")
    (seen,), _, _ = found(monkeypatch, far, apart=True)
    assert (seen.where, accounts.configured(seen, known)) == ("/s/far", "")
    (seen,), _, _ = found(monkeypatch, far)
    assert (seen.where, accounts.configured(seen, known)) == ("127.0.0.1:27017", "carts")
    servers, (passed,), _ = found(monkeypatch, replace(far, sockets=()), apart=True)
    assert servers == () and "is it in a container?" in passed.why


def test_of_one_that_is_named_no_other_port_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    two = (("127.0.0.1", 27017), ("127.0.0.1", 27018))
    one = process(1000, program=MONGOD, sockets=(), ports=two)
    (seen,), _, _ = found(monkeypatch, one, named=("127.0.0.1:27018",))
    assert (seen.where, seen.login) == ("127.0.0.1:27018", "admin")


@pytest.mark.parametrize(
    ("where", "facts"),
    [
        ("127.0.0.1:27017", {"program": MONGOD, "sockets": (), "ports": (("0.0.0.0", 27017),)}),
        ("127.0.0.1:27018", {"program": MONGOD, "ports": (("127.0.0.1", 27018), ("::1", 27018))}),
        ("::1:27017", {"program": MONGOD, "sockets": (), "ports": (("10.0.0.1", 27017), ("::", 27017))}),
        ("/s/a", {"program": MONGOD, "ports": (("10.0.0.1", 27017),)}),
        ("/s/a", {"sockets": ("/s/b", "/s/a"), "ports": (("0.0.0.0", 3306),)}),
    ],
)
def test_an_ordinary_users_server_is_reached_by_the_address_that_is_shown(
    monkeypatch: pytest.MonkeyPatch, where: str, facts: dict[str, Any]
) -> None:
    """Of a mongod by its port, as for the system's: the daemon has a /tmp of its own."""
    one = process(1000, **facts)
    (shown,), _, asked = found(monkeypatch, one)
    assert (shown.where, shown.login, asked) == (where, "refused", [])
    (reached,), passed, _ = found(monkeypatch, one, named=(where,))
    assert (reached.where, reached.login, passed) == (where, "admin", ())


def test_an_ordinary_users_server_that_nobody_here_can_reach_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ports = (("10.0.0.1", 27017),)
    for one in (
        process(1000, sockets=(), ports=(("0.0.0.0", 3306),)),
        process(1000, program=MONGOD, sockets=(), ports=ports),
        process(1000, sockets=()),
    ):
        servers, (passed,), asked = found(monkeypatch, one)
        assert (servers, asked) == ((), []) and "answers at no socket" in passed.why


def test_it_is_said_that_not_all_were_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    _, (passed,), _ = found(monkeypatch, cut=5)
    assert passed.why.startswith("5 more processes")


def test_a_place_counts_that_is_the_users_or_has_open_files(tmp_path: Path) -> None:
    own, opened, other = tmp_path / "own", tmp_path / "open", Path("/etc")
    own.mkdir()
    opened.mkdir()
    me = tmp_path.stat().st_uid
    uid = me or 110
    if not me:
        own.chmod(0o755)
        import os

        os.chown(own, uid, uid)
    one = FoundServer(
        process=process(uid, directories=(str(opened / "x"),)), engine="mysql", version="8", socket="/s"
    )
    said = cast(Any, Says(str(own), str(opened), str(other)))
    seen = discover.seen(one, cast(Any, Homes()), [said])
    assert seen.doubted == ("/etc",) and "/etc" not in seen.homes
    assert {str(own), str(opened)} <= set(seen.homes)


class Answers(Says):
    """A server as one who asks it sees it: open, or only for some."""

    def __init__(self, *, is_open: bool = False, refuses: str = "") -> None:
        super().__init__()
        self.is_open, self.refuses = is_open, refuses

    def inspect(self) -> tuple[str, tuple[str, ...], bool]:
        if self.refuses:
            raise DatabaseError(self.refuses)
        return "8.4.3", self.places, self.is_open


@pytest.mark.parametrize(("is_open", "login"), [(True, "open"), (False, "admin")])
def test_the_first_who_is_let_in_tells_what_a_server_is(is_open: bool, login: str) -> None:
    """And the same one makes the account."""
    no, yes = cast(Any, Answers(refuses="not you")), cast(Any, Answers(is_open=is_open))
    one = replace(server(), login="refused", homes={})
    seen = discover.seen(one, cast(Any, Homes()), [no, yes, no])
    assert (seen.login, seen.version, seen.problem, seen.homes) == (
        login,
        "8.4.3",
        "",
        {"/data": "tank/data"},
    )
    assert discover.first_admitted([no, yes, no]) is yes
    assert discover.first_admitted([no, no, yes]) is yes


def test_where_nobody_is_let_in_it_is_said_why_and_what_the_kernel_shows() -> None:
    no = cast(Any, Answers(refuses="not you"))
    seen = discover.seen(replace(server(), login="refused", homes={}), cast(Any, Homes()), [no])
    assert (seen.login, seen.problem, seen.homes) == ("refused", "not you", {"/data": "tank/data"})
    assert discover.first_admitted([no]) is no


def test_what_a_server_names_and_is_not_there_is_neither_its_own_nor_doubted(tmp_path: Path) -> None:
    """Nor does anything that it could name end the look."""
    (tmp_path / "loop").symlink_to("loop")
    names = [str(tmp_path / "not begun"), str(tmp_path / "loop"), f"{tmp_path}/\0"]
    seen = discover.seen(server(), cast(Any, Homes()), [cast(Any, Says(*names))])
    assert (seen.doubted, seen.homes) == ((), {"/data": "tank/data"})


def drafted(*servers: FoundServer, ask: bool = False, **more: Any) -> Any:
    return draft(wishes(**more), servers, {}, None, Path("/etc/z"), cast(Any, Homes()), ask=ask)


def test_with_yes_a_server_is_taken_that_a_unit_started_or_that_is_named() -> None:
    plan = drafted(server(110), server(33, unit=""), server(1000))
    assert [new.server.where for new in plan.newcomers] == ["/s/110"]
    assert [text.split(":")[0] for text in plan.left] == ["/s/33", "/s/1000"]
    assert "the ordinary user u1000 runs it" in plan.left[1]
    plan = drafted(server(33, unit=""), server(110), named={"/s/33": "shop"})
    assert [new.name for new in plan.newcomers] == ["shop"] and plan.left == ("/s/110: not named",)


def one_run(**more: Any) -> Any:
    run = object.__new__(command._Init)
    run.wishes, run.ask, run.settings, run.logins, run.zfs = (
        wishes(**more),
        True,
        None,
        {},
        cast(Any, Homes()),
    )
    return run


def test_no_administrators_password_goes_to_an_ordinary_user(monkeypatch: pytest.MonkeyPatch) -> None:
    run = one_run(named={"/s/1000": "shop"}, admin_user="dba", admin_password="x")
    with pytest.raises(Refused, match="the ordinary user u1000"):
        run._administrators(server(1000))
    monkeypatch.setattr(command.questions, "administrator", lambda *_: pytest.fail("it asked"))
    refused = FoundServer(process=process(1000), engine="mysql", version="8", socket="/s/1000")
    assert run._let_in(refused) is refused and one_run()._let_in(refused) is refused


def test_an_administrator_logs_in_at_the_process_that_was_found() -> None:
    made = cast(Any, administrators.administrator(server(110), "root", "x"))
    assert made.connect.peer == (110, 110) and made.connect.limit_s


def test_a_server_that_is_left_is_said_and_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    finished = SimpleNamespace(failed=[], status=0)
    plan = drafted(server(110), server(1000))
    with pytest.raises(command.typer.Exit) as left:
        one_run()._end(cast(Any, finished), plan)
    assert left.value.exit_code == Refused.exit_status
    assert "not protected: /s/1000" in capsys.readouterr().err
    one_run(named={"/s/110": "shop"})._end(cast(Any, finished), plan)
    assert "not protected: /s/1000" in capsys.readouterr().err


def test_other_hosts_stay_known() -> None:
    first = known_hosts_line("ssh://z@vault1/tank/b", KEY)
    both = with_known_host(first.rstrip("\n"), known_hosts_line("ssh://z@vault2/tank/b", KEY))
    assert both == f"vault1 {KEY}\nvault2 {KEY}\n"
    assert with_known_host(both, first) == both


def test_root_under_another_name_does_not_receive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "_user", lambda _: SimpleNamespace(pw_uid=0))
    with pytest.raises(Refused, match="user id 0"):
        receiving.inspect(cast(Any, Homes()), "tank/b", "toor")


def test_a_key_that_is_there_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/authorized_keys").write_text(f"{KEY}\n")
    monkeypatch.setattr(receiving, "_user", lambda _: SimpleNamespace(pw_uid=900, pw_dir=str(tmp_path)))
    with pytest.raises(Refused, match="in authorized_keys already"):
        receiving.require_addable("zrecv", f'restrict,command="x" {KEY}')


def test_a_password_with_quotes_is_one_text_of_the_script() -> None:
    script = account.script("mysql", "zbackup", "it's\\n; DROP USER x; -- ")
    assert "IDENTIFIED BY 'it''s\\\\n; DROP USER x; -- ';" in script
    assert script.index("NO_BACKSLASH_ESCAPES") < script.index("CREATE USER")
