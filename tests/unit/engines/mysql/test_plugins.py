"""Options for the plugins of a recorded server."""

from pathlib import Path

from zbackup.engines.mysql.server.plugins import options


def test_only_libraries_that_are_installed_here_are_loaded(tmp_path: Path) -> None:
    (tmp_path / "provider_lz4.so").touch()
    recorded = {"plugin_dir": str(tmp_path), "plugins": "gone.so;provider_lz4.so"}
    assert list(options(recorded)) == ["--plugin-load-add=provider_lz4.so"]


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
