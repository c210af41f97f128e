"""Words for dev clones: what an instance allows, what is asked of an engine, what is done to them first."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from zbackup.model.recovery import Limits, Serving

OnBoot = Literal["boot", "never"]
NICE = Limits(nice=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """One step of masking: a file of SQL, or a program and its arguments. Exactly one of them is set."""

    sql: str = ""
    run: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.sql or self.run[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceServer:
    """The server that a replica follows, and the account with which it logs in there."""

    host: str
    port: int
    user: str
    password: Callable[[], str] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneRules:
    """The rules of how an instance's dev clones are made. Sizes in bytes (0: as the pool allows), times in
    seconds.

    `ports` are first and last of those to be given out, and `roots` the datasets below which clones of all
    instances lie, so that no name or port is given twice; `reserved` are names that zbackup uses itself.
    `lease` None: clones are kept until destroyed.
    `own_root`: the developers' account is an administrator. `warn` is how long before a lease's end
    `on_warning` is run.
    """

    roots: tuple[str, ...] = ()
    reserved: frozenset[str] = frozenset()
    ports: tuple[int, int] = (23100, 23199)
    memory: int = 256 * 1024**2
    lease: float | None = None
    quota: int = 0
    reservation: int = 0
    limits: Limits = NICE
    start: OnBoot = "never"
    own_root: bool = False
    mask: tuple[Mask, ...] = ()
    replica: SourceServer | None = None
    mask_limit: float = 3600.0
    warn: float = 1800.0
    on_warning: tuple[str, ...] = ()
    hook_limit: float = 30.0


DEFAULTS = CloneRules()


@dataclass(frozen=True, slots=True)
class Login:
    """An account of a clone's server: for developers, or `full`, an administrator's."""

    user: str
    password: str = field(repr=False)
    full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateServer:
    """A clone's server that nobody else can reach yet.

    `facts` are how to reach it, as environment variables; `execute` runs SQL statements, any number of them,
    and raises DatabaseError, or Refused with an engine that knows no SQL.
    """

    facts: Mapping[str, str] = field(repr=False)
    execute: Callable[[str], None]


Prepare = Callable[[PrivateServer], None]
"""Work on a private server. Whatever it raises ends the making of the clone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """The way in which a clone's files become a server of their own.

    `login` None leaves production's accounts as they are; else all of them get its password, and, unless it
    is full, none may do more than a developer needs. `recovered`: the files are not as a snapshot of
    production held them, but as a server of ours left them. `source`: it follows this server, from where the
    snapshot ends.
    """

    serving: Serving
    login: Login | None = None
    prepare: Prepare | None = None
    recovered: bool = False
    source: SourceServer | None = None
