"""Facts that are recorded of a running server."""

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from zbackup.engines.mysql.server import server_facts
from zbackup.engines.mysql.server.server_facts import recorded


def test_relative_paths_are_those_of_the_data_directory(tmp_path: Path) -> None:
    """And not of the directory that zbackup was started in."""
    real, log = tmp_path / "real", tmp_path / "log dir"
    for directory in (real, log):
        directory.mkdir()
    (tmp_path / "data").symlink_to(real)
    variables = {
        "datadir": f"{tmp_path}/data/",
        "log_bin_basename": f"{tmp_path}/data/../log dir/binlog",
        "log_bin_index": "../log dir/binlog.index",
    }
    found = recorded(variables, "")
    assert found["datadir"] == str(real)
    assert found["log_bin_basename"] == f"{log}/binlog"
    assert found["log_bin_index"] == f"{log}/binlog.index"


def test_what_is_unset_stays_so(tmp_path: Path) -> None:
    assert recorded({"datadir": str(tmp_path), "log_bin_index": ""}, "")["log_bin_index"] == ""


def test_directories_are_recorded_without_links(tmp_path: Path) -> None:
    """A recovered server does not see the links that the original was started with."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    variables = {
        "datadir": f"{tmp_path}/link/",
        "aria_log_dir_path": f"{tmp_path}/link/",
        "innodb_log_group_home_dir": f"{tmp_path}/link/redo",
        "innodb_undo_directory": "./",
        "innodb_data_home_dir": "",
        "innodb_directories": f"{tmp_path}/link/more;{tmp_path}/else",
    }
    found = recorded(variables, "")
    assert found["aria_log_dir_path"] == f"{tmp_path}/real/"
    assert found["innodb_log_group_home_dir"] == f"{tmp_path}/real/redo"
    assert found["innodb_directories"] == f"{tmp_path}/real/more;{tmp_path}/else"
    assert (found["innodb_undo_directory"], found["innodb_data_home_dir"]) == ("./", "")


@pytest.mark.parametrize(
    ("host", "shown", "known"),
    [
        ("Europe/Berlin", "CET", "Europe/Berlin"),
        ("Europe/Berlin", "CEST", "Europe/Berlin"),
        ("Etc/UTC", "UTC", "Etc/UTC"),
        ("Europe/Berlin", "IST", ""),
        ("Europe/Berlin", "", ""),
    ],
)
def test_the_zone_of_the_host_is_recorded_where_the_server_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, shown: str, known: str
) -> None:
    """A daemon that is not root cannot see the server's environment, and none of it says so as a rule."""
    monkeypatch.setattr(server_facts, "host_zone", lambda: ZoneInfo(host))
    found = recorded({"datadir": str(tmp_path), "system_time_zone": shown}, "")
    assert found.get("localtime", "") == known


def test_a_zone_that_has_no_name_is_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/usr/share/zoneinfo/Europe/Berlin").open("rb") as file:
        copied = ZoneInfo.from_file(file, key="local time")
    monkeypatch.setattr(server_facts, "host_zone", lambda: copied)
    assert "localtime" not in recorded({"datadir": str(tmp_path), "system_time_zone": "CET"}, "")
