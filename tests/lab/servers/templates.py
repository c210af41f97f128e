"""Data directories prepared once on this machine, to be copied wherever a test needs a database.

Initialising takes seconds, and many times that in a guest kernel; copying takes a tenth of it.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.lab import apt
from tests.lab.servers import brought
from tests.lab.servers.accounts import setup_sql
from tests.lab.servers.places import ServerUnavailable, templates

KINDS = {
    "mysql-9.7": "mysql",
    "mariadb-10.11": "mariadb",
    "mariadb-11.8": "mariadb",
    "mongodb-6.0": "mongodb",
    **brought.kinds(),
}

# Sizes that go into the files at initialisation; small, for every test copies them.
SIZES = {
    "mysql": ("--innodb-redo-log-capacity=32M", "--innodb-buffer-pool-size=64M"),
    "mariadb": ("--innodb-log-file-size=32M", "--innodb-buffer-pool-size=64M"),
}
DAEMON = {"mysql": "mysqld", "mariadb": "mariadbd"}
CLIENT = {"mysql": "mysql", "mariadb": "mariadb"}
ADMIN = {"mysql": "mysqladmin", "mariadb": "mariadb-admin"}

_START_LIMIT = 60.0
_COMMAND_LIMIT = 300.0


def prepared(name: str, home: Path) -> Path | None:
    """The template of the server installed in `home`, if there is one."""
    place = _place(name, home)
    return place if place.is_dir() else None


def prepare(name: str, home: Path, log: Path) -> Path:
    """Make the template of the server installed in `home` unless it is there. Raises ServerUnavailable."""
    kind = KINDS[name]
    final = _place(name, home)
    with apt.locked(templates() / f".{name}.lock"):
        if final.is_dir():
            return final
        # Not a hidden name: MySQL finds no undo tablespaces in a directory whose name begins with a dot.
        partial = templates() / f"partial-{name}"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        if kind != "mongodb":
            _initialise(kind, home, partial, log)
            _fill(kind, home, partial, log)
            (partial / "auto.cnf").unlink(missing_ok=True)  # the server's identity: every copy makes its own
        partial.rename(final)
    return final


def _place(name: str, home: Path) -> Path:
    kind = KINDS[name]
    content = "" if kind == "mongodb" else f"{setup_sql(kind)}{SIZES[kind]}"
    return templates() / f"{home.name}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def _initialise(kind: str, home: Path, datadir: Path, log: Path) -> None:
    if kind == "mysql":
        start = [str(home / "bin/mysqld"), "--no-defaults", "--initialize-insecure"]
    else:
        start = [
            str(home / "bin/mariadb-install-db"),
            "--no-defaults",
            "--auth-root-authentication-method=normal",
        ]
        start += ["--skip-test-db"]
    _run([*start, f"--datadir={datadir}", *SIZES[kind], *_as_root()], log)


def _fill(kind: str, home: Path, datadir: Path, log: Path) -> None:
    # A Unix socket's path holds 107 bytes; the cache may be deeper than that.
    with tempfile.TemporaryDirectory(prefix="zbt-") as place:
        socket = Path(place) / "s"
        options = [f"--datadir={datadir}", f"--socket={socket}", f"--pid-file={place}/pid"]
        options += ["--skip-networking", "--skip-log-bin", *SIZES[kind], *_as_root()]
        options += ["--mysqlx=OFF"] if kind == "mysql" else []
        with _running([str(home / "bin" / DAEMON[kind]), "--no-defaults", *options], log) as server:
            login = ["--no-defaults", f"--socket={socket}", "--user=root"]
            _await(server, [str(home / "bin" / ADMIN[kind]), *login, "ping"], log)
            _run([str(home / "bin" / CLIENT[kind]), *login, "mysql"], log, stdin=setup_sql(kind))
            # Everything in the files, nothing in the undo or redo log that a copy would have to work off.
            _run(
                [str(home / "bin" / CLIENT[kind]), *login], log, stdin="SET GLOBAL innodb_fast_shutdown = 0;"
            )
            _run([str(home / "bin" / ADMIN[kind]), *login, "shutdown"], log)
            server.wait(_COMMAND_LIMIT)


def _as_root() -> list[str]:
    return ["--user=root"] if os.geteuid() == 0 else []


@contextlib.contextmanager
def _running(argv: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as sink:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def _await(server: subprocess.Popen[bytes], ping: Sequence[str], log: Path) -> None:
    limit = time.monotonic() + _START_LIMIT
    while time.monotonic() < limit and server.poll() is None:
        if subprocess.run(ping, capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.1)
    raise ServerUnavailable(f"the new server did not start (see {log})")


def _run(argv: Sequence[str], log: Path, stdin: str | None = None) -> None:
    try:
        done = subprocess.run(
            argv, input=stdin, capture_output=True, text=True, check=False, timeout=_COMMAND_LIMIT
        )
    except subprocess.TimeoutExpired as late:
        raise ServerUnavailable(f"{argv[0]} gave no answer within {_COMMAND_LIMIT:g} s") from late
    with log.open("a") as sink:
        sink.write(f"$ {' '.join(argv)}\n{done.stdout}{done.stderr}")
    if done.returncode != 0:
        raise ServerUnavailable(f"{Path(argv[0]).name} failed with status {done.returncode} (see {log})")
