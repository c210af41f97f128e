"""A stream between two programs: whole, counted, throttled, and whose fault it was when it is not."""

import hashlib
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from zbackup.model.errors import CommandFailed, NotInstalled, Refused, Stopped
from zbackup.proc.pipeline import Command, Head, Meter, local, reading, transfer, writing

SIZE = 5_000_001


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", f"import sys\nout, inp = sys.stdout.buffer, sys.stdin.buffer\n{code}")


SENDER = python(f"out.write(bytes(range(251)) * ({SIZE} // 251 + 1))")
WHOLE = bytes(range(251)) * (SIZE // 251 + 1)


def to_file(path: Path) -> tuple[str, ...]:
    return python(f"open({str(path)!r}, 'wb').write(inp.read())")


def test_every_byte_arrives_and_is_counted(tmp_path: Path) -> None:
    seen: list[int] = []
    count = transfer(local(SENDER), local(to_file(tmp_path / "copy")), Meter(moved=seen.append))
    assert count == len(WHOLE) == seen[-1]
    arrived = (tmp_path / "copy").read_bytes()
    assert hashlib.sha256(arrived).digest() == hashlib.sha256(WHOLE).digest()


def test_a_throttled_stream_takes_its_time(tmp_path: Path) -> None:
    """A lower bound only: whatever the machine's load, it may never be faster than it is allowed."""
    began = time.monotonic()
    transfer(local(SENDER), local(to_file(tmp_path / "copy")), Meter(limit=10_000_000))
    assert time.monotonic() - began >= len(WHOLE) / 10_000_000 - 0.2


def test_the_senders_failure_is_told_as_its_own_with_what_the_receiver_said() -> None:
    sender = local(python("out.write(b'x' * 100); sys.exit('snapshot is gone')"))
    receiver = local(python("inp.read(); sys.exit('cannot receive: incomplete stream')"))
    with pytest.raises(CommandFailed) as told:
        transfer(sender, receiver, Meter())
    assert told.value.argv == sender.argv
    assert str(told.value).endswith("snapshot is gone; the other end said: cannot receive: incomplete stream")
    assert "snapshot is gone" in told.value.stderr and "incomplete stream" in told.value.stderr


def test_the_receivers_failure_is_told_as_its_own_and_ends_the_sender() -> None:
    sender = local(python("while True: out.write(b'x' * 65536)"))
    receiver = local(python("inp.read(10); sys.exit('cannot receive: out of space')"))
    with pytest.raises(CommandFailed) as told:
        transfer(sender, receiver, Meter())
    assert told.value.argv == receiver.argv and "out of space" in told.value.stderr


def test_a_receiver_that_says_it_is_done_too_early_is_not_believed() -> None:
    sender = local(python("while True: out.write(b'x' * 65536)"))
    with pytest.raises(CommandFailed, match="ended well before the stream did"):
        transfer(sender, local(python("inp.read(10)")), Meter())


def test_a_stop_cuts_it() -> None:
    sender = local(python("while True: out.write(b'x' * 65536)"))
    with pytest.raises(Stopped):
        transfer(sender, local(python("inp.read()")), Meter(stop=lambda: True))


@pytest.mark.parametrize("broken", ["sender", "receiver"])
def test_a_program_that_is_not_there(broken: str) -> None:
    ends = {"sender": local(SENDER), "receiver": local(python("inp.read()"))}
    ends[broken] = local(("/no/such/program",))
    with pytest.raises(NotInstalled, match="/no/such/program"):
        transfer(ends["sender"], ends["receiver"], Meter())


def test_reading_gives_the_whole_stream_and_tells_of_a_failure() -> None:
    with reading(local(SENDER)) as source:
        assert source.read() == WHOLE
    with pytest.raises(CommandFailed, match="gone"), reading(local(python("sys.exit('gone')"))) as source:
        source.read()


def only(wanted: bytes) -> Head:
    def require(head: bytes) -> None:
        if head != wanted:
            raise Refused(f"begins with {head!r}")

    return Head(len(wanted), require)


def looked_at(path: Path, head: Head) -> Command:
    return replace(local(to_file(path)), head=head)


@pytest.mark.parametrize("size", [4, 1 << 20])
def test_an_input_begins_as_it_must_or_none_of_it_arrives(tmp_path: Path, size: int) -> None:
    sender = local(python(f"out.write(b'good' + b'x' * {size})"))
    kept, refused = tmp_path / "kept", tmp_path / "refused"
    assert transfer(sender, looked_at(kept, only(b"good")), Meter()) == size + 4
    assert kept.read_bytes() == b"good" + b"x" * size
    with pytest.raises(Refused, match="begins with b'good'"):
        transfer(sender, looked_at(refused, only(b"evil")), Meter())
    assert not refused.exists() or refused.read_bytes() == b""


def test_a_sender_that_fails_at_once_is_told_of_and_one_that_ends_is_refused(tmp_path: Path) -> None:
    receiver = looked_at(tmp_path / "copy", only(b"good"))
    with pytest.raises(CommandFailed, match="no such snapshot"):
        transfer(local(python("sys.exit('no such snapshot')")), receiver, Meter())
    with pytest.raises(Refused, match="begins with b'go'"):
        transfer(local(python("out.write(b'go')")), receiver, Meter())


@pytest.mark.parametrize("pieces", [[b"good more"], [b"g", b"oo", b"", b"d mo", b"re"]])
def test_what_is_written_piece_by_piece_is_looked_at_too(tmp_path: Path, pieces: list[bytes]) -> None:
    kept, refused = tmp_path / "kept", tmp_path / "refused"
    with writing(looked_at(kept, only(b"good"))) as write:
        for piece in pieces:
            write(piece)
    assert kept.read_bytes() == b"good more"
    for lacking in (pieces, [b"go"]):
        with (
            pytest.raises(Refused, match="begins with b'go"),
            writing(looked_at(refused, only(b"evil!"))) as write,
        ):
            for piece in lacking:
                write(piece)
        assert not refused.exists() or refused.read_bytes() == b""
