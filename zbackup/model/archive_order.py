"""The orders that one host gives another for a log archive there, as the words of a command over ssh.

zbackup-log list HOME
zbackup-log append HOME SERVER KEY CHUNK           with the chunk's bytes as its input
zbackup-log claim HOME SERVER EPOCH WRITER
zbackup-log read HOME SERVER KEY BEGIN END
zbackup-log remove HOME SERVER KEY

HOME is the dataset of the instance's copies there; the archive is in LOG below it. `list` answers a line for
each file (line_of), one with LEFTOVER for each whose removal was cut short, `claim` who archives the epoch,
`append` how many bytes it took, `read` the chunks, each as its line and its bytes.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from zbackup.model import bounds
from zbackup.model.archive import ArchivedFile, Chunk, LogFileId, require_server, require_writer

LOG_COMMAND: Final = "zbackup-log"
LOG: Final = "log"
"""The name of the archive's dataset. No target dataset has it: ZFS lets no pool have this name."""

LEFTOVER: Final = "-"
"""In front of the server and the key of a leftover, in the answer to `list`."""

Verb = Literal["list", "claim", "append", "read", "remove"]
_EPOCH = re.compile(r"[0-9]{8}")
_OFFSET = re.compile(r"[0-9]{1,16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOrder:
    """`file` is None for "list" and "claim", `chunk` for all but "append"; `begin` and `end` are of "read",
    and `claim` (server, epoch, writer) is of "claim"."""

    verb: Verb
    home: str
    file: LogFileId | None = None
    chunk: Chunk | None = None
    begin: int = 0
    end: int = 0
    claim: tuple[str, int, str] | None = None

    @property
    def changes(self) -> bool:
        return self.verb in ("claim", "append", "remove")

    @property
    def dataset(self) -> str:
        """Return the dataset that the archive is in."""
        return f"{self.home}/{LOG}"

    def words(self) -> tuple[str, ...]:
        """The command."""
        named = (self.file.server, self.file.key) if self.file else ()
        what = (str(self.chunk),) if self.chunk else ()
        claim = (self.claim[0], f"{self.claim[1]:08}", self.claim[2]) if self.claim else ()
        bytes_of = (str(self.begin), str(self.end)) if self.verb == "read" else ()
        return (LOG_COMMAND, self.verb, self.home, *claim, *named, *what, *bytes_of)


def parse_log_order(words: Sequence[str]) -> LogOrder:
    """Read what words() gave, behind LOG_COMMAND. Raise ValueError for anything else.

    `home` can be anything: who asks has to look at it.
    """
    match list(words):
        case ["list", home]:
            return LogOrder(verb="list", home=home)
        case ["claim", home, server, epoch, writer] if _EPOCH.fullmatch(epoch):
            claim = require_server(server), int(epoch), require_writer(writer)
            return LogOrder(verb="claim", home=home, claim=claim)
        case ["append", home, server, key, chunk]:
            file = LogFileId.parse(server, key)
            return LogOrder(verb="append", home=home, file=file, chunk=Chunk.parse(chunk))
        case ["read", home, server, key, begin, end]:
            file = LogFileId.parse(server, key)
            return LogOrder(verb="read", home=home, file=file, begin=_offset(begin), end=_offset(end))
        case ["remove", home, server, key]:
            return LogOrder(verb="remove", home=home, file=LogFileId.parse(server, key))
        case _:
            raise ValueError("none of list, claim, append, read and remove with the words that belong to it")


def line_of(file: ArchivedFile) -> str:
    """One archived file, as `list` answers it."""
    complete = file.complete_to.isoformat() if file.complete_to else "none"
    return f"{file.file.server} {file.file.key} {file.stored} {complete} {file.last}"


def parse_line(text: str) -> ArchivedFile:
    """Read back what line_of() wrote. Raise ValueError for anything else."""
    server, key, stored, complete, chunk, *more = [*text.split(" "), "", "", "", ""][:6]
    if more != [""]:
        raise ValueError(f"{bounds.shown(text)} is no line about an archived file")
    return ArchivedFile(
        file=LogFileId.parse(server, key),
        last=Chunk.parse(chunk),
        complete_to=None if complete == "none" else bounds.moment(complete),
        stored=bounds.count(stored),
    )


def leftover_line(file: LogFileId) -> str:
    """One leftover, as `list` answers it."""
    return f"{LEFTOVER} {file.server} {file.key}"


def parse_leftover(text: str) -> LogFileId:
    """Read back what leftover_line() wrote. Raise ValueError for anything else."""
    _, server, key, *_ = [*text.split(" "), "", ""]
    return LogFileId.parse(server, key)


def _offset(text: str) -> int:
    if not _OFFSET.fullmatch(text):
        raise ValueError(f"{bounds.shown(text)} is no offset in a file")
    return int(text)
