"""Servers that somebody brings along, for versions that no package registry has.

LAB_SERVERS=mysql-8.4=/opt/mysql84,mariadb-10.6=/opt/mariadb106 names them and where they are: a vendor's
unpacked archive, or unpacked Debian packages with all that they need. LAB_INSTEAD=mysql-9.7=mysql-8.4 has the
tests that name the one run with the other; there may be several such pairs, with commas in between.
"""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.lab.servers.places import ServerUnavailable, root
from tests.lab.servers.wrappers import NoLoader, script, wrapper

SERVERS, INSTEAD = "LAB_SERVERS", "LAB_INSTEAD"
LAYOUT = 1
KINDS = {"mysql": "mysql", "percona": "mysql", "mariadb": "mariadb", "mongodb": "mongodb"}
"""By what a name begins with."""
DAEMONS = {"mysql": "mysqld", "mariadb": "mariadbd", "mongodb": "mongod"}
PROGRAMS = {
    "mysql": ("mysqld", "mysql", "mysqladmin", "mysqldump", "mysqlbinlog", "mysqlcheck"),
    "mariadb": (
        *("mariadbd", "mariadb", "mariadb-admin", "mariadb-dump", "mariadb-binlog", "mariadb-check"),
        *("mariadb-install-db", "my_print_defaults", "resolveip"),
    ),
    "mongodb": ("mongod",),
}
MAY_LACK = ("mariadb-check", "mysqlcheck", "resolveip")
BEFORE_10_5 = {
    "mariadbd": "mysqld",
    "mariadb": "mysql",
    "mariadb-admin": "mysqladmin",
    "mariadb-dump": "mysqldump",
    "mariadb-binlog": "mysqlbinlog",
    "mariadb-check": "mysqlcheck",
    "mariadb-install-db": "mysql_install_db",
}
"""What MariaDB's programs were called, and are still in some archives."""
_DIRECTORIES = ("bin", "sbin", "libexec", "scripts", "usr/bin", "usr/sbin")


def named(environment: Mapping[str, str] = os.environ) -> dict[str, Path]:
    """The servers that somebody brings, by name. Raises ServerUnavailable for what is no such list."""
    found: dict[str, Path] = {}
    for word in filter(None, environment.get(SERVERS, "").split(",")):
        name, equals, prefix = word.partition("=")
        if not equals or not re.fullmatch(r"[a-z]+-[0-9][0-9.]*", name) or name.split("-")[0] not in KINDS:
            raise ServerUnavailable(
                f'{SERVERS}: "{word}" is not NAME=DIRECTORY with a name such as mysql-8.4, percona-8.0, '
                "mariadb-10.6 or mongodb-7.0"
            )
        if not Path(prefix).is_absolute():
            raise ServerUnavailable(f'{SERVERS}: {name}: "{prefix}" is not an absolute path')
        found[name] = Path(prefix)
    return found


def kinds() -> dict[str, str]:
    """The kind of each; none where the list is wrong, which whoever asks for one of them is told."""
    try:
        return {name: kind_of(name) for name in named()}
    except ServerUnavailable:
        return {}


def kind_of(name: str) -> str:
    """mysql, mariadb or mongodb."""
    return KINDS[name.split("-")[0]]


def stand_in(name: str, environment: Mapping[str, str] = os.environ) -> str:
    """The server that is meant when a test says `name`. Raises ServerUnavailable if nobody brings that."""
    pairs = (word.partition("=") for word in environment.get(INSTEAD, "").split(","))
    instead = next((there for meant, _, there in pairs if meant == name), "")
    if not instead:
        return name
    if instead not in named(environment):
        raise ServerUnavailable(f"{INSTEAD} names {instead}, which {SERVERS} does not")
    return instead


def install(name: str, prefix: Path) -> Path:
    """A directory with the server's programs in bin/, each a script that runs it where it lies.

    Raises ServerUnavailable when a program that is needed is not below `prefix`.
    """
    kind = kind_of(name)
    found = {wanted: program for wanted in PROGRAMS[kind] if (program := _find(prefix, wanted))}
    missing = [wanted for wanted in PROGRAMS[kind] if wanted not in found and wanted not in MAY_LACK]
    if missing:
        raise ServerUnavailable(f"{name}: {prefix} has no {' and no '.join(missing)}")
    daemon = found[DAEMONS[kind]]
    key = hashlib.sha256(f"{LAYOUT} {daemon} {daemon.stat().st_mtime_ns}".encode()).hexdigest()[:8]
    home = root() / f"{name}-brought-{key}"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    inside = prefix / "usr" if (prefix / "usr/share").is_dir() else prefix
    for link, target in (("sbin", Path("bin")), ("share", inside / "share"), ("lib", inside / "lib")):
        if not (home / link).is_symlink():
            (home / link).symlink_to(target)
    for wanted, program in found.items():
        for called in {wanted, BEFORE_10_5.get(wanted, wanted)}:  # scripts of theirs look for the old names
            _write(home / "bin" / called, prefix, program, _options(kind, wanted, home))
    return home


def _find(prefix: Path, wanted: str) -> Path | None:
    for name in (wanted, BEFORE_10_5.get(wanted, wanted)):
        for directory in _DIRECTORIES:
            if (program := prefix / directory / name).is_file():
                return program.resolve()
    return None


def _options(kind: str, program: str, home: Path) -> list[str]:
    if program == "mariadb-install-db":
        return [f"--basedir={home}"]
    if kind == "mongodb" or program != DAEMONS[kind]:
        return []
    # Debian's build insists on a directory that only an installed package makes.
    options = [f"--basedir={home}", *(["--secure-file-priv=NULL"] if kind == "mysql" else [])]
    for messages in ("share/mysql", "share/mariadb", "share"):
        if (home / messages / "english").is_dir():
            options += [f"--lc-messages-dir={home / messages}"]
            options += [f"--character-sets-dir={home / messages / 'charsets'}"]
            break
    plugins = next((p for p in ("lib/plugin", "lib/mysql/plugin") if (home / p).is_dir()), None)
    return [*options, *([f"--plugin-dir={home / plugins}"] if plugins else [])]


def _write(target: Path, prefix: Path, program: Path, options: Sequence[str]) -> None:
    """By the C library beside the program if there is one, else by the system's."""
    try:
        text = wrapper(program, prefix, options, target)
    except NoLoader:
        text = script([str(program)], options)
    target.write_text(text)
    target.chmod(0o755)
