"""A clone's files become a server of its own, in whichever order that is told: a server in memory."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.engines.mysql.applying import Notes
from tests.unit.engines.mysql.recovered import Flavor
from tests.unit.engines.mysql.test_recovery_of_files import Log, record
from zbackup.engines.mysql.binlog.reader import transactions
from zbackup.engines.mysql.recovery import adopt as module
from zbackup.engines.mysql.recovery.adopt import adopt
from zbackup.model.cloning import Adoption, Login, PrivateServer, SourceServer
from zbackup.model.errors import VerificationFailed
from zbackup.model.progress import Progress, Silent
from zbackup.model.recovery import RecoveryFiles, Serving

SERVING = Serving(port=3307)
LOGIN = Login("dev", "secret")
SOURCE = SourceServer(host="db", port=3306, user="repl", password=lambda: "p")


@dataclass
class Server:
    """`did` is what happened to it, in order; `users` whom it is open to."""

    files: RecoveryFiles
    flavor: str
    did: list[str] = field(default_factory=list)
    shut: bool = False
    users: bool = False
    channels: list[str] = field(default_factory=lambda: ["", "analytics"])
    left_open: str = ""
    serving: Serving | None = None
    watched: int = 0

    own = SimpleNamespace(socket=Path("/run/x/mysqld.sock"))
    version = "9.7.4"

    def make_room(self) -> None:
        self.did.append("make room")

    def forget_identity(self) -> None:
        self.did.append("forget identity")

    def name_log_files(self) -> None:
        self.did.append("name log files")

    def serve(self, serving: Serving) -> None:
        assert not self.channels
        self.did.append("serve")
        self.serving, self.users = serving, True

    @contextmanager
    def temporary(self, before: str = "", *, recovers: bool = False) -> Iterator[Any]:
        assert recovers, "its files are as they were found"
        self.shut = bool(before)
        self.did.append("start for us")
        yield self._temporary()

    @contextmanager
    def opened(
        self, serving: Serving, before: str, after: Sequence[str] = (), *, calls_out: bool = False
    ) -> Iterator[Any]:
        assert not serving.follows, "whom production followed is in the files"
        assert calls_out is self.follows
        self.shut, self.users = bool(before), True
        self.did.append("start for users")
        yield self._temporary()
        self.did += after
        self.serving = serving

    follows = False

    def _temporary(self) -> Any:
        account = SimpleNamespace(user="u", password="p")
        return SimpleNamespace(
            connection=self,
            server=self,
            account=account,
            progressing=self.progressing,
            hand_over=lambda after=(): self.did.extend(["hand over", *after]),
        )

    @contextmanager
    def progressing(self) -> Iterator[Callable[[object], None]]:
        self.watched += 1
        try:
            yield lambda _: None
        finally:
            self.watched -= 1

    def rows(self, statement: str) -> list[dict[str, Any]]:
        assert statement == ("SHOW REPLICA STATUS" if self.flavor == "mysql" else "SHOW ALL SLAVES STATUS")
        return [{"Channel_Name": name, "Connection_name": name} for name in self.channels]

    def one(self, statement: str) -> dict[str, Any]:
        assert "CONCAT(User, '@', Host) AS name" in statement
        self.did.append("accounts looked at")
        return {"name": self.left_open} if self.left_open else {}

    def execute(self, statement: str) -> None:
        assert self.watched
        if "RESET" in statement and ("CHANNEL" in statement or "SLAVE" in statement):
            self.channels.remove(statement.split("'")[1])
        else:
            self.did.append(statement)

    def script(self, text: str) -> None:
        assert self.watched and not self.users
        self.did.append(text)


@pytest.fixture(params=["mysql", "mariadb"])
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Server:
    flavor: Flavor = request.param
    log = Log(tmp_path)
    log.commit(10, 20)
    held = replace(record(log.end(), engine=flavor), gtid="")
    files = RecoveryFiles(record=held, where=log.copy("clone"), home=tmp_path, run=tmp_path, hide=())
    made = Server(files, flavor)
    monkeypatch.setattr(module, "follow", lambda *_: made.did.append("follow"))

    @contextmanager
    def connect(*_: Any, scripts: bool) -> Iterator[Server]:
        yield made

    monkeypatch.setattr(module, "connect", connect)
    return made


def adopted(server: Server, adoption: Adoption, progress: Progress | None = None) -> list[str]:
    adopt(cast(Any, server), adoption, progress or Silent())
    return server.did


def test_it_is_nobodys_replica_before_anybody_gets_it(server: Server) -> None:
    did = adopted(server, Adoption(serving=SERVING))
    assert did == ["make room", "forget identity", "name log files", "start for users"]
    assert server.channels == [] and not server.shut and server.serving == SERVING


def test_production_s_accounts_are_shut_before_it_is_open(server: Server) -> None:
    did = adopted(server, Adoption(serving=SERVING, login=LOGIN))
    assert server.shut and did[4] == "accounts looked at"
    given = [what for what in did[5:] if what.startswith("GRANT")]
    assert bool(given) is (server.flavor == "mariadb")


def test_one_with_an_account_that_is_still_open_is_no_clone(server: Server) -> None:
    server.left_open = "app@%"
    with pytest.raises(VerificationFailed, match="app@% still has the password it has in production"):
        adopted(server, Adoption(serving=SERVING, login=LOGIN))
    assert server.serving is None


def test_one_that_follows_is_told_whom_when_it_has_forgotten_the_others(server: Server) -> None:
    server.follows = True
    did = adopted(server, Adoption(serving=replace(SERVING, follows=True), source=SOURCE))
    assert did[-1] == "follow" and server.channels == []


def test_what_is_masked_is_masked_where_nobody_else_comes_and_its_log_goes(server: Server) -> None:
    def prepare(private: PrivateServer) -> None:
        assert not server.users and server.channels == [] and server.shut
        assert private.facts["ZBACKUP_SOCKET"] == "/run/x/mysqld.sock"
        private.execute("UPDATE customer SET name = ''")

    did = adopted(server, Adoption(serving=SERVING, login=LOGIN, prepare=prepare))
    begun = did.index("start for us")
    assert [what for what in did[begun + 1 :] if what != "accounts looked at"][:3] == [
        "UPDATE customer SET name = ''",
        "RESET BINARY LOGS AND GTIDS",
        "hand over",
    ]
    assert "accounts looked at" in did[: did.index("UPDATE customer SET name = ''")]
    assert did[-1] == "serve" and server.serving == SERVING


@pytest.mark.parametrize(
    ("version", "statement"),
    [
        ("8.4.3", "RESET BINARY LOGS AND GTIDS"),
        ("8.0.36", "RESET MASTER"),
        ("10.11.6-MariaDB", "RESET MASTER"),
    ],
)
def test_each_server_is_told_in_its_own_words_that_its_log_goes(
    server: Server, version: str, statement: str
) -> None:
    server.version = version
    assert statement in adopted(server, Adoption(serving=SERVING, prepare=lambda _: None))


def test_a_server_without_a_log_has_none_to_delete(server: Server) -> None:
    held = replace(server.files.record, server={"blockers": "the binlog is off: set log_bin"}, position="")
    server.files = replace(server.files, record=held)
    assert not [
        what for what in adopted(server, Adoption(serving=SERVING, prepare=lambda _: None)) if "RESET" in what
    ]


def test_one_that_is_not_what_was_recorded_is_no_clone(server: Server) -> None:
    (first, _) = transactions(server.files.where.path("/srv/log") / "binlog.000001")
    server.files = replace(server.files, record=replace(server.files.record, position=str(first.end)))
    with pytest.raises(VerificationFailed, match="do not trust it"):
        adopted(server, Adoption(serving=SERVING))
    assert server.serving is None
    # What a recovery has left is behind what its base was recorded with.
    adopted(server, Adoption(serving=SERVING, recovered=True))
    assert server.serving == SERVING


def test_people_are_told_what_is_done(server: Server) -> None:
    notes = Notes()
    adopted(server, Adoption(serving=SERVING, prepare=lambda _: None), notes)
    adopted(server, Adoption(serving=SERVING, recovered=True), notes)
    assert [name for name, _ in notes.phases] == ["masking", "starting the server", "starting the server"]
