"""Ask ZFS for the facts by which the gate decides whether a command passes."""

from collections.abc import Sequence

from zbackup.model.errors import CommandFailed
from zbackup.proc.run import Runner, run
from zbackup.zfs import parse
from zbackup.zfs.errors import translate


def own_properties(names: Sequence[str], runner: Runner = run) -> dict[str, dict[str, str]]:
    """The user properties set on each of these snapshots itself. Raise DatasetNotFound without one."""
    columns = ("-s", "local,received", "-o", "name,property,value")
    return parse.user_properties(_zfs(runner, "get", "-Hp", *columns, "all", "--", *names))


def described(token: str, runner: Runner = run) -> str:
    """What ZFS says it would send for a resume token. Raise CommandFailed when it would send nothing."""
    return _zfs(runner, "send", "-nvP", "-t", token)


def _zfs(runner: Runner, *argv: str) -> str:
    try:
        return runner(("zfs", *argv), mutates=False)
    except CommandFailed as failure:
        raise translate(failure) from failure
