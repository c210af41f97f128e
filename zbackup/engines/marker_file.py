"""A note on disk that a server may stand still because of us, for the run after one that died together with
its watchdog."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from zbackup.model.errors import DatabaseError
from zbackup.proc import secure_files
from zbackup.proc.run_directory import prepare

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MarkerFile(Generic[T]):
    """The file that is there while the server may stand still.

    It holds one value under `key`, which `parse` reads. `hint` says when one that cannot be read may go.
    """

    path: Path
    key: str
    parse: Callable[[Any], T]
    hint: str

    def write(self, value: T) -> None:
        """Write the file, in place of the one that is there."""
        prepare(self.path.parent)
        secure_files.replace(self.path, json.dumps({self.key: value}))

    def read(self) -> T | None:
        """Return the value, None if there is no file. Raise DatabaseError when it cannot be read."""
        try:
            return self.parse(json.loads(secure_files.read_text(self.path))[self.key])
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError, KeyError, TypeError) as damaged:
            raise DatabaseError(f"{self.path} cannot be read ({damaged}): {self.hint}") from damaged

    def remove(self) -> None:
        """Remove the file, if it is there."""
        secure_files.unlink(self.path)
