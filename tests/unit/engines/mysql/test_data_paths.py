from pathlib import Path

from zbackup.engines.mysql.server.inspect import data_paths, system_files


def test_every_place_once_and_without_links(tmp_path: Path) -> None:
    data, logs, fast = tmp_path / "data", tmp_path / "logs", tmp_path / "fast"
    for directory in (data / "shop", logs, fast / "moved", fast / "table"):
        directory.mkdir(parents=True)
    (data / "moved").symlink_to(fast / "moved")
    (fast / "table" / "t.MYD").touch()
    (data / "shop" / "t.MYD").symlink_to(fast / "table" / "t.MYD")
    (tmp_path / "name").symlink_to(data)
    variables = {
        "datadir": f"{tmp_path}/name/",
        "innodb_log_group_home_dir": "./",
        "innodb_undo_directory": "undo",
        "innodb_doublewrite_dir": "",
        "innodb_data_file_path": f"ibdata1:12M;{fast}/ibdata2:12M:autoextend",
        "log_bin_basename": f"{logs}/binlog",
        "log_bin_index": f"{logs}/binlog.index",
        "relay_log_basename": "/elsewhere/relay",
    }
    found = data_paths(variables, is_replica=False, outside=["/far/x.ibd"])
    paths = [p.path for p in found]
    assert paths[0] == str(data)
    assert set(paths) == {
        str(p)
        for p in (
            data,
            data / "undo",
            fast,
            logs,
            Path("/far/x.ibd"),
            fast / "moved",
            fast / "table" / "t.MYD",
        )
    }
    assert len(paths) == len(set(paths))
    replica = data_paths(variables, is_replica=True, outside=[])
    assert "/elsewhere" in {p.path for p in replica}


def test_system_tablespace_files() -> None:
    assert system_files("ibdata1:12M;ibdata2:50M:autoextend:max:1G") == ["ibdata1", "ibdata2"]
    assert system_files("") == []
