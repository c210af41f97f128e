"""The log archive in a directory: what was acknowledged stays, whatever is cut short or put there."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.model.test_archive import NOW, file
from zbackup.model.archive import ArchiveInventory, Chunk, LogFileId, tail_hash
from zbackup.model.errors import Refused, Taken, VerificationFailed
from zbackup.proc import log_store, secure_files
from zbackup.proc.log_store import LogStore

DATA = bytes(range(256)) * 40


def chunk(begin: int, end: int, *, closed: bool = False) -> Chunk:
    data = DATA[begin:end]
    return Chunk(
        begin=begin,
        end=end,
        sha256=hashlib.sha256(data).hexdigest(),
        tail=tail_hash(DATA[:end]),
        read=NOW,
        closed=closed,
    )


def append(store: LogStore, begin: int, end: int, *, closed: bool = False) -> None:
    store.append(file(), chunk(begin, end, closed=closed), DATA[begin:end])


def content(store: LogStore) -> bytes:
    found = store.archived()
    (known,) = found.files
    assert found.problems == () and found.leftovers == ()
    return b"".join(data for _, data in store.read(known.file, 0, known.size))


@pytest.fixture
def store(tmp_path: Path) -> LogStore:
    return LogStore(tmp_path)


def test_what_was_appended_is_read_back(store: LogStore) -> None:
    assert store.archived() == ArchiveInventory(address="")
    for begin, end in ((0, 100), (100, 101), (101, 101), (101, 5000)):
        append(store, begin, end)
    assert content(store) == DATA[:5000]
    assert [c.begin for c, _ in store.read(file(), 100, 102)] == [100, 101]
    append(store, 5000, 5000, closed=True)
    (known,) = store.archived().files
    assert (known.file, known.size, known.closed) == (file(), 5000, True)


@pytest.mark.parametrize(("begin", "end"), [(0, 50), (0, 200), (50, 150), (101, 200), (99, 100)])
def test_nothing_is_written_over_and_no_hole_is_left(store: LogStore, begin: int, end: int) -> None:
    append(store, 0, 100)
    with pytest.raises(Taken, match="has 100 bytes"):
        append(store, begin, end)
    assert content(store) == DATA[:100]


def test_the_same_append_again_is_success_and_changes_nothing(store: LogStore, tmp_path: Path) -> None:
    append(store, 0, 100)
    append(store, 0, 100)
    append(store, 100, 200, closed=True)
    append(store, 100, 200, closed=True)
    assert content(store) == DATA[:200]
    assert len(next(tmp_path.rglob("*.chunks")).read_text().splitlines()) == 2
    with pytest.raises(Taken, match="closed"):
        append(store, 200, 300)


def test_what_is_not_what_was_announced_is_not_taken(store: LogStore) -> None:
    with pytest.raises(ValueError):
        store.append(file(), chunk(0, 100), DATA[1:101])
    with pytest.raises(ValueError):
        store.append(file(), chunk(0, 100), DATA[:99])
    assert store.archived() == ArchiveInventory(address="")


class Cut(Exception):
    """The process ends here."""


@pytest.mark.parametrize("effect", [False, True], ids=["before it", "halfway"])
@pytest.mark.parametrize("number", range(12))
def test_cut_anywhere_the_next_append_goes_on(
    store: LogStore, monkeypatch: pytest.MonkeyPatch, number: int, effect: bool
) -> None:
    append(store, 0, 100)
    calls = 0

    def breaking(real: Callable[..., int]) -> Callable[..., int]:
        def call(*arguments: object) -> int:
            nonlocal calls
            calls += 1
            if calls - 1 == number:
                if effect and len(arguments) == 2 and isinstance(arguments[1], memoryview):
                    real(arguments[0], arguments[1][: len(arguments[1]) // 2])
                raise Cut
            return real(*arguments)

        return call

    with monkeypatch.context() as patched:
        for name in ("write", "fdatasync", "ftruncate", "lseek", "pread"):
            patched.setattr(log_store.os, name, breaking(getattr(os, name)))
        done = False
        try:
            append(store, 100, 300)
            append(store, 300, 400, closed=True)
            done = True
        except Cut:
            pass
    (known,) = store.archived().files
    assert content(store) == DATA[: known.size]
    assert known.size in ((400,) if done else (100, 300, 400))
    for begin, end in ((100, 300), (300, 400)):
        if known.size < end or known.last.end == end:
            append(store, begin, end, closed=end == 400)
    assert content(store) == DATA[:400]


def test_bytes_that_no_line_tells_of_do_not_count(store: LogStore, tmp_path: Path) -> None:
    append(store, 0, 100)
    with next(tmp_path.rglob("*.log")).open("ab") as log:
        log.write(b"x" * 500)
    with next(tmp_path.rglob("*.chunks")).open("ab") as lines:
        lines.write(str(chunk(100, 200)).encode()[:60])
    assert content(store) == DATA[:100]
    append(store, 100, 130)
    assert content(store) == DATA[:130]
    assert next(tmp_path.rglob("*.log")).stat().st_size == 130


def test_what_has_changed_on_disk_is_found(store: LogStore, tmp_path: Path) -> None:
    append(store, 0, 100)
    append(store, 100, 200)
    log = next(tmp_path.rglob("*.log"))
    log.write_bytes(DATA[:150] + b"?" + DATA[151:200])
    assert [data for _, data in store.read(file(), 0, 100)] == [DATA[:100]]
    with pytest.raises(VerificationFailed, match="from 100 to 200"):
        list(store.read(file(), 100, 200))
    log.write_bytes(DATA[:90])
    with pytest.raises(VerificationFailed):
        append(store, 200, 300)
    with pytest.raises(VerificationFailed):
        list(store.read(file(), 0, 200))
    log.write_bytes(DATA[:200])
    with pytest.raises(VerificationFailed, match="before 250"):
        list(store.read(file(), 0, 250))


def test_lines_that_cannot_be_understood_are_told_and_nothing_is_added(
    store: LogStore, tmp_path: Path
) -> None:
    append(store, 0, 100)
    next(tmp_path.rglob("*.chunks")).write_bytes(b"no chunk\n")
    found = store.archived()
    files, problems = found.files, found.problems
    assert files == () and len(problems) == 1
    with pytest.raises(VerificationFailed):
        append(store, 100, 200)
    with pytest.raises(VerificationFailed):
        list(store.read(file(), 0, 100))


@pytest.mark.parametrize("ending", [".log", ".chunks"])
@pytest.mark.parametrize("kind", ["link", "dangling", "hard link", "fifo", "directory"])
def test_nothing_that_lies_in_the_way_is_followed(
    store: LogStore, tmp_path: Path, ending: str, kind: str
) -> None:
    home = tmp_path / file().server
    home.mkdir()
    victim, way = tmp_path / "victim", home / f"{file().key}{ending}"
    victim.write_bytes(b"precious")
    match kind:
        case "link":
            way.symlink_to(victim)
        case "dangling":
            way.symlink_to(tmp_path / "new")
        case "hard link":
            way.hardlink_to(victim)
        case "fifo":
            os.mkfifo(way)
        case _:
            way.mkdir()
    with pytest.raises((Refused, OSError)):
        append(store, 0, 100)
    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / "new").exists()


def test_the_directory_of_a_server_is_no_link(store: LogStore, tmp_path: Path) -> None:
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    elsewhere.mkdir()
    (tmp_path / file().server).symlink_to(elsewhere)
    tmp_path.chmod(0o777)  # as if others could have put it there
    with pytest.raises((Refused, OSError)):
        append(store, 0, 100)
    assert list(elsewhere.iterdir()) == []


def test_what_is_taken_away_is_gone_and_can_be_begun_again(store: LogStore, tmp_path: Path) -> None:
    append(store, 0, 100)
    other = LogFileId(server=file().server, epoch=1, number=7, follows=0, head="0" * 32, name="binlog.000007")
    store.append(other, chunk(0, 50), DATA[:50])
    store.remove(file())
    store.remove(file())
    (left,) = store.archived().files
    assert left.file == other
    append(store, 0, 40)
    store.remove(other)
    assert content(store) == DATA[:40]
    store.remove(file())
    assert store.archived() == ArchiveInventory(address="")
    assert list(tmp_path.iterdir()) == []


def test_what_is_half_taken_away_does_not_count(store: LogStore, tmp_path: Path) -> None:
    append(store, 0, 100)
    next(tmp_path.rglob("*.chunks")).unlink()
    found = store.archived()
    assert found.files == () and found.problems == (f"{file()}: its beginning is missing",)
    append(store, 0, 30)
    assert content(store) == DATA[:30]


def test_what_a_removal_has_left_is_listed_and_taken_away(
    store: LogStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of its steps it was cut short at; what is newer than all that is there, nobody takes away."""
    append(store, 0, 100)
    newer = LogFileId(server=file().server, epoch=1, number=7, follows=0, head="0" * 32, name="binlog.000007")
    store.append(newer, chunk(0, 50), DATA[:50])

    def cut(path: Path) -> None:
        really(path)
        raise KeyboardInterrupt

    really = secure_files.unlink
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(secure_files, "unlink", cut)
        store.remove(file())
    found = store.archived()
    assert [f.file for f in found.files] == [newer]
    assert (found.leftovers, found.problems) == ((file(),), ())
    for each in found.leftovers:
        store.remove(each)
    assert store.archived().leftovers == () and len(list(tmp_path.rglob("*.log"))) == 1


def test_bytes_that_were_taken_away_are_missed(store: LogStore, tmp_path: Path) -> None:
    append(store, 0, 100)
    append(store, 100, 200)
    log = next(tmp_path.rglob("*.log"))
    for size in (150, 0):
        os.truncate(log, size)
        found = store.archived()
        assert [f.size for f in found.files] == [200]
        assert found.problems == (
            f"{file()} has {size} bytes and should have 200: what is missing was taken away",
        )
    log.unlink()
    assert "has 0 bytes" in store.archived().problems[0]
