"""A recovered MySQL's own copy of the original's keys.

MySQL's keyring components keep their keys in one file, of which each server has a copy in memory and which it
writes whole when it makes a key (MySQL reference manual, "Using the component_keyring_file File-Based Keyring
Component"). Two servers on one file would drop each other's newest keys, and with them production's tables.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from zbackup.model.errors import Refused
from zbackup.model.relocation import owner_of

# Directories such as /etc hold what the server itself needs.
SHALLOWEST = 3


def own_copy(
    server: Mapping[str, str], members: Sequence[str], directory: Path, owner: tuple[int, int]
) -> tuple[tuple[str, str], ...]:
    """Pairs for Confinement.bind: `directory`, which gets a copy of the keys once, for the original's.

    Nothing when there is no such file, or it lies on the backup's own datasets (`members`: where they were
    mounted) and so is a clone already. Raise Refused when its directory cannot be replaced, or it is gone.
    """
    original = server.get("keyring_file", "")
    if not original or owner_of(original, members):
        return ()
    place = PurePosixPath(original).parent
    if len(place.parts) < SHALLOWEST:
        raise Refused(
            f"the keyring {original} must be in a directory of its own: a recovered server gets a copy"
        )
    copy = directory / PurePosixPath(original).name
    if not copy.exists():
        _copy(Path(original), copy, owner)
    return ((str(directory), str(place)),)


def _copy(original: Path, copy: Path, owner: tuple[int, int]) -> None:
    """In one step, so that a copy cut short is never taken for one. The directory is the clone's own."""
    copy.parent.mkdir(mode=0o700, exist_ok=True)
    begun = copy.with_name(f"{copy.name}.begun")
    try:
        shutil.copyfile(original, begun)
    except FileNotFoundError:
        raise Refused(f"the keyring {original} is gone: without its keys the tables cannot be read") from None
    begun.chmod(0o600)
    for path in (copy.parent, begun):
        shutil.chown(path, *owner)
    begun.rename(copy)
