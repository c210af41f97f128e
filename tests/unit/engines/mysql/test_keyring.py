"""A recovered server's copy of the keys."""

import os
from pathlib import Path

import pytest

from zbackup.engines.mysql.keyring import own_copy
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
