"""A server that is configured already is known by its address or its datasets, and no other is taken for
it; an account is looked at only as far as it may be."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.unit.jobs.test_init_act import Accounts
from tests.unit.plan.test_init_plan import newcomer, server
from zbackup.config.load import parse
from zbackup.config.settings import Settings
from zbackup.features.init.jobs.accounts import account, configured
from zbackup.features.init.setup import AccountState, FoundServer, Newcomer
from zbackup.model.errors import Refused
from zbackup.proc.listening import FoundProcess

PORTS = (("127.0.0.1", 27017), ("127.0.0.1", 3306))


def found(
    engine: str = "mysql",
    *,
    sockets: tuple[str, ...] = (),
    ports: tuple[tuple[str, int], ...] = (),
    homes: Mapping[str, str] | None = None,
) -> FoundServer:
    process = FoundProcess(pid=7, uid=27, gid=27, user="x", program="/x", sockets=sockets, ports=ports)
    return server(process=process, engine=engine, homes=homes or {"/data": "tank/new"})


def settings(*tables: str) -> Settings:
    """Instances called a, b and so on, on the datasets other/a, other/b and so on, unless they say others."""
    text = ""
    for name, table in zip("abc", tables, strict=False):
        where = "" if "datasets" in table else f"datasets = ['other/{name}']\n"
        text += f"[instance.{name}]\n{where}{table}\n"
    return parse(text, "here")


MYSQL, MONGODB = "engine = 'mysql'", "engine = 'mongodb'"


def test_without_a_configuration_nothing_is_configured() -> None:
    assert configured(found(ports=PORTS), None) == ""


def test_a_server_is_known_by_its_socket_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "var-run").symlink_to("run")
    known = settings(f"{MYSQL}\nsocket = '{tmp_path}/other'", f"{MYSQL}\nsocket = '{tmp_path}/var-run/my'")
    assert configured(found(sockets=(f"{tmp_path}/x", f"{tmp_path}/run/my")), known) == "b"
    assert configured(found(sockets=(f"{tmp_path}/run/mine",)), known) == ""


def test_a_server_is_known_by_its_port_where_no_socket_or_uri_says_another() -> None:
    by_port = settings(f"{MYSQL}\nhost = '127.0.0.1'", f"{MONGODB}\nport = 27018", MONGODB)
    assert configured(found("mongodb", ports=PORTS), by_port) == "c"
    assert configured(found("mariadb", ports=PORTS), by_port) == "a"
    assert configured(found("mongodb", ports=(("127.0.0.1", 27019),)), by_port) == ""
    by_socket = settings(f"{MYSQL}\nsocket = '/run/one'", f"{MONGODB}\nsocket = '/run/two'")
    assert configured(found("mysql", ports=PORTS), by_socket) == ""
    elsewhere = settings(f"{MONGODB}\nuri = 'mongodb://127.0.0.1:27018'")
    assert configured(found("mongodb", ports=PORTS), elsewhere) == ""


@pytest.mark.parametrize(("engine", "name"), [("mysql", "a"), ("mariadb", "a"), ("mongodb", "b")])
def test_a_server_of_another_engine_is_another_server(engine: str, name: str) -> None:
    """Also on datasets of the other: what is below them is no backup of this one's."""
    same = "socket = '/s'\ndatasets = ['tank/{}']"
    both = settings(f"{MYSQL}\n{same.format('a')}", f"{MONGODB}\n{same.format('b')}")
    homes = {"/one": "tank/a/one", "/two": "tank/b"}
    assert configured(found(engine, sockets=("/s",)), both) == name
    assert configured(found(engine, homes=homes), both) == name
    assert configured(found("mongodb", homes=homes), settings(f"{MYSQL}\n{same.format('a')}")) == ""


@pytest.mark.parametrize(
    ("home", "name"),
    [("tank/a", "a"), ("tank/a/data", "a"), ("tank/ab", ""), ("tank", "a"), ("tan", ""), ("", "")],
)
def test_a_server_is_known_by_a_dataset_that_is_configured_above_or_below_it(home: str, name: str) -> None:
    known = settings(f"{MYSQL}\nsocket = '/s'\ndatasets = ['tank/a']")
    assert configured(found(sockets=("/t",), homes={"/log": "", "/data": home}), known) == name


class Unasked(Accounts):
    """A server that lets in nobody who could look at accounts."""

    def account_exists(self, user: str) -> bool:
        raise AssertionError("asked of somebody who is not let in")

    account_works = account_exists  # type: ignore[assignment]


def one(directory: Path, login: str, text: str = "") -> Newcomer:
    if text:
        (directory / "shop.password").write_text(text)
        (directory / "shop.password").chmod(0o600)
    return newcomer(server=server(login=login), password=str(directory / "shop.password"))


def test_where_nobody_logs_in_there_is_no_account_to_look_at(tmp_path: Path) -> None:
    assert account(one(tmp_path, "open", "hush"), Unasked()) is None
    assert account(newcomer(server=server(login="open"), password=""), Unasked()) is None


def test_an_account_that_works_needs_nothing(tmp_path: Path) -> None:
    accounts = Accounts()
    accounts.create_account("zbackup", "hush")
    assert account(one(tmp_path, "admin", "hush"), accounts) == AccountState(
        works=True, exists=True, secret=True
    )


def test_who_is_not_let_in_cannot_say_whether_there_is_an_account(tmp_path: Path) -> None:
    assert account(one(tmp_path, "refused"), Unasked()) == AccountState(exists=None, secret=False)
    assert account(one(tmp_path, "admin"), Accounts()) == AccountState(exists=False, secret=False)


def test_a_password_that_others_may_read_is_refused(tmp_path: Path) -> None:
    new = one(tmp_path, "admin", "hush")
    Path(new.password).chmod(0o644)
    with pytest.raises(Refused, match="lets others read the secret"):
        account(new, Accounts())
