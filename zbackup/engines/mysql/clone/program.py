"""Find which server program opens a backup's files."""

import re
from collections.abc import Mapping, Sequence

from zbackup.model.errors import CommandFailed, Refused
from zbackup.proc import programs
from zbackup.proc.version import said_version

NAMES = {"mysql": ("mysqld",), "mariadb": ("mariadbd", "mysqld")}
DIRECTORIES = (*programs.DIRECTORIES, "/opt/mysql/bin")


def find_program(
    configured: Sequence[str] | None, flavor: str, recorded: Mapping[str, str], version: str
) -> tuple[str, ...]:
    """The configured program, else the one the recorded server ran from, else an installed one.

    Raise Refused when there is none that root may run, or when it is of another release series: opening the
    files with it would upgrade them, or fail half-way.
    """
    hint = recorded.get("mysqld", "")
    program = programs.find_program(configured, NAMES[flavor], hint, DIRECTORIES)
    wanted, found = series(version), series(version_of(program))
    if wanted != found:
        raise Refused(
            f"{program[0]} is version {found}, but the files are of {wanted}: "
            f"name a server of {wanted} in recovery.server, or with --server"
        )
    return program


def version_of(program: Sequence[str]) -> str:
    """What the program says its version is. Raise Refused if it says nothing of the kind."""
    try:
        said = said_version(program, "--no-defaults", "--version")
    except CommandFailed as failure:
        raise Refused(f"the server program cannot be used: {failure}") from failure
    found = re.search(r"Ver\s+(\d+\.\d+\.\d+\S*)", said)
    if not found:
        raise Refused(f"{program[0]} --version does not look like a database server: {said.strip()[:100]}")
    return found[1]


def series(version: str) -> str:
    """What must agree for files to be opened as they are: 9.7.4-2 -> 9.7."""
    return ".".join(version.split(".")[:2])
