"""Pass bytes through a program that root does not trust with anything else."""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import IO

from zbackup.model.errors import CommandFailed
from zbackup.proc.start import PIPE, for_server, start
from zbackup.proc.version import as_nobody

LONGEST_LINE = 1 << 20
MOST_SAID = 4096


def filtered(argv: Sequence[str], given: Iterator[bytes]) -> Iterator[str]:
    """What the program prints of what it is given, line by line; a longer line comes in pieces.

    Root runs it as nobody. Its times are UTC. Raise CommandFailed when it fails, or cannot be run.
    """
    process = start(
        argv, for_server("UTC"), stdin=PIPE, stdout=PIPE, stderr=PIPE, identity=as_nobody(argv[0])
    )
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise AssertionError("a program was started without the pipes that it was to have")
    said = bytearray()
    failed: list[Exception] = []
    helpers = [
        threading.Thread(target=_feed, args=(given, process.stdin, failed)),
        threading.Thread(target=_collect, args=(process.stderr, said)),
    ]
    for helper in helpers:
        helper.start()
    try:
        while line := process.stdout.readline(LONGEST_LINE):
            yield line.decode("utf-8", "replace").rstrip("\n")
    except BaseException:
        process.kill()
        raise
    finally:
        process.stdout.close()
        status = process.wait()
        for helper in helpers:
            helper.join()
    if failed:
        raise failed[0]
    if status:
        raise CommandFailed(tuple(argv), status, said.decode("utf-8", "replace"))


def _feed(given: Iterator[bytes], into: IO[bytes], failed: list[Exception]) -> None:
    try:
        with contextlib.suppress(BrokenPipeError):  # it says itself why it reads no more
            for piece in given:
                into.write(piece)
    except Exception as failure:  # noqa: BLE001  raised where the lines are read
        failed.append(failure)
    finally:
        with contextlib.suppress(OSError):
            into.close()


def _collect(source: IO[bytes], said: bytearray) -> None:
    while piece := source.read(MOST_SAID):
        del said[: max(0, len(said) + len(piece) - MOST_SAID)]
        said += piece
