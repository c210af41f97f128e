"""Runs the stories of recovery, transactions and clones with servers that somebody brings.

LAB_SERVERS=mysql-8.4=/opt/mysql84,mongodb-7.0=image:mongo:7.0 make test-versions
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.lab import servers
from tests.lab.progress import say
from tests.lab.servers import brought, images
from tests.lab.variants import NAMED, Told

PROGRAM = Path(__file__).with_name("lab")
STORIES = {
    "mysql": (
        "test_recovery.py@mysql-9.7",
        "test_transactions.py@mysql-9.7",
        "test_clones.py@mysql-9.7",
        "test_backup_as_it_is.py@mysql-9.7",
        "test_replica.py@mysql-9.7",
    ),
    "mariadb": (
        "test_recovery.py@mariadb-10.11",
        "test_before.py@mariadb-10.11",
        "test_transactions.py@mariadb-10.11",
        "test_copy.py@mariadb-10.11",
        "test_clones.py@mariadb-11.8",
        "test_backup_as_it_is.py@mariadb-10.11",
    ),
    "mongodb": (
        "test_recovery_mongodb.py",
        "test_mongo_snapshot.py",
        "test_clones_mongodb.py",
        "test_backup_as_it_is_mongodb.py",
    ),
}
"""By kind: the modules, with the server that each is told with here."""
UNNAMED = "mongodb-6.0"
"""The server of a module that names none."""


def main(arguments: list[str]) -> int:
    """The exit status: 0 when all went well with each server, 2 with one line when none is brought.

    Arguments are words, of which one has to be in a module's name.
    """
    try:
        given = os.environ.get(brought.SERVERS, "")
        if (there := images.unpacked(given)) != given.strip(","):
            # What kinds there are, a process knows from its start.
            argv = (sys.executable, "-m", "tests.lab.versions", *arguments)
            return subprocess.run(argv, env={**os.environ, brought.SERVERS: there}, check=False).returncode
        found = brought.named()
        if not found:
            raise servers.ServerUnavailable(
                f"no server is named: {brought.SERVERS}=mysql-8.4=/opt/mysql84,mongodb-7.0=image:mongo:7.0 "
                "make test-versions"
            )
        servers.ensure(tuple(found))
    except servers.ServerUnavailable as refused:
        print(f"test-versions: {refused}", file=sys.stderr)
        return 2
    return max([_run(name, arguments) for name in found])


def _run(name: str, words: list[str]) -> int:
    kind = brought.kind_of(name)
    daemon = servers.path(name) / "bin" / brought.DAEMONS[kind]
    version = subprocess.run([daemon, "--version"], capture_output=True, text=True, check=True).stdout
    say(f"{name}: {version.splitlines()[0]}")
    modules = [
        f"tests/system/{story}"
        for story in STORIES[kind]
        if not words or any(word in story for word in words)
    ]
    environment = {**os.environ, brought.INSTEAD: instead(name)}
    argv = (str(PROGRAM), "test", "-j", "2", "--timeout", "25m", *modules)
    return subprocess.run(argv, env=environment, check=False).returncode if modules else 0


def instead(name: str) -> str:
    """Pairs that have it stand in for each server that the stories of its kind are told with."""
    told_with = (Told.read(story).variant for story in STORIES[brought.kind_of(name)])
    meant = {NAMED[variant].flavour if variant else UNNAMED for variant in told_with}
    return ",".join(f"{flavour}={name}" for flavour in sorted(meant))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
