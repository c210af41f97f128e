"""Make this host one that receives: what features.init.plan.receive decides is done here."""

import pwd
from collections.abc import Sequence
from pathlib import Path

from zbackup.features.init.plan import receive
from zbackup.features.init.setup import SetupStep
from zbackup.model.errors import DatasetNotFound, NotFound, Refused
from zbackup.proc import secure_files
from zbackup.proc.run import Runner, run
from zbackup.zfs.datasets import Zfs

HOST_KEY = Path("/etc/ssh/ssh_host_ed25519_key.pub")
LONGEST = 1 << 20


def inspect(zfs: Zfs, dataset: str, user: str) -> tuple[set[str], bool, int]:
    """Find which datasets on the way to this one there are, whether the user is, and the dataset's quota in
    bytes (0: none). Raise NotFound without the pool, Refused for a user who may do anything."""
    if (found := _user(user)) and found.pw_uid == 0:
        raise Refused(f"{user} is root (user id 0): whoever sends would be root here; name a user of its own")
    pool = dataset.partition("/")[0]
    try:
        known = {d.name for d in zfs.filesystems(pool)}
    except DatasetNotFound:
        raise NotFound(f"there is no pool {pool} on this host; see zpool list") from None
    quota = int(zfs.values(dataset, "quota")[0]) if dataset in known else 0
    return known, found is not None, quota


def act(steps: Sequence[SetupStep], runner: Runner = run) -> None:
    """Do them in their order; each may be repeated."""
    for step in steps:
        runner(step.argv)


def authorize(user: str, line: str) -> Path:
    """Add the line to the user's authorized_keys, once. Return the file. Raise Refused as with_line()."""
    found = pwd.getpwnam(user)
    directory = Path(found.pw_dir) / ".ssh"
    owner = (found.pw_uid, found.pw_gid)
    secure_files.make_directory(directory, mode=0o700, owner=owner)
    file = directory / "authorized_keys"
    before = _text(file)
    after = receive.with_line(before, line)
    if after != before:
        secure_files.replace(file, after, mode=0o600, owner=owner)
    return file


def require_addable(user: str, line: str) -> None:
    """Raise Refused where the user's authorized_keys has this key with other options."""
    if found := _user(user):
        receive.with_line(_text(Path(found.pw_dir) / ".ssh" / "authorized_keys"), line)


def _text(file: Path) -> str:
    return secure_files.read_text(file, LONGEST) if secure_files.exists(file) else ""


def host_key() -> str:
    """This host's public key, for the sender's known hosts; "" where sshd has none of that kind."""
    try:
        words = secure_files.read_linked(HOST_KEY, LONGEST).split()
    except OSError:
        return ""
    return " ".join(words[:2])


def _user(user: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(user)
    except KeyError:
        return None
