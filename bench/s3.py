"""A send stream into a bucket and back, beside what would be used instead: `python -m bench.s3`.

On a real S3 server on the machine itself, the same file for all. Everybody gets the stream from `cat` by
a pipe, and gives it to `cat` by a pipe, as it would be with `zfs send` and `zfs receive`; the CPU time is of
all of these, and the peak memory is that of the largest process. The server is SeaweedFS, or with LAB_S3 set
to the path of a versitygw program, that.
"""

import argparse
import itertools
import os
import shlex
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import s3_peers
from bench.report import circumstances, median, table, write
from bench.s3_end import BUCKET, MIB, PART
from tests.lab.s3_server import ACCESS, SECRET, S3Server, client, s3_server
from zbackup.model.drr_begin import MAGIC

SPARE = 4 << 30
"""Bytes of memory for what is measured, and for who else is there."""
OURS = {
    "zbackup": (),
    "zbackup, encrypted": ("--encrypted",),
    "zbackup, 64 MiB segments": ("--segment", "64"),
}
HEAD = ("tool", "put MiB/s", "CPU s", "peak MiB", "get MiB/s", "CPU s", "peak MiB")


@dataclass(frozen=True, slots=True)
class Tool:
    """`put` and `get` are what a shell runs; `$STREAM` is the file that is put."""

    name: str
    put: str
    get: str


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one run: seconds, seconds of CPU, and bytes of memory at most."""

    seconds: float
    cpu: float
    memory: int


def tools(endpoint: str) -> list[Tool]:
    """Ours first; the others with their defaults."""
    place = f"s3://{BUCKET}"
    return [
        *(
            Tool(name, ours("put", endpoint, words), ours("get", endpoint, words))
            for name, words in OURS.items()
        ),
        peer("aws s3 cp", f"aws s3 cp - {place}/aws", f"aws s3 cp {place}/aws -"),
        peer("rclone", f"rclone rcat bench:{BUCKET}/rclone", f"rclone cat bench:{BUCKET}/rclone"),
        peer("s5cmd", f"s5cmd pipe {place}/s5cmd", f"s5cmd cat {place}/s5cmd"),
    ]


def ours(verb: str, endpoint: str, words: Sequence[str]) -> str:
    """It runs `cat` itself."""
    return shlex.join(("exec", sys.executable, "-m", "bench.s3_end", verb, endpoint, *words))


def peer(name: str, put: str, get: str) -> Tool:
    return Tool(name, f'cat "$STREAM" | {put}', f"set -o pipefail; {get} | cat > /dev/null")


def environment(server: S3Server, stream: Path) -> Mapping[str, str]:
    """The environment by which all of them find the server and trust it, and are found."""
    endpoint = server.endpoint
    trust = ("AWS_CA_BUNDLE", "RCLONE_CA_CERT", "SSL_CERT_FILE") if server.ca else ()
    programs = (Path(sys.executable).parent, *s3_peers.fetch())
    rclone = {
        "TYPE": "s3",
        "PROVIDER": "Other",
        "ENDPOINT": endpoint,
        "ACCESS_KEY_ID": ACCESS,
        "SECRET_ACCESS_KEY": SECRET,
        "REGION": "us-east-1",
    }
    return os.environ | {
        "PATH": ":".join((*map(str, programs), os.environ["PATH"])),
        "STREAM": str(stream),
        "AWS_ENDPOINT_URL": endpoint,
        "S3_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": ACCESS,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        **dict.fromkeys(trust, str(server.ca)),
        **{f"RCLONE_CONFIG_BENCH_{key}": value for key, value in rclone.items()},
    }


def run(command: str, environ: Mapping[str, str]) -> Cost:
    """Raise CalledProcessError when it fails."""
    began = time.monotonic()
    argv = ("bash", "-c", command)
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said, env=environ
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise subprocess.CalledProcessError(process.returncode, argv, stderr=said.read())
    return Cost(time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def make_stream(path: Path, mib: int) -> None:
    """Make a file that begins as a send stream and does not compress, like the output of `zfs send -c`."""
    head = struct.pack("<IIQQQIIQQ", 0, 0, MAGIC, 1, 0, 2, 0, PART.guid, 0)
    with path.open("wb") as file:
        file.write(head)
        for number in range(mib):
            file.write(os.urandom(MIB - (len(head) if number == 0 else 0)))


def measure(mib: int, rounds: int, say: Callable[[str], None], *, tls: bool) -> str:
    """The table's text. Each tool has a new server each time: what was deleted may stay for a while."""
    tempfile.tempdir = memory(2 * mib * MIB)
    costs: dict[str, tuple[list[Cost], list[Cost]]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-s3-") as directory:
        source = Path(directory) / "stream"
        make_stream(source, mib)
        for number, which in itertools.product(range(rounds), range(len(tools("")))):
            with s3_server(tls=tls) as server:
                client(server).create_bucket(Bucket=BUCKET)
                tool, environ = tools(server.endpoint)[which], environment(server, source)
                put, get = costs.setdefault(tool.name, ([], []))
                put.append(run(tool.put, environ))
                get.append(run(tool.get, environ))
                say(f"round {number + 1}: {tool.name} {put[-1]} {get[-1]}")
    rows = [[name, *_cells(mib, put), *_cells(mib, get)] for name, (put, get) in costs.items()]
    kind = "versitygw" if os.environ.get("LAB_S3") else "SeaweedFS"
    where = "in memory" if tempfile.tempdir else "on disk"
    way = ", by TLS" * tls
    about = f"{mib} MiB, medians of {rounds} rounds, {kind} on the same machine with its data {where}{way}"
    return f"{about}\n\n{table(HEAD, rows)}"


def memory(size: int) -> str | None:
    """Name a directory in memory, if it has room for that much: there no disk is measured."""
    known = dict(line.split(":") for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
    available = int(known["MemAvailable"].split()[0]) * 1024
    return "/dev/shm" if available > size + SPARE else None


def _cells(mib: int, costs: Sequence[Cost]) -> list[str]:
    return [
        f"{mib / median([c.seconds for c in costs]):.0f}",
        f"{median([c.cpu for c in costs]):.1f}",
        f"{max(c.memory for c in costs) / MIB:.0f}",
    ]


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(prog="python -m bench s3")
    options.add_argument("--mib", type=int, default=4096)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--dry", action="store_true", help="print the table only")
    options.add_argument("--tls", action="store_true", help="a table of its own: the same by TLS")
    return options


def main(argv: Sequence[str] = ()) -> int:
    """Measure, and put the table into the page."""
    given = parser().parse_args(argv)
    text = measure(
        given.mib, given.rounds, lambda said: print(said, file=sys.stderr, flush=True), tls=given.tls
    )
    print(text)
    if not given.dry:
        command = "python -m bench.s3" + " --tls" * given.tls
        write("s3 tls" if given.tls else "s3", f"{circumstances(command)}; {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
