"""Plugins that a server on a clone must load to open the same files and let the same users in.

Those that were installed with INSTALL PLUGIN come with the data. Those that an option file loads do not, and
a server without them cannot read an encrypted or compressed page, or lets nobody in who logs in by them.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from zbackup.engines.mysql.server.connection import Connection
from zbackup.engines.mysql.server.status import Dialect

# Not the kinds that watch, count or judge passwords: those could stop what zbackup does on the clone.
KINDS = ("ENCRYPTION", "STORAGE ENGINE", "AUTHENTICATION", "DATA TYPE")
PROVIDERS = "provider_"
"""MariaDB's compression libraries come as daemons with names that begin so."""

NATIVE_PASSWORD = "mysql_native_password"
"""Built in, off by default in MySQL 8.4, gone in 9.0 (MySQL manual, "Native Pluggable Authentication")."""

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
    if server.is_mysql(8, 4) and any(row["name"] == NATIVE_PASSWORD for row in rows):
        facts[NATIVE_PASSWORD] = "ON"
    return facts | {
        name: value
        for name, value in variables.items()
        if name.startswith(KEY_FILE) and value and (not name.endswith("filekey") or value.startswith("FILE:"))
    }


def options(recorded: Mapping[str, str]) -> Iterable[str]:
    """Command line options. A library that is not installed on this host is left out."""
    directory = Path(recorded.get("plugin_dir", ""))
    for library in filter(None, recorded.get("plugins", "").split(";")):
        if (directory / library).is_file():
            yield f"--plugin-load-add={library}"
    if NATIVE_PASSWORD in recorded:
        yield "--loose-mysql-native-password=ON"
    for name, value in recorded.items():
        if name.startswith(KEY_FILE):
            # Should the plugin not be there, the server must say that it misses keys, not options.
            yield f"--loose-{name.replace('_', '-')}={value}"


def _matters(row: Mapping[str, object]) -> bool:
    return row["kind"] in KINDS or str(row["name"]).startswith(PROVIDERS)
