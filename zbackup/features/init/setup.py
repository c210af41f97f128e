"""Words for setting zbackup up on a host: what was found there, what was decided, and what is to be done."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from zbackup.proc.listening import FoundProcess

EngineName = Literal["mysql", "mariadb", "mongodb"]

StepKind = Literal[
    "write",  # a file: `path`, with `content` known
    "secret",  # a file with a new random password: `path`
    "key",  # a new encryption key: `path`
    "credential",  # a file with the secret key of a bucket: `path`
    "identity",  # a new ssh key without a passphrase: `path`
    "account",  # the database account of `server`
    "account-file",  # what an administrator runs to make it: `path`
    "config",  # the configuration with the new instances
    "run",  # a command: `argv`
    "snapshot",
    "drill",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundServer:
    """A server that can be reached. `socket` is "" where it is reached by `host` and `port`.

    `version` is what it says itself. `homes` has the dataset that each directory with its files lies on, ""
    for none. `login` says whether an administrator could log in: "open" where nobody has to, "refused" where
    the account that was tried is not let in, with `problem`. `doubted` are places that it names as its own,
    and nothing shows that they are.
    """

    process: FoundProcess
    engine: EngineName
    version: str
    socket: str = ""
    host: str = ""
    port: int = 0
    homes: Mapping[str, str] = field(default_factory=dict, hash=False)
    login: Literal["admin", "open", "refused"] = "refused"
    problem: str = ""
    doubted: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """Its address, for people and to tell it from others."""
        return self.socket or f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountState:
    """The state of the database account: `works` when zbackup can log in and look with the password there is.

    `exists`: somebody made it; `secret`: its password's file is there. None where that could not be asked.
    """

    works: bool = False
    exists: bool | None = None
    secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A retention policy with its schedule, of which one is chosen. `keep` is as the configuration has it."""

    name: str
    snapshot: str
    prune: str
    keep: tuple[str, ...]
    window: str
    backups: int
    reach: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationSetup:
    """The destination of copies. `to` is an address as in the configuration, `name` what it is called.

    `settings` are further lines of its table, `table` those of its ssh or S3 table, named `kind`.
    """

    to: str
    name: str
    kind: Literal["", "ssh", "s3"] = ""
    settings: tuple[tuple[str, str], ...] = ()
    table: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomer:
    """An instance that is to be added. `password` is the file for it, "" where nobody has to log in."""

    name: str
    server: FoundServer
    datasets: tuple[str, ...]
    preset: Preset
    password: str = ""
    user: str = "zbackup"
    copies: DestinationSetup | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupStep:
    """One thing that is done, in words for people (`text`), with the command or path that does it.

    `mode` and `group` are those of a file. A step that is done already is none.
    """

    kind: StepKind
    text: str
    instance: str = ""
    path: str = ""
    content: str = ""
    argv: tuple[str, ...] = ()
    mode: int = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """The facts of the host that the service needs.

    `systemd`: it runs here; `user`: the account zbackup's daemon runs as is there; `units` the unit files
    that are there already, by name, with where; `program` zbackup's own path.
    """

    systemd: bool
    user: bool
    program: str
    units: Mapping[str, str] = field(default_factory=dict, hash=False)
    active: bool = False
