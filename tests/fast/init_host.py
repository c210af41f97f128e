"""A host in memory on which `zbackup init` is run: its servers, accounts, systemd and terminal are made up,
pools, backups and drills are those of the world, and what init writes are real files."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fast.server import DATA, LOG
from tests.fast.test_drill import POOL
from tests.fast.world import World
from tests.unit.jobs.test_init_act import Accounts
from zbackup.cli.main import invoke
from zbackup.features.init import command, finish, install_service, questions, receive_command
from zbackup.features.init.jobs import act, discover, host
from zbackup.features.init.setup import FoundServer, HostFacts
from zbackup.jobs.watch import check as room
from zbackup.model.errors import CommandFailed, DatabaseError, ZbackupError
from zbackup.proc.listening import FoundProcess
from zbackup.zfs.datasets import Zfs
from zbackup.zfs.facts import ZfsFacts

SOCKET = "/run/mysqld/mysqld.sock"


def mysqld(socket: str = SOCKET, uid: int = 110, **more: Any) -> FoundProcess:
    values: dict[str, Any] = {
        "pid": uid,
        "gid": uid,
        "user": f"u{uid}",
        "program": "/usr/sbin/mysqld",
        "sockets": (socket,),
        "directories": (DATA, LOG),
        "unit": "mysql.service",
    }
    return FoundProcess(**{**values, **more}, uid=uid)


class Zpool(Zfs):
    """Zfs that is asked where paths lie, too."""

    def __init__(self, world: World) -> None:
        super().__init__(world.run, world)  # type: ignore[arg-type]
        self._world = world

    def homes(self, paths: Sequence[str]) -> dict[str, str]:
        found = {path: self._world.pools.mounted_at(path) for path in paths}
        return {path: each[0].name if each else "" for path, each in found.items()}


class Administrator(Accounts):
    """One server as anybody sees it: let in is who logs in as `admits`, with `is_open` without an account."""

    def __init__(self) -> None:
        super().__init__()
        self.admits: tuple[str, str | None] = ("root", None)
        self.asked: list[tuple[str, str | None]] = []
        self.is_open = False

    def inspect(self) -> tuple[str, tuple[str, ...], bool]:
        return "8.4.3", (), self.is_open

    def at(self, user: str, password: str | None) -> Accounts:
        self.asked.append((user, password))
        return self if (user, password) == self.admits else _Refusing()


class _Refusing(Accounts):
    def inspect(self) -> tuple[str, tuple[str, ...], bool]:
        raise DatabaseError("Access denied")


class _Terminal:
    """What errors and questions go to."""

    def __init__(self, host: "Host") -> None:
        self._host = host

    def isatty(self) -> bool:
        return self._host.isatty() and not self._host.errors_to_a_file


class Host:
    """`answers` are given at the terminal in their order, to questions that begin with these words; None:
    there is no terminal. `verdict` is what the daemon cannot do, `ran` what was run of systemd and ZFS."""

    def __init__(self, world: World, home: Path) -> None:
        self.world, self.etc = world, home / "etc"
        self.config = self.etc / "config.toml"
        self.processes, self.cut = [mysqld()], 0
        self.servers: dict[str, Administrator] = {}
        self.facts = HostFacts(systemd=False, user=False, program="/usr/bin/zbackup")
        self.there: dict[str, str] = {}
        self.verdict: list[ZbackupError] = []
        self.ran: list[tuple[str, ...]] = []
        self.fails: tuple[str, ...] = ()
        self.answers: list[tuple[str, str]] | None = None
        self.errors_to_a_file = False

    def server(self, where: str = SOCKET) -> Administrator:
        return self.servers.setdefault(where, Administrator())

    def init(self, *words: str, command: str = "init") -> int:
        return invoke(["--config", str(self.config), command, *words])

    def run(self, argv: Sequence[str], *, mutates: bool = True, timeout: float = 600) -> str:
        if argv[0] == "ssh-keygen":
            path = Path(argv[argv.index("-f") + 1])
            path.write_text("private")
            path.with_name(f"{path.name}.pub").write_text("ssh-ed25519 PUBLIC db1\n")
            return ""
        assert mutates
        if self.fails and tuple(argv[: len(self.fails)]) == self.fails:
            raise CommandFailed(tuple(argv), 1, "it failed")
        self.ran.append(tuple(argv))
        if tuple(argv[:3]) == ("systemctl", "enable", "--now"):
            self.facts = replace(self.facts, active=True)
        return ""

    def said(self, question: str) -> str:
        assert self.answers is not None
        begin, answer = self.answers.pop(0)
        assert question.startswith(begin), (question, begin)
        return answer

    def asked(self, question: str, **options: Any) -> str:
        answer = self.said(question)
        return str(options["default"]) if answer == "DEFAULT" else answer

    def state(self) -> tuple[object, ...]:
        """All that a run could change."""
        files = {str(each): each.read_text() for each in sorted(self.etc.rglob("*")) if each.is_file()}
        accounts = [(where, each.password) for where, each in self.servers.items() if each.password]
        names = [f"{s.of.name}@{s.name}" for s in self.world.pools.all_snapshots()]
        return files, accounts, sorted(names), sorted(self.world.pools.datasets), list(self.ran)

    def at_home(self, patch: pytest.MonkeyPatch) -> None:
        """init works on this host."""
        root = SimpleNamespace(geteuid=lambda: 0)
        doors: list[tuple[Any, str, object]] = [
            (command, "os", root),
            (install_service, "os", root),
            (command, "Zfs", lambda _: Zpool(self.world)),
            (receive_command, "Zfs", lambda _: Zpool(self.world)),
            (command, "administrator", self._administrator),
            (command, "Acting", partial(act.Acting, runner=self.run)),
            (receive_command.receiving, "act", lambda steps: [self.run(step.argv) for step in steps]),
            (install_service, "install", partial(act.install, runner=self.run)),
            (finish, "verdict", lambda *_: iter(self.verdict)),
            (finish.app, "context", self._context),
            (questions, "sys", SimpleNamespace(stdin=self, stderr=_Terminal(self))),
            (questions.typer, "prompt", self.asked),
            (questions.typer, "confirm", lambda question, **_: self.said(question) == "y"),
            (discover, "running", lambda *_: (list(self.processes), self.cut)),
            (discover, "listens", lambda *_: True),
            (discover, "shares_network", lambda _: True),
            (discover, "greeting", lambda _: "8.4.3"),
            (host, "inspect", lambda: self.facts),
            (host, "there", lambda: self.there),
            (host, "daemon_group", lambda: None),
            (host, "require_roots_program", lambda _: None),
            (room, "examine", lambda *_: []),
            (ZfsFacts, "pool", lambda *_: POOL),
        ]
        for where, name, door in doors:
            patch.setattr(where, name, door)

    def isatty(self) -> bool:
        return self.answers is not None

    def _administrator(self, server: FoundServer, user: str, password: str | None) -> Accounts:
        return self.server(server.where).at(user, password)

    def _context(self, settings: Any, instance: Any, progress: Any) -> Any:
        return self.world.context(
            instance=instance.name, datasets=instance.datasets, clones=instance.clones_dataset
        )
