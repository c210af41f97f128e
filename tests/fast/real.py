"""The script of commands played on a real zfs."""

import os
import subprocess
from pathlib import Path

from tests.fast.script import Said, play

CUT_AT = 1 << 21


def play_real(pool: str, mount: str) -> list[dict[str, object]]:
    """On the pool, whose file systems may be mounted below the directory `mount`."""
    return play(pool, mount, _answer, _stream, _fill)


def _answer(argv: tuple[str, ...]) -> Said:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=_ENVIRONMENT)
    return Said(done.returncode, done.stdout, done.stderr)


def _stream(send: tuple[str, ...], receive: tuple[str, ...], cut: bool) -> tuple[Said, Said]:
    sent = subprocess.run(send, capture_output=True, check=False, env=_ENVIRONMENT)
    stream = sent.stdout[:CUT_AT] if cut else sent.stdout
    got = subprocess.run(receive, input=stream, capture_output=True, check=False, env=_ENVIRONMENT)
    return Said(sent.returncode, "", sent.stderr.decode()), Said(
        got.returncode, got.stdout.decode(), got.stderr.decode()
    )


def _fill(directory: str) -> None:
    Path(directory, "file").write_bytes(os.urandom(4 << 20))


_ENVIRONMENT = os.environ | {"LC_ALL": "C"}
