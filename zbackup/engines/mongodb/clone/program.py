"""Find which mongod opens a backup's files."""

import re
from collections.abc import Sequence

from zbackup.model.errors import CommandFailed, Refused
from zbackup.proc import programs
from zbackup.proc.version import said_version

NAMES = ("mongod",)
DIRECTORIES = (*programs.DIRECTORIES, "/opt/mongodb/bin")


def find_program(configured: Sequence[str] | None, recorded: str, version: str) -> tuple[str, ...]:
    """The configured program, else the one the recorded server ran from, else an installed one.

    Raise Refused when there is none that root may run, or when it is of another release series: a newer one
    would upgrade the files, and an older one cannot read them (MongoDB manual,
    "featureCompatibilityVersion").
    """
    program = programs.find_program(configured, NAMES, recorded, DIRECTORIES)
    wanted, found = series(version), series(version_of(program))
    if wanted != found:
        raise Refused(
            f"{program[0]} is version {found}, but the files are of {wanted}: "
            f"name a mongod of {wanted} in recovery.server, or with --server"
        )
    return program


def version_of(program: Sequence[str]) -> str:
    """What the program says its version is. Raise Refused if it says nothing of the kind."""
    try:
        said = said_version(program, "--version")
    except CommandFailed as failure:
        raise Refused(f"the server program cannot be used: {failure}") from failure
    found = re.search(r"db version v(\d+\.\d+\.\d+\S*)", said)
    if not found:
        raise Refused(f"{program[0]} --version does not look like mongod: {said.strip()[:100]}")
    return found[1]


def series(version: str) -> str:
    """What must agree for files to be opened as they are: 6.0.27 -> 6.0."""
    return ".".join(version.split(".")[:2])
