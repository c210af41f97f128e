"""Make a host that receives: a user, a dataset of its own for each sender, an append-only key. Pure."""

import re
from collections.abc import Collection

from zbackup.features.init.setup import SetupStep
from zbackup.model.errors import Refused, UsageError

ALLOWED = "receive,create,mount,userprop,readonly,canmount,mountpoint,setuid,exec,devices"
"""Permissions that a receiving user needs (docs/how-to/append-only-backup-host.md)."""

_KEY = re.compile(
    r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-\S+|sk-\S+) ([A-Za-z0-9+/]{40,}={0,3})(?: ([^\x00-\x1f\x7f]*))?"
)
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_PLAIN = re.compile(r"[A-Za-z0-9/_.:-]+")


def public_key(text: str) -> str:
    """The key alone, without options before it. Raise UsageError for anything else."""
    found = _KEY.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            'that is no public key: give the one line of the .pub file, "ssh-ed25519 AAAA... comment"'
        )
    comment = re.sub(r"[^A-Za-z0-9_.@-]+", "-", found[3] or "").strip("-")
    return " ".join(filter(None, (found[1], found[2], comment)))


def require_names(dataset: str, user: str) -> None:
    """Raise UsageError for names that do not suit the line of a forced command."""
    if "/" not in dataset or not _PLAIN.fullmatch(dataset):
        raise UsageError(
            f'"{dataset}" is no dataset for copies: name one below a pool without spaces, such as '
            "tank/backups/db1"
        )
    if not _USER.fullmatch(user):
        raise UsageError(f'"{user}" is no name for a user: up to 32 of a-z, 0-9, - and _')
    if user in ("root", "zbackup"):
        raise UsageError(f"--user {user}: who receives has no other rights here: name a user of its own")


def line(program: str, dataset: str, key: str) -> str:
    """The line of authorized_keys: with this key backups are added, and nothing is read, changed or
    deleted."""
    return f'restrict,command="{program} gate --root {dataset} --append-only" {key}'


def steps(
    dataset: str, user: str, quota: int, *, there: Collection[str], known: bool, limit: int = 0
) -> tuple[SetupStep, ...]:
    """Dataset, user and rights; `there` are the datasets that exist, `known` says that the user does, `limit`
    is the quota that the dataset has and `quota` the one it gets, in bytes (0: none)."""
    argv: tuple[str, ...]
    found = []
    if not known:
        # "*": no password fits, yet the account is not locked: sshd would take no key for one that is.
        argv = ("useradd", "--system", "--create-home", "--shell", "/bin/sh", "--password", "*", user)
        found.append(SetupStep(kind="run", text=f"make the user {user}", argv=argv))
    parts = dataset.split("/")
    for depth in range(2, len(parts) + 1):
        name = "/".join(parts[:depth])
        if name in there:
            continue
        most = ("-o", f"quota={quota}") if quota and name == dataset else ()
        argv = ("zfs", "create", "-o", "canmount=off", "-o", "mountpoint=none", *most, name)
        found.append(
            SetupStep(kind="run", text=f"make the dataset {name}, which is never mounted", argv=argv)
        )
    if quota and dataset in there and quota != limit:
        argv = ("zfs", "set", f"quota={quota}", dataset)
        found.append(SetupStep(kind="run", text=f"let {dataset} hold {quota} bytes at most", argv=argv))
    argv = ("zfs", "allow", "-u", user, ALLOWED, dataset)
    found.append(SetupStep(kind="run", text=f"let {user} add to {dataset}, and delete nothing", argv=argv))
    return tuple(found)


def with_line(existing: str, wanted: str) -> str:
    """The text of authorized_keys with the line, once; what is there stays as it is.

    Raise Refused when the key is there with other options, or without: sshd may take that line.
    """
    key = _KEY.search(wanted)
    blob = key[2] if key else wanted
    same = wanted[: key.end(2)] if key else wanted
    known = False
    for there in map(str.strip, existing.split("\n")):
        if there.startswith("#") or blob not in there.split():
            continue
        if there != same and not there.startswith(f"{same} "):
            raise Refused(
                "this key is in authorized_keys already, and may do other things there: remove that line, or "
                f"let the sender make another key: {_shown(there)}"
            )
        known = True
    if known or wanted in existing.split("\n"):
        return existing
    gap = "" if not existing or existing.endswith("\n") else "\n"
    return f"{existing}{gap}{wanted}\n"


def _shown(there: str) -> str:
    """A line that somebody else may have written, harmless at a terminal."""
    return "".join(c if c.isprintable() else "?" for c in there)[:1000]
