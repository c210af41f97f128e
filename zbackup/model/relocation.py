"""Find where files are now that were somewhere else when a backup was taken."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from zbackup.model.errors import Refused


@dataclass(frozen=True, slots=True)
class Relocation:
    """Pairs of an old mountpoint and the directory that holds the same files now."""

    moves: tuple[tuple[str, str], ...]

    def path(self, original: str) -> Path:
        """Where `original` is now. Raise Refused if it was on none of the mountpoints."""
        inside = [(old, new) for old, new in self.moves if PurePosixPath(original).is_relative_to(old)]
        if not inside:
            known = ", ".join(old for old, _ in self.moves)
            raise Refused(f"{original} is not part of this backup (it holds {known})")
        old, new = max(inside, key=lambda move: len(move[0]))
        return Path(new) / PurePosixPath(original).relative_to(old)


def owner_of(path: str, mountpoints: Sequence[str]) -> str | None:
    """The innermost of `mountpoints` that `path` lies on, or None."""
    inside = [m for m in mountpoints if PurePosixPath(path).is_relative_to(m)]
    return max(inside, key=len, default=None)
