"""Links and mount points in a data directory: what they lead to may be on no dataset of the instance's."""

import os
from collections.abc import Iterator
from pathlib import Path


def links_and_mounts(top: Path, depth: int) -> Iterator[tuple[str, Path]]:
    """What is there and where, such as ("link shop/index", /data/shop/index); `depth` 1 is `top` alone.

    What this account may not read is not looked into.
    """
    yield from _below(top, top, depth)


def _below(top: Path, directory: Path, depth: int) -> Iterator[tuple[str, Path]]:
    device = _device(directory)
    for entry in _entries(directory):
        path = Path(entry.path)
        if entry.is_symlink():
            yield f"link {path.relative_to(top)}", path
        elif entry.is_dir(follow_symlinks=False) and _device(path) != device:
            yield f"mount {path.relative_to(top)}", path
        if depth > 1 and entry.is_dir():
            yield from _below(top, path, depth - 1)


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []


def _device(path: Path) -> int | None:
    try:
        return path.stat().st_dev
    except OSError:
        return None
