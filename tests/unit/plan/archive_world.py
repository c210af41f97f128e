"""A server whose log is archived while all sorts of things happen to it, and what was true of it at any time.

Transactions are numbers that are never used twice; ten bytes each, behind a head of a hundred.
"""

from dataclasses import dataclass, field, replace

from tests.unit.samples import PLAIN, at, backup
from zbackup.model.archive import ArchivedFile, ArchiveInventory, Chunk, LogFileId, head_hash, server_key
from zbackup.model.backup import Backup

HEAD, EACH = 100, 10
UUID = PLAIN.server_uuid
SERVER = server_key(UUID)


@dataclass
class File:
    """One file of the server's log: who it is, and the transactions in it."""

    born: int
    held: list[int] = field(default_factory=list)

    @property
    def size(self) -> int:
        return HEAD + EACH * len(self.held)


@dataclass(frozen=True)
class Stored:
    """What is in an archived file."""

    born: int
    held: tuple[int, ...]
    seen: ArchivedFile


State = dict[int, tuple[int, tuple[int, ...]]]


class World:
    """`states` are all that the log has ever been, by the number of a file."""

    def __init__(self) -> None:
        self.time = self.made = self.epoch = 0
        self.files = {1: File(0)}
        self.log = 1
        self.stored: dict[str, Stored] = {}
        self.latest: dict[int, str] = {}
        self.states: list[State] = []
        self.backups: list[Backup] = []
        self.inside: dict[str, State] = {}
        self.passed()

    def passed(self) -> None:
        self.time += 10
        self.states.append(self.state())

    def state(self) -> State:
        return {number: (file.born, tuple(file.held)) for number, file in self.files.items()}

    @property
    def number(self) -> int:
        return max(self.files)

    def new(self) -> int:
        self.made += 1
        return self.made

    # what happens to the server

    def write(self, count: int) -> None:
        self.files[self.number].held += [self.new() for _ in range(count)]
        self.passed()

    def rotate(self) -> None:
        self.files[self.number + 1] = File(self.new())
        self.passed()

    def crash(self, lost: int) -> None:
        """Its end is cut off, and it goes on in a new file."""
        held = self.files[self.number].held
        del held[max(0, len(held) - lost) :]
        self.log += 1
        self.rotate()

    def reset(self) -> None:
        self.files = {1: File(self.new())}
        self.log += 1
        self.passed()

    def purge(self, kept: int) -> None:
        for number in sorted(self.files)[:-kept]:
            del self.files[number]
        self.passed()

    # what is made of it

    def archive(self) -> None:
        """As the archiver does it: appends, and a new epoch from the first file on that differs."""
        if any(number > self.number for number in self.latest):  # numbered anew
            self.epoch += 1
            self.latest = {}
        for number in sorted(self.files):
            file, known = self.files[number], self.stored.get(self.latest.get(number, ""))
            if known and (known.born, known.held) != (file.born, tuple(file.held[: len(known.held)])):
                self.epoch += 1
                self.latest = {n: key for n, key in self.latest.items() if n < number}
                known = None
            self._append(number, file, known)
        self.passed()

    def _append(self, number: int, file: File, known: Stored | None) -> None:
        closed = number < self.number
        if known and known.seen.closed:
            return
        before = self.stored.get(self.latest.get(number - 1, ""))
        there = self.files.get(number - 1)
        follows = None
        if (
            before
            and there
            and before.seen.closed
            and (before.born, list(before.held))
            == (
                there.born,
                there.held,
            )
        ):
            follows = before.seen.file.epoch
        identity = (
            known.seen.file
            if known
            else LogFileId(
                server=SERVER,
                epoch=self.epoch,
                number=number,
                follows=follows,
                head=head_hash(UUID, str(file.born).encode()),
                name=f"binlog.{number:06}",
            )
        )
        chunk = Chunk(
            begin=known.seen.size if known else 0,
            end=file.size,
            sha256="0" * 64,
            tail="0" * 32,
            read=at(self.time),
            complete_to=at(self.time),
            closed=closed,
        )
        seen = ArchivedFile(file=identity, last=chunk, complete_to=at(self.time))
        self.stored[identity.key] = Stored(file.born, tuple(file.held), seen)
        self.latest[number] = identity.key

    def take(self) -> Backup:
        newest, number = self.files[self.number], self.number
        made = backup(
            self.time,
            self.time,
            self.time,
            log_id=f"log-{self.log}",
            log_from=f"binlog.{min(self.files):06}:4",
            log_to=f"binlog.{number:06}:{newest.size}",
        )
        made = Backup(record=replace(made.record, taken=at(self.time)), snapshots=made.snapshots)
        self.backups.append(made)
        self.inside[made.record.backup] = self.state()
        self.passed()
        return made

    # what is there

    @property
    def inventory(self) -> ArchiveInventory:
        files = tuple(sorted((s.seen for s in self.stored.values()), key=lambda f: f.file))
        return ArchiveInventory(address="there", files=files)
