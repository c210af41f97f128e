"""Plugins that a server on a clone must load to open the same files and let the same users in.

Those that were installed with INSTALL PLUGIN come with the data. Those that an option file loads do not, and
a server without them cannot read an encrypted or compressed page, cannot open a table with an index of words
that their parser made, or lets nobody in who logs in by them.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from zbackup.engines.mysql.binlog.required_plugins import LIBRARY, Need
from zbackup.engines.mysql.server.connection import Connection
from zbackup.engines.mysql.server.status import Dialect

# Not the kinds that watch, count or judge passwords: those could stop what zbackup does on the clone.
KINDS = ("ENCRYPTION", "STORAGE ENGINE", "AUTHENTICATION", "DATA TYPE", "FTPARSER")
PROVIDERS = "provider_"
"""MariaDB's compression libraries come as daemons with names that begin so."""

NAMED = ("STORAGE ENGINE", "AUTHENTICATION", "FTPARSER")
"""The kinds that statements of a log may name."""

NAMES = "plugin_names"
"""In Record.server: the plugins of these kinds that the server had, in small letters, with blanks between."""

FILES = "plugin_files"
"""In Record.server: NAME=LIBRARY of those among them that are in a library, with semicolons between."""

NOT_ON_CLONES = frozenset({"federated"})
"""Its tables are other servers'. MySQL has it built in, and off unless it is asked for, which a clone does
not; MariaDB asks the other server before it makes a table (manuals, "FEDERATED", "FederatedX")."""

NATIVE_PASSWORD = "mysql_native_password"
"""Built in, off by default in MySQL 8.4, gone in 9.0 (MySQL manual, "Native Pluggable Authentication")."""

WORDS_FILE = "mecab_rc_file"
"""MySQL's parser of Japanese finds its dictionary by it (manual, "MeCab Full-Text Parser Plugin")."""

KEY_FILE = "file_key_management_"
"""The beginning of the variables by which MariaDB's plugin of that name finds the keys. What protects the key
file is recorded as a file only."""


def plugins(connection: Connection, server: Dialect, variables: Mapping[str, str]) -> dict[str, str]:
    """Facts for Record.server, from which `options` are made again."""
    rows = connection.rows(
        "SELECT PLUGIN_NAME AS name, PLUGIN_TYPE AS kind, PLUGIN_LIBRARY AS file "
        "FROM information_schema.PLUGINS WHERE PLUGIN_STATUS = 'ACTIVE'"
    )
    loaded = sorted({str(row["file"]) for row in rows if row["file"] and _matters(row)})
    facts = {"plugins": ";".join(loaded)} if loaded else {}
    named = {str(row["name"]).lower(): str(row["file"] or "") for row in rows if row["kind"] in NAMED}
    facts[NAMES] = " ".join(sorted(named))
    if files := ";".join(f"{name}={file}" for name, file in sorted(named.items()) if file):
        facts[FILES] = files
    if server.is_mysql(8, 4) and any(row["name"] == NATIVE_PASSWORD for row in rows):
        facts[NATIVE_PASSWORD] = "ON"
    return facts | {
        name: value
        for name, value in variables.items()
        if value and _is_handed_on(name) and (not name.endswith("filekey") or value.startswith("FILE:"))
    }


def options(recorded: Mapping[str, str]) -> Iterable[str]:
    """Command line options. A library that is not installed on this host is left out: see `not_here`."""
    for library in _libraries(recorded):
        if _is_here(recorded, library):
            yield f"--plugin-load-add={library}"
    if NATIVE_PASSWORD in recorded:
        yield "--loose-mysql-native-password=ON"
    for name, value in recorded.items():
        if _is_handed_on(name):
            # Should the plugin not be there, the server must say that it misses keys, not options.
            yield f"--loose-{name.replace('_', '-')}={value}"


def not_here(recorded: Mapping[str, str]) -> Iterable[str]:
    """Name each recorded library that is not installed on this host, in a line for people."""
    for library in _libraries(recorded):
        if not _is_here(recorded, library):
            yield (
                f"the plugin {library}, which the original had loaded, is not in "
                f"{recorded.get('plugin_dir', 'its directory')} on this host: the recovered server runs "
                "without it, and cannot open tables that need it, nor let in users who log in by it"
            )


def lacking(need: Need, recorded: Mapping[str, str]) -> str:
    """Why a server on a clone of that backup cannot do what needs this; "" where it can, or nobody
    knows."""
    directory = recorded.get("plugin_dir", "")
    if need.what == LIBRARY:
        lacks = _lacks(directory, need.name)
        return f"it needs {need.name}, which is not in {directory} on this host" if lacks else ""
    names = recorded.get(NAMES)
    if names is None:
        return ""
    if need.name not in names.split():
        return f"it needs the {need.what} {need.name}, which the server lacked when the backup was taken"
    if need.name in NOT_ON_CLONES:
        return f"it needs the {need.what} {need.name}, and a recovered server reaches no other servers"
    pairs = (pair.partition("=") for pair in recorded.get(FILES, "").split(";"))
    library = next((file for name, _, file in pairs if name == need.name), "")
    if library and _lacks(directory, library):
        return f"it needs the {need.what} {need.name}, whose {library} is not in {directory} on this host"
    return ""


def _libraries(recorded: Mapping[str, str]) -> Iterable[str]:
    return filter(None, recorded.get("plugins", "").split(";"))


def _lacks(directory: str, library: str) -> bool:
    """Whether it is certain that this directory is here, and does not hold the file. Where it is here a
    server on a clone looks into no other."""
    try:
        known = directory and "/" not in library and Path(directory).is_dir()
        return bool(known) and not Path(directory, library).exists()
    except OSError:
        # This process may not enter it. Whose server it is may.
        return False


def _is_here(recorded: Mapping[str, str], library: str) -> bool:
    """Also where nobody knows, as in a directory that is closed to this process: the server looks itself,
    and goes on without what it does not find."""
    try:
        return (Path(recorded.get("plugin_dir", "")) / library).is_file()
    except OSError:
        return True


def _is_handed_on(variable: str) -> bool:
    return variable.startswith(KEY_FILE) or variable == WORDS_FILE


def _matters(row: Mapping[str, object]) -> bool:
    return row["kind"] in KINDS or str(row["name"]).startswith(PROVIDERS)
