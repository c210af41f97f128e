"""Tell what lies at an address that no configuration names: it names itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zbackup.destinations.base import Destination
from zbackup.destinations.copies import Copies, by_server
from zbackup.model.backup import Backup
from zbackup.model.errors import NotFound, NotRecoverable, Refused, UsageError

ENGINES = ("mysql", "mariadb", "mongodb")
MOST_NAMED = 10

Opened = Callable[[str, str], Destination]
"""The destination of a path below the address ("" for itself) and an instance."""


@dataclass(frozen=True, slots=True)
class InstanceAtAddress:
    """The backups of an instance at `address`: the one that was given or, with `path`, below that."""

    instance: str
    path: str
    address: str
    copies: Copies

    @property
    def servers(self) -> Sequence[Backup]:
        """The newest backup of each server that has backups here."""
        return [backups[-1] for backups in by_server(self.copies.backups)]

    def __str__(self) -> str:
        servers = "; ".join(f"{described(newest)}, newest {newest.name}" for newest in self.servers)
        return (
            f"{self.instance}{f' at {self.address}' if self.path else ''} ({servers or 'none can be read'})"
        )

    def newest(self, base: str = "") -> Backup:
        """The newest backup; with `base` the one of that name.

        Raise NotFound where there is none of that name, and Refused where engines that this is of disagree.
        """
        named = [b for b in self.copies.backups if base in ("", b.name)]
        known = [b for b in named if b.record.engine in ENGINES]
        if not named:
            raise NotFound(f"there is no backup {base} of {self.instance} at {self.address}")
        if not known:
            raise Refused(
                f"the backups of {self.instance} at {self.address} are of no engine that is known here"
            )
        if len({b.record.engine for b in known}) > 1:
            each = "; ".join(f"{b.name} of {b.record.engine}" for b in self.servers)
            raise Refused(
                f"{self.instance} at {self.address} has backups of several engines: {each}; choose with "
                "--base"
            )
        return known[-1]


def described(backup: Backup) -> str:
    """Describe the server that the backup is of."""
    record = backup.record
    return f"{record.engine} {record.server_version}, server {record.server_uuid}"


def survey(
    root: Destination, opened: Opened, only: str = "", *, everywhere: bool = True
) -> list[InstanceAtAddress]:
    """Find the instances whose backups lie there, or the instance `only`. Raise NotRecoverable for none at
    all.

    Raise Refused when what is there can be read with no key, or not with the one that was given. Without
    `everywhere`, where the instance is named, nothing else is looked for.
    """
    named = [("", only)] if only and not everywhere else root.instances()
    below = [(path, name) for path, name in named if only in ("", name)]
    if not below:
        known = ", ".join(sorted({name for _, name in named})[:MOST_NAMED])
        raise NotRecoverable(
            f"there is no backup of {only} at {root.address}; there is {known}"
            if known
            else f"there is no backup at {root.address}"
        )
    return [_found(opened(path, name), path, name) for path, name in below]


def _found(destination: Destination, path: str, instance: str) -> InstanceAtAddress:
    with destination.connect() as session:
        copies = session.copies().to_restore()
    if copies.unproven:
        raise Refused(
            f"the backups of {instance} at {destination.address} are encrypted: name the file with their "
            "key, --key FILE"
        )
    return InstanceAtAddress(instance, path, destination.address, copies)


def choose(found: Sequence[InstanceAtAddress], address: str) -> InstanceAtAddress:
    """The one that there is. Raise UsageError where there are several, with what tells them apart."""
    if len(found) > 1:
        some = "; ".join(map(str, found[:MOST_NAMED])) + ("; ..." if len(found) > MOST_NAMED else "")
        same = len({each.instance for each in found}) == 1
        how = "with the address that it has here" if same else "with --instance NAME"
        raise UsageError(f"backups of {len(found)} instances lie at {address}: {some}. Say which, {how}")
    (one,) = found
    return one


def require_readable(found: InstanceAtAddress) -> None:
    """Raise Refused where nothing can be read, with the first reason."""
    if found.copies.backups:
        return
    reason = found.copies.unreadable[0][1] if found.copies.unreadable else "none is committed"
    raise Refused(f"no backup of {found.instance} at {found.address} can be restored: {reason}")
