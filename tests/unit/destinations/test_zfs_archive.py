"""A log archive behind another host's gate: what its answers are taken for, from a program that says them."""

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.destinations.archives import chunk_of, named
from zbackup.destinations import zfs_archive
from zbackup.destinations.zfs_archive import LocalLogs, RemoteLogs
from zbackup.model.archive import ArchivedFile
from zbackup.model.archive_order import leftover_line, line_of
from zbackup.model.errors import (
    CommandFailed,
    ConnectionFailed,
    NoArchive,
    Refused,
    Taken,
    VerificationFailed,
    ZbackupError,
)
from zbackup.proc.pipeline import Command
from zbackup.zfs.log_dataset import LogDataset

DATA = b"0123456789" * 20
CHUNK = chunk_of(DATA, 0, 200)


def logs(script: str, failure: Callable[[int, str], CommandFailed] | None = None) -> RemoteLogs:
    """Whatever it is asked, it runs this; $* is what it is asked."""

    def command(argv: tuple[str, ...]) -> Command:
        return Command(
            argv=("sh", "-c", script, *argv),
            failure=failure or (lambda status, said: CommandFailed(argv, status, said, "vault")),
        )

    return RemoteLogs(home="tank/b/shop", address="the gate", command=command)


def says(*lines: str) -> RemoteLogs:
    return logs("printf '%s\\n' " + " ".join(map(shlex.quote, lines)))


def archived(number: int) -> ArchivedFile:
    return ArchivedFile(file=named(number), last=CHUNK, complete_to=CHUNK.complete_to)


def test_a_listing_is_of_files_of_leftovers_and_of_problems() -> None:
    one, two = archived(1), archived(2)
    found = says(line_of(two), "! it is odd", leftover_line(named(7)), "nonsense", line_of(one)).archived()
    assert [each.file for each in found.files] == [one.file, two.file] and found.leftovers == (named(7),)
    assert found.address == "the gate"
    assert found.problems[0] == "it is odd" and "no line about an archived file" in found.problems[1]
    assert logs("true").archived().files == ()


def test_a_listing_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zfs_archive, "MOST_FILES", 3)
    assert len(says(*["! odd"] * 2).archived().problems) == 2
    with pytest.raises(VerificationFailed, match="more than 3 files"):
        says(*["! odd"] * 3).archived()


def test_what_is_read_are_chunks_with_their_bytes(tmp_path: Path) -> None:
    second = chunk_of(DATA * 2, 200, 400)
    answer = tmp_path / "answer"
    answer.write_bytes(f"{CHUNK}\n".encode() + DATA + f"{second}\n".encode() + DATA[:7])
    found = list(logs(f"cat {shlex.quote(str(answer))}").chunks(named(), 0, 400))
    assert found == [(CHUNK, DATA), (second, DATA[:7])], "what is not there is not made up"
    with pytest.raises(VerificationFailed, match=r"at the gate: .* is no chunk of a log"):
        list(says("nonsense").chunks(named(), 0, 9))
    assert list(logs("true").chunks(named(), 0, 9)) == []


def test_what_is_appended_is_given_to_it_and_what_is_removed_is_waited_for(tmp_path: Path) -> None:
    there = tmp_path / "there"
    assert logs(f"cat > {shlex.quote(str(there))}").append(named(), CHUNK, DATA) == 200
    assert there.read_bytes() == DATA
    # Whoever says something late still finds a reader.
    logs("sleep 0.05; printf x").remove(named())
    assert says("0" * 32).claim("s", 1, "0" * 32) == "0" * 32


@pytest.mark.parametrize(
    ("status", "said", "error", "told"),
    [
        (127, "sh: no such command", NoArchive, "the gate takes no log archive"),
        (3, "zbackup: 'zbackup-log' is not allowed", NoArchive, "the gate takes no log archive"),
        (
            Taken.exit_status,
            "x\nzbackup: it is archived by another",
            Taken,
            "it is archived by another (on vault)",
        ),
        (Refused.exit_status, "zbackup: no", Refused, "no (on vault)"),
        (VerificationFailed.exit_status, "", VerificationFailed, "no message (on vault)"),
        (99, "zbackup: no", CommandFailed, "exited with 99: zbackup: no"),
    ],
)
def test_what_the_other_side_meant_is_told_by_its_status(
    status: int, said: str, error: type[ZbackupError], told: str
) -> None:
    with pytest.raises(ZbackupError) as raised:
        logs(f"printf %s {shlex.quote(said)} >&2; exit {status}").archived()
    assert type(raised.value) is error and told in str(raised.value)


def test_without_a_host_the_address_is_told_and_what_is_known_already_stays() -> None:
    def at_home(status: int, said: str) -> CommandFailed:
        return CommandFailed(("x",), status, said)

    with pytest.raises(Refused, match=r"no \(on the gate\)"):
        logs(f"echo 'zbackup: no' >&2; exit {Refused.exit_status}", at_home).archived()

    def lost(status: int, said: str) -> CommandFailed:
        return ConnectionFailed(("ssh",), 255, "no route", "vault")

    with pytest.raises(ConnectionFailed):
        logs(f"exit {Refused.exit_status}", lost).archived()

    class Own(CommandFailed):
        pass

    with pytest.raises(Own):
        logs(f"exit {Refused.exit_status}", lambda *_: Own(("x",), Refused.exit_status, "")).archived()


def test_a_dataset_that_is_not_there_has_no_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = LocalLogs(home="tank/b/shop", address="here", runner=lambda *_, **__: "")
    where: list[Path | None] = [None]
    monkeypatch.setattr(LogDataset, "directory", lambda _: where[0])
    monkeypatch.setattr(LogDataset, "prepared", lambda _: tmp_path)
    assert here.archived().files == () and here.archived().address == "here"
    with pytest.raises(VerificationFailed, match="there is no dataset tank/b/shop/log"):
        here.chunks(named(), 0, 1)
    here.remove(named())
    here.append(named(), CHUNK, DATA)
    where[0] = tmp_path
    assert [each.file for each in here.archived().files] == [named()]
    assert [data for _, data in here.chunks(named(), 0, 200)] == [DATA]
    here.remove(named())
    assert here.archived().files == ()
    assert replace(here, address="x").archived().address == "x"
