"""Options for the plugins of a recorded server."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from zbackup.engines.mysql.binlog.required_plugins import Need
from zbackup.engines.mysql.server.plugins import lacking, not_here, options, plugins
from zbackup.engines.mysql.server.status import Dialect


def facts(*loaded: tuple[str, str, str | None], **variables: str) -> dict[str, str]:
    rows = [{"name": name, "kind": kind, "file": file} for name, kind, file in loaded]
    connection = cast(Any, SimpleNamespace(rows=lambda _: rows))
    return plugins(connection, Dialect("mysql", (9, 7, 0)), variables)


def test_a_clone_gets_what_its_data_need_and_nothing_that_watches_or_judges() -> None:
    recorded = facts(
        ("InnoDB", "STORAGE ENGINE", None),
        ("ngram", "FTPARSER", None),
        ("mecab", "FTPARSER", "libpluginmecab.so"),
        ("provider_lz4", "DAEMON", "provider_lz4.so"),
        ("audit_log", "AUDIT", "audit_log.so"),
        ("validate_password", "VALIDATE PASSWORD", "validate_password.so"),
        mecab_rc_file="/etc/mecabrc",
        sql_mode="",
    )
    assert recorded["plugins"] == "libpluginmecab.so;provider_lz4.so"
    assert recorded["plugin_names"] == "innodb mecab ngram"
    assert recorded["plugin_files"] == "mecab=libpluginmecab.so"
    assert recorded["mecab_rc_file"] == "/etc/mecabrc" and "sql_mode" not in recorded
    assert "--loose-mecab-rc-file=/etc/mecabrc" in options(recorded)
    bare = facts(("InnoDB", "STORAGE ENGINE", None), mecab_rc_file="")
    assert not bare.keys() & {"mecab_rc_file", "plugin_files", "plugins"}


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
        named = recorded | {"plugin_names": "rocksdb", "plugin_files": "rocksdb=ha_rocksdb.so"}
        assert lacking(Need("storage engine", "rocksdb"), named) == ""
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
        (Need("storage engine", "spider"), "the storage engine spider, whose ha_spider.so is not in "),
        (Need("full-text parser", "mecab"), ""),
        (Need("library", "here.so"), ""),
        (Need("library", "gone.so"), "needs gone.so, which is not in "),
        (Need("library", "/srv/elsewhere.so"), ""),
    ],
)
def test_what_a_recovered_server_lacks_is_known_by_its_backup_and_this_host(
    tmp_path: Path, need: Need, why: str
) -> None:
    (tmp_path / "here.so").touch()
    recorded = {"plugin_dir": str(tmp_path), "plugin_names": "archive federated innodb mecab spider"}
    recorded["plugin_files"] = "mecab=here.so;spider=ha_spider.so"
    found = lacking(need, recorded)
    assert why in found and bool(why) is bool(found)
    assert lacking(need, {"plugin_dir": str(tmp_path / "other")}) == "", "nobody knows"


@pytest.mark.parametrize(
    "unknown",
    [{"plugin_files": ""}, {"plugin_dir": ""}, {"plugin_dir": "/nowhere"}, {"plugin_files": "spider"}],
)
def test_a_plugin_that_the_server_had_is_lacking_only_where_its_library_is_known_to_be(
    tmp_path: Path, unknown: dict[str, str]
) -> None:
    """Backups of before have the names alone; another host may have its server elsewhere."""
    recorded = {"plugin_dir": str(tmp_path), "plugin_names": "spider", "plugin_files": "spider=ha_spider.so"}
    need = Need("storage engine", "spider")
    assert lacking(need, recorded | unknown) == "" != lacking(need, recorded)
