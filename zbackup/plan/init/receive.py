"""Make a host that receives: a user, a dataset of its own for each sender, an append-only key. Pure."""

import re
from collections.abc import Collection

from zbackup.model.errors import UsageError
from zbackup.model.setup import Step

ALLOWED = "receive,create,mount,userprop,readonly,canmount,mountpoint,setuid,exec,devices"
"""What a receiving user needs (docs/how-to/append-only-backup-host.md)."""

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


def line(program: str, dataset: str, key: str) -> str:
    """The line of authorized_keys: with this key backups are added, and nothing is read, changed or
    deleted."""
    return f'restrict,command="{program} gate --root {dataset} --append-only" {key}'


def steps(dataset: str, user: str, quota: str, *, there: Collection[str], known: bool) -> tuple[Step, ...]:
    """Dataset, user and rights; `there` are the datasets that exist, `known` says that the user does."""
    argv: tuple[str, ...]
    found = []
    if not known:
        # "*": no password fits, yet the account is not locked: sshd would take no key for one that is.
        argv = ("useradd", "--system", "--create-home", "--shell", "/bin/sh", "--password", "*", user)
        found.append(Step(kind="run", text=f"make the user {user}", argv=argv))
    parts = dataset.split("/")
    for depth in range(2, len(parts) + 1):
        name = "/".join(parts[:depth])
        if name in there:
            continue
        limit = ("-o", f"quota={quota}") if quota and name == dataset else ()
        argv = ("zfs", "create", "-o", "canmount=off", "-o", "mountpoint=none", *limit, name)
        found.append(Step(kind="run", text=f"make the dataset {name}, which is never mounted", argv=argv))
    argv = ("zfs", "allow", "-u", user, ALLOWED, dataset)
    found.append(Step(kind="run", text=f"let {user} add to {dataset}, and delete nothing", argv=argv))
    return tuple(found)


def with_line(existing: str, wanted: str) -> str:
    """The text of authorized_keys with the line, once; what is there stays as it is."""
    if wanted in existing.splitlines():
        return existing
    gap = "" if not existing or existing.endswith("\n") else "\n"
    return f"{existing}{gap}{wanted}\n"
