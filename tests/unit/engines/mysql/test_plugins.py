"""Options for the plugins of a recorded server."""

import errno
import os
from pathlib import Path
from typing import Any

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


def test_nobody_knows_what_is_in_a_directory_that_may_not_be_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon's user looks after every backup, and the server's may be able to enter it."""
    stat = Path.stat

    def refuses(path: Path, **how: Any) -> os.stat_result:
        if tmp_path in path.parents:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return stat(path, **how)

    monkeypatch.setattr(Path, "stat", refuses)
    for directory in (tmp_path, tmp_path / "plugin"):
        recorded = {"plugin_dir": str(directory), "plugins": "ha_rocksdb.so"}
        assert lacking(Need("library", "udf.so"), recorded) == ""
        assert list(options(recorded)) == ["--plugin-load-add=ha_rocksdb.so"]
        assert list(not_here(recorded)) == []


def test_a_name_that_no_file_can_have_is_no_failure(tmp_path: Path) -> None:
    assert lacking(Need("library", "x" * 300), {"plugin_dir": str(tmp_path)}) == ""


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
