"""Commands on a host that has no configuration: --from ADDRESS, and what belongs to it."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from zbackup import app
from zbackup.cli import logs
from zbackup.cli.command_context import Done, Outcomes, Result, in_turn
from zbackup.cli.options import Options
from zbackup.cli.private_key import at_address as with_private_keys
from zbackup.cli.progress import shown
from zbackup.config.from_address import AddressAccess, Wanted, access, require_below, settings_for
from zbackup.config.settings import Settings
from zbackup.config.ship import S3Address, Ship, ZfsAddress
from zbackup.destinations.base import Destination
from zbackup.jobs.context import Context
from zbackup.jobs.restore.address_survey import InstanceAtAddress, choose, require_readable, survey
from zbackup.model.errors import UsageError

Origin = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="ADDRESS",
        help="What lies at this address (s3://bucket/prefix, ssh://user@host/pool/dataset, "
        "zfs:pool/dataset), which needs no configuration.",
        show_default=False,
    ),
]
Keys = Annotated[
    list[Path] | None,
    typer.Option(
        "--key",
        metavar="FILE",
        help="File with the key of a bucket's backups; repeat it for earlier keys.",
        show_default=False,
    ),
]
Endpoint = Annotated[
    str,
    typer.Option(
        "--endpoint",
        metavar="URL",
        help="The S3 server, where it is not AWS. Credentials are found as the AWS tools find them.",
        show_default=False,
    ),
]
Identity = Annotated[
    Path | None,
    typer.Option(
        "--identity",
        metavar="FILE",
        help="Private key for ssh (default: as ssh finds one).",
        show_default=False,
    ),
]
KnownHosts = Annotated[
    Path | None,
    typer.Option(
        "--known-hosts",
        metavar="FILE",
        help="File with the other host's public key (default: ssh's own).",
        show_default=False,
    ),
]
Sudo = Annotated[bool, typer.Option("--sudo", help="Run zfs on the other host by sudo -n.")]
Named = Annotated[
    str,
    typer.Option(
        "--instance",
        metavar="NAME",
        help="Which instance, where backups of several lie there.",
        show_default=False,
    ),
]
Below = Annotated[
    str,
    typer.Option(
        "--below",
        metavar="DATASET",
        help="Restore below this dataset of this host; it is made if it is not there.",
        show_default=False,
    ),
]
Program = Annotated[
    Path | None,
    typer.Option(
        "--server",
        metavar="PROGRAM",
        help="The server program to recover with, in place of recovery.server: of the version that wrote the "
        "backup.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """The options of somebody who has no configuration: how the address is reached, and what is wanted of
    it."""

    reached: AddressAccess
    instance: str = ""
    below: str = ""
    server: Path | None = None

    def require_same_pool(self) -> None:
        """Raise UsageError where clones of what lies there cannot go below that dataset."""
        to = self.reached.to
        pool = to.dataset.partition("/")[0] if isinstance(to, ZfsAddress) and not to.host else ""
        if pool and self.below and self.below.partition("/")[0] != pool:
            raise UsageError(
                f"--run-at-destination clones what lies at {to}, and a clone stays on its pool: "
                f"--below {pool}/..."
            )


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """An instance that lies at an address, the context made for it, and the configuration that says so."""

    context: Context
    at: InstanceAtAddress
    configuration: str


def require_address(origin: str | None) -> None:
    """Raise UsageError for a name where only an address is meant."""
    if origin is not None and not is_address(origin):
        raise UsageError(f"--from wants an address, such as s3://bucket/prefix: is --at {origin} meant?")


def is_address(origin: str | None) -> bool:
    """Tell an address from the name of a configured destination, which has no colon."""
    return origin is not None and ":" in origin


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressOptions:
    """The options that only an address has a use for."""

    key: list[Path] | None
    endpoint: str
    identity: Path | None
    known_hosts: Path | None
    sudo: bool
    instance: str
    below: str = ""

    def of(
        self,
        origin: str | None,
        instance: str | None,
        options: Options,
        server: Path | None = None,
        private_keys: Sequence[Path] = (),
    ) -> Elsewhere | None:
        """Return what is wanted of the address `origin`, with the program `server` to recover with; None
        where it is none. `private_keys` go with a destination's name as well. Raise UsageError."""
        if origin is None or not is_address(origin):
            lost = [
                f"--{f.name.replace('_', '-')}" for f in dataclasses.fields(self) if getattr(self, f.name)
            ]
            if lost:
                raise UsageError(
                    f"{lost[0]} belongs to an address: --from s3://bucket/prefix, "
                    "ssh://user@host/pool/dataset or zfs:pool/dataset"
                )
            return None
        if options.config:
            raise UsageError(
                "--from ADDRESS needs no configuration: leave out --config, or name a destination"
            )
        if instance and self.instance and instance != self.instance:
            raise UsageError(f"which instance, {instance} or {self.instance}? Name one")
        reached = access(
            origin,
            keys=self.key or (),
            endpoint=self.endpoint,
            identity=self.identity,
            known_hosts=self.known_hosts,
            sudo=self.sudo,
        )
        return Elsewhere(
            reached=with_private_keys(reached, private_keys),
            instance=self.instance or instance or "",
            below=require_below(self.below) if self.below else "",
            server=server,
        )


@contextmanager
def on_address(options: Options, job: str, wanted: Elsewhere, base: str = "") -> Iterator[Rebuilt]:
    """The one instance that is meant. Raise UsageError when it is not clear which, or below what."""
    if not wanted.below:
        raise UsageError("say below which dataset of this host to restore: --below tank/recovered")
    logs.bind(job=job)
    with shown(options) as progress:
        progress.phase("inspecting", f"what lies at {wanted.reached.to}")
        at = choose(_survey(wanted), str(wanted.reached.to))
        require_readable(at)
        settings, text = _settings(at, wanted, base)
        (instance,) = settings.instance.values()
        logs.bind(job=job, instance=instance.name)
        yield Rebuilt(app.context(settings, instance, progress), at, text)


def all_at(
    options: Options, job: str, wanted: Elsewhere, action: Callable[[Rebuilt], Result]
) -> Outcomes[Result]:
    """Do it for every instance that lies there, or the one that is named, as on_each does."""
    logs.bind(job=job)
    with shown(options) as progress:
        progress.phase("inspecting", f"what lies at {wanted.reached.to}")

        def turn(at: InstanceAtAddress) -> Done[Result]:
            require_readable(at)
            settings, text = _settings(at, wanted, at.servers[-1].name)
            (instance,) = settings.instance.values()
            context = app.context(settings, instance, progress)
            return Done(context, action(Rebuilt(context, at, text)))

        return in_turn([(at.instance, partial(turn, at)) for at in _survey(wanted)])


def _survey(wanted: Elsewhere) -> list[InstanceAtAddress]:
    """Find what lies at the address. Who may read one instance of a bucket alone cannot list what else is
    there."""
    reached = wanted.reached

    def opened(path: str, name: str) -> Destination:
        return destination(below(reached, path), name)

    everywhere = not isinstance(reached.to, S3Address)
    return survey(destination(reached, ""), opened, wanted.instance, everywhere=everywhere)


def _settings(at: InstanceAtAddress, wanted: Elsewhere, base: str) -> tuple[Settings, str]:
    newest = at.newest(base)
    return settings_for(
        Wanted(
            name=at.instance,
            engine=newest.record.engine,
            members=[dataset for dataset, _ in newest.record.members],
            below=wanted.below,
            server=wanted.server,
        ),
        below(wanted.reached, at.path),
    )


def below(reached: AddressAccess, path: str) -> AddressAccess:
    """The same address, at a path below it."""
    if not path or not isinstance(reached.to, ZfsAddress):
        return reached
    to = dataclasses.replace(reached.to, dataset=f"{reached.to.dataset}/{path}")
    return dataclasses.replace(reached, to=to)


def destination(reached: AddressAccess, instance: str) -> Destination:
    """Return the adapter, with what a configuration says that has nothing in it."""
    ship: Ship = reached.ship()
    return app.destination(Settings(instance={}), instance, ship)
