"""Options for the plugins of a recorded server."""

from pathlib import Path

import pytest

from zbackup.engines.mysql.binlog.needs import Need
from zbackup.engines.mysql.server.plugins import lacking, not_here, options


def test_only_libraries_that_are_installed_here_are_loaded(tmp_path: Path) -> None:
    (tmp_path / "provider_lz4.so").touch()
    recorded = {"plugin_dir": str(tmp_path), "plugins": "gone.so;provider_lz4.so"}
    assert list(options(recorded)) == ["--plugin-load-add=provider_lz4.so"]
    (line,) = not_here(recorded)
    assert line.startswith(f"the plugin gone.so, which the original had loaded, is not in {tmp_path} on this")
    assert list(not_here({"plugin_dir": str(tmp_path)})) == []


def test_a_server_without_plugins_gets_no_options() -> None:
    assert list(options({"plugin_dir": "/usr/lib/mysql/plugin"})) == []


def test_native_passwords_and_key_files_are_handed_on() -> None:
    recorded = {
        "mysql_native_password": "ON",
        "file_key_management_filename": "/etc/keys",
        "file_key_management_filekey": "FILE:/etc/secret",
    }
    assert list(options(recorded)) == [
        "--loose-mysql-native-password=ON",
        "--loose-file-key-management-filename=/etc/keys",
        "--loose-file-key-management-filekey=FILE:/etc/secret",
    ]


@pytest.mark.parametrize(
    ("need", "why"),
    [
        (Need("storage engine", "archive"), ""),
        (Need("storage engine", "rocksdb"), "needs the storage engine rocksdb, which the server lacked when"),
        (Need("storage engine", "federated"), "needs the storage engine federated, and a recovered server"),
        (
            Need("authentication plugin", "ed25519"),
            "the authentication plugin ed25519, which the server lacked",
        ),
        (Need("library", "here.so"), ""),
        (Need("library", "gone.so"), "needs gone.so, which is not in "),
        (Need("library", "/srv/elsewhere.so"), ""),
    ],
)
def test_what_a_recovered_server_lacks_is_known_by_its_backup_and_this_host(
    tmp_path: Path, need: Need, why: str
) -> None:
    (tmp_path / "here.so").touch()
    recorded = {"plugin_dir": str(tmp_path), "plugin_names": "archive federated innodb"}
    found = lacking(need, recorded)
    assert why in found and bool(why) is bool(found)
    assert lacking(need, {"plugin_dir": str(tmp_path / "other")}) == "", "nobody knows"
