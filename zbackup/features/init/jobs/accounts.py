"""Inspect what is configured already, what is not, and what the accounts of new servers are like. Looks
only."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from zbackup.config.secret import SecretRef
from zbackup.config.settings import Instance, Settings
from zbackup.features.init.jobs.administrators import Administrator
from zbackup.features.init.setup import AccountState, FoundServer, Newcomer
from zbackup.jobs.context import Context
from zbackup.jobs.drills.verdicts import drilled
from zbackup.model.errors import ConfigError, Refused, ZbackupError
from zbackup.zfs.datasets import Zfs


def configured(server: FoundServer, settings: Settings | None) -> str:
    """The instance that is this server already, by its address or its datasets; "" for none."""
    instances = settings.instance.values() if settings else ()
    return next((each.name for each in instances if _is(server, each)), "")


def _is(server: FoundServer, instance: Instance) -> bool:
    if (server.engine == "mongodb") != (instance.engine == "mongodb"):
        return False
    if path := instance.socket_path:
        there = {os.path.realpath(each) for each in server.process.sockets}
        if os.path.realpath(path) in there:
            return True
    elif not instance.uri and instance.tcp_port in {port for _, port in server.process.ports}:
        return True
    return any(_overlap(home, dataset) for home in server.homes.values() for dataset in instance.datasets)


def _overlap(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def mountpoints(zfs: Zfs, homes: Iterable[str]) -> dict[str, str]:
    """Return where the pools' datasets are mounted, of those that are. Raise CommandFailed when ZFS cannot be
    asked."""
    pools = dict.fromkeys(home.partition("/")[0] for home in homes if home)
    return {d.name: d.mountpoint for pool in pools for d in zfs.filesystems(pool) if d.mountpoint}


def account(new: Newcomer, administrator: Administrator) -> AccountState | None:
    """Inspect its account; None where nobody has to log in.

    Raise Refused when there is one whose password nobody told us.
    """
    if new.server.login == "open":
        return None
    password = _secret(Path(new.password))
    if password and administrator.account_works(new.user, password):
        return AccountState(works=True, exists=True, secret=True)
    exists = administrator.account_exists(new.user) if new.server.login == "admin" else None
    if exists and not password:
        raise Refused(
            f"{new.server.where} has an account {new.user} already: write its password into {new.password} "
            "(one line), or drop the account, and run zbackup init again"
        )
    return AccountState(exists=exists, secret=bool(password))


def _secret(path: Path) -> str:
    if not path.exists():
        return ""
    try:
        return SecretRef("file", str(path)).read()
    except ConfigError as problem:
        raise Refused(str(problem)) from None


def unfinished(contexts: Sequence[Context]) -> Mapping[str, tuple[bool, bool]]:
    """Of configured instances whether the first backup is missing, and a drill that passed. Complete
    ones are left out.

    What cannot be looked at is left to `zbackup check`.
    """
    found = {}
    for ctx in contexts:
        try:
            backups = [b for b in ctx.catalog().backups if b.complete and b.finished]
            tried = any(each.passed for each in drilled(ctx, ()) if not each.destination)
        except ZbackupError:
            continue
        if not (backups and tried):
            found[ctx.instance] = (not backups, not tried)
    return found
