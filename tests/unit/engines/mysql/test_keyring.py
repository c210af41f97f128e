"""A recovered server's copy of the keys."""

import os
from pathlib import Path
from typing import Any

import pytest

from zbackup.engines.mysql.clone.keyring import own_copy
from zbackup.model.errors import Refused

ME = (os.getuid(), os.getgid())


def test_it_is_made_once_and_shown_in_place_of_the_original(tmp_path: Path) -> None:
    original, directory = tmp_path / "keys" / "file", tmp_path / "copy"
    original.parent.mkdir()
    original.write_text("first")
    server = {"keyring_file": str(original)}
    bind = ((str(directory), str(original.parent)),)
    assert own_copy(server, ["/tank/mysql"], directory, ME) == bind
    assert (directory / "file").read_text() == "first"
    assert (directory / "file").stat().st_mode & 0o777 == 0o600
    original.write_text("second")
    assert own_copy(server, ["/tank/mysql"], directory, ME) == bind
    assert [path.name for path in directory.iterdir()] == ["file"]
    assert (directory / "file").read_text() == "first"


def test_without_a_keyring_or_with_one_that_is_cloned_there_is_none(tmp_path: Path) -> None:
    assert own_copy({}, ["/tank/mysql"], tmp_path, ME) == ()
    assert own_copy({"keyring_file": "/tank/mysql/keys/file"}, ["/tank/mysql"], tmp_path, ME) == ()


def test_what_cannot_be_copied_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="is gone"):
        own_copy({"keyring_file": str(tmp_path / "keys" / "file")}, [], tmp_path / "copy", ME)
    with pytest.raises(Refused, match="a directory of its own"):
        own_copy({"keyring_file": "/etc/keys"}, [], tmp_path / "copy", ME)


def test_a_link_in_the_copys_place_is_not_followed(tmp_path: Path) -> None:
    """The copy's directory is the server's user's: he may put links there, and did so before."""
    original, directory, canary = tmp_path / "keys" / "file", tmp_path / "copy", tmp_path / "canary"
    original.parent.mkdir()
    original.write_text("keys")
    canary.write_text("root's")
    canary.chmod(0o644)
    directory.mkdir()
    for name in ("file.begun", "file.new"):
        (directory / name).symlink_to(canary)
    own_copy({"keyring_file": str(original)}, ["/tank/mysql"], directory, ME)
    assert (directory / "file").read_text() == "keys" and not (directory / "file").is_symlink()
    assert canary.read_text() == "root's" and canary.stat().st_mode & 0o777 == 0o644


@pytest.mark.skipif(os.geteuid() != 0, reason="root reads what others may not")
def test_only_what_the_servers_user_may_read_is_copied(tmp_path: Path) -> None:
    """The record that names the keyring may be anybody's."""
    for directory in (tmp_path, *list(tmp_path.parents)[:-2]):
        directory.chmod(directory.stat().st_mode | 0o011)
    key = tmp_path / "ssh" / "x_key"
    key.parent.mkdir()
    key.write_text("a private key of root's")
    key.chmod(0o600)
    with pytest.raises(Refused, match=r"user id 27\) cannot read the keyring .*x_key: Permission denied"):
        own_copy({"keyring_file": str(key)}, [], tmp_path / "copy", (27, 27))
    assert not (tmp_path / "copy").exists()
    os.chown(key, 27, 27)
    own_copy({"keyring_file": str(key)}, [], tmp_path / "copy", (27, 27))
    assert (tmp_path / "copy" / "x_key").stat().st_uid == 27


@pytest.mark.timeout(20)
def test_a_fifo_as_keyring_hangs_nobody(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    os.mkfifo(tmp_path / "keys" / "file")
    with pytest.raises(Refused, match="is no regular file"):
        own_copy({"keyring_file": str(tmp_path / "keys" / "file")}, [], tmp_path / "copy", ME)


@pytest.mark.parametrize("path", ["/etc/ssh/..", "/etc/ssh/../x", "relative/a/b/file"])
def test_a_path_that_leads_elsewhere_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(Refused, match="a directory of its own"):
        own_copy({"keyring_file": path}, [], tmp_path / "copy", ME)


@pytest.mark.parametrize("place", ["/usr/lib/keys", "/lib/x/keys", str(Path(os.__file__).parent / "keys")])
def test_a_record_puts_nothing_in_the_place_of_programs(place: str, tmp_path: Path) -> None:
    """Root looks for modules of Python there, in the server's namespace, before it is the server's user."""
    with pytest.raises(Refused, match="where programs are"):
        own_copy({"keyring_file": place}, [], tmp_path / "copy", (12345, 12345))


def test_a_keyring_below_a_server_s_own_programs_is_the_server_s(tmp_path: Path, monkeypatch: Any) -> None:
    original = tmp_path / "local" / "keys" / "file"
    original.parent.mkdir(parents=True)
    original.write_text("keys")
    monkeypatch.setattr("zbackup.engines.mysql.clone.keyring.PROGRAMS", (str(tmp_path / "local"),))
    assert own_copy({"keyring_file": str(original)}, [], tmp_path / "copy", ME)
