"""A recovered MySQL's own copy of the original's keys.

MySQL's keyring components keep their keys in one file, of which each server has a copy in memory and which it
writes whole when it makes a key (MySQL reference manual, "Using the component_keyring_file File-Based Keyring
Component"). Two servers on one file would drop each other's newest keys, and with them production's tables.
"""

import os
import pwd
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from zbackup.model.errors import Refused
from zbackup.model.relocation import owner_of
from zbackup.proc import secure_files
from zbackup.proc.mount_namespace import KERNEL, SYSTEM
from zbackup.proc.mounts import is_below

# Directories such as /etc hold what the server itself needs.
SHALLOWEST = 3
PROGRAMS = (*(each for each in (*SYSTEM, *KERNEL) if each != "/etc"), sys.prefix, sys.base_prefix)
"""Directories of what root itself runs on the way to the server, Python and its libraries among it."""


def own_copy(
    server: Mapping[str, str], members: Sequence[str], directory: Path, owner: tuple[int, int]
) -> tuple[tuple[str, str], ...]:
    """Pairs for Confinement.bind: `directory`, which gets a copy of the keys once, for the original's.

    Nothing when there is no such file, or it lies on the backup's own datasets (`members`: where they were
    mounted) and so is a clone already. Raise Refused when its directory cannot be replaced, it is gone, or
    the server's user (`owner`: uid, gid) may not read it.
    """
    original = PurePosixPath(server.get("keyring_file", ""))
    if not original.name or owner_of(str(original), members):
        return ()
    if len(original.parent.parts) < SHALLOWEST or not original.is_absolute() or ".." in original.parts:
        raise Refused(
            f"the keyring {original} must be in a directory of its own: a recovered server gets a copy"
        )
    if _contains_programs(original.parent, owner[0]):
        raise Refused(
            f"the keyring {original} is recorded where programs are, in a directory that is not the server's "
            f"user's: a recovered server would see a copy in its place"
        )
    copy = directory / original.name
    if not secure_files.exists(copy):
        _copy(Path(original), copy, owner)
    return ((str(directory), str(original.parent)),)


def _contains_programs(directory: PurePosixPath, uid: int) -> bool:
    path = str(directory)
    if not any(is_below(path, each) or is_below(each, path) for each in PROGRAMS):
        return False
    try:
        return secure_files.stat(Path(directory)).st_uid != uid
    except (OSError, Refused):
        return True


def _copy(original: Path, copy: Path, owner: tuple[int, int]) -> None:
    """Copy it in one step, so that a copy cut short is never taken for one. The directory is the clone's own.

    The path comes from a record, which somebody else may have written: only the server's own user reads it,
    who could do so anyway.
    """
    uid = owner[0]
    try:
        keys = secure_files.read_as(owner, _groups(owner), original)
    except FileNotFoundError:
        raise Refused(f"the keyring {original} is gone: without its keys the tables cannot be read") from None
    except OSError as failure:
        raise Refused(
            f"the server's user (user id {uid}) cannot read the keyring {original}: {failure.strerror}; "
            f"make it readable for that user, as it has to be for production"
        ) from None
    secure_files.make_directory(copy.parent, mode=0o700, owner=owner)
    secure_files.replace(copy, keys, mode=0o600, owner=owner)


def _groups(owner: tuple[int, int]) -> list[int]:
    """The groups that production's server has: those of its user, where this host knows him."""
    uid, gid = owner
    try:
        return os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
    except KeyError:
        return [gid]
