"""Root runs what nobody else can replace, and nothing else, whoever names it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from zbackup.model.errors import Refused
from zbackup.proc import programs
from zbackup.proc.programs import find_program, require_trusted, why_not_trusted

STRANGER = 12345


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def owners(rooted: Path, monkeypatch: pytest.MonkeyPatch) -> dict[Path, tuple[int, int]]:
    """Path -> (user, group) that it is to belong to: not everybody who runs this may give files away."""
    given: dict[Path, tuple[int, int]] = {}
    judged = programs._who_may_write

    def who_may_write(path: Path, facts: os.stat_result) -> str:
        values = list(facts)
        values[4:6] = given.get(path, (0, 0))
        return judged(path, os.stat_result(values))

    monkeypatch.setattr(programs, "_who_may_write", who_may_write)
    return given


def test_what_root_alone_can_change_is_trusted(rooted: Path, owners: dict[Path, tuple[int, int]]) -> None:
    assert why_not_trusted(str(program(rooted / "a" / "b" / "mysqld"))) == ""
    assert why_not_trusted("/usr/bin/env") == "", "on a machine as it should be"


Harm = Callable[[Path, dict[Path, tuple[int, int]]], None]


def given_away(path: Path, owners: dict[Path, tuple[int, int]]) -> None:
    owners[path] = (STRANGER, 0)


def to_a_group(path: Path, owners: dict[Path, tuple[int, int]]) -> None:
    owners[path] = (0, STRANGER)
    path.chmod(0o775)


def to_everybody(path: Path, owners: dict[Path, tuple[int, int]]) -> None:
    path.chmod(0o757)


def to_everybody_with_the_sticky_bit(path: Path, owners: dict[Path, tuple[int, int]]) -> None:
    path.chmod(0o1757)


HARMS = [given_away, to_a_group, to_everybody, to_everybody_with_the_sticky_bit]


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("which", ["a", "a/b", "a/b/mysqld"])
def test_one_that_somebody_else_can_change_is_not(
    harm: Harm, which: str, rooted: Path, owners: dict[Path, tuple[int, int]]
) -> None:
    """The file itself, or any directory above it."""
    file = program(rooted / "a" / "b" / "mysqld")
    harm(rooted / which, owners)
    assert str(rooted / which) in why_not_trusted(str(file))


def test_roots_group_and_another_group_that_may_not_write_are_no_harm(
    rooted: Path, owners: dict[Path, tuple[int, int]]
) -> None:
    file = program(rooted / "a" / "mysqld")
    file.parent.chmod(0o775)
    owners[file] = (0, STRANGER)
    file.chmod(0o750)
    assert why_not_trusted(str(file)) == ""


def test_an_access_list_may_name_anybody(
    rooted: Path, owners: dict[Path, tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = program(rooted / "a" / "mysqld")
    file.parent.chmod(0o775)
    monkeypatch.setattr(programs, "_has_access_list", lambda path: path == file.parent)
    assert "an access list" in why_not_trusted(str(file))


@pytest.mark.parametrize("harm", HARMS)
def test_a_link_is_followed_to_where_it_leads(
    harm: Harm, rooted: Path, owners: dict[Path, tuple[int, int]]
) -> None:
    file = program(rooted / "real" / "mysqld")
    (rooted / "bin").mkdir()
    (rooted / "bin" / "mysqld").symlink_to("../alternatives/mysqld")
    (rooted / "alternatives").mkdir()
    (rooted / "alternatives" / "mysqld").symlink_to(file)
    link = str(rooted / "bin" / "mysqld")
    assert why_not_trusted(link) == ""
    for directory in ("bin", "alternatives", "real"):
        owners.clear()
        for each in ("bin", "alternatives", "real"):
            (rooted / each).chmod(0o755)
        harm(rooted / directory, owners)
        assert str(rooted / directory) in why_not_trusted(link), directory


def test_a_link_that_is_a_directory_leads_elsewhere_too(
    rooted: Path, owners: dict[Path, tuple[int, int]]
) -> None:
    program(rooted / "theirs" / "bin" / "mysqld")
    (rooted / "opt").mkdir()
    (rooted / "opt" / "mysql").symlink_to(rooted / "theirs")
    owners[rooted / "theirs"] = (STRANGER, 0)
    assert f"{rooted / 'theirs'} belongs to user id {STRANGER}" in why_not_trusted(
        str(rooted / "opt" / "mysql" / "bin" / "mysqld")
    )
    above = f"{rooted}/opt/../theirs/bin/mysqld"
    assert str(rooted / "theirs") in why_not_trusted(above)


def test_links_in_a_circle_end(rooted: Path, owners: dict[Path, tuple[int, int]]) -> None:
    (rooted / "a").symlink_to("b")
    (rooted / "b").symlink_to("a")
    assert "too many links" in why_not_trusted(str(rooted / "a"))
    assert "no absolute path" in why_not_trusted("mysqld")


def test_what_a_stranger_has_is_not_even_looked_at(
    rooted: Path, owners: dict[Path, tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be a file system without an end below it, or a link to one."""
    theirs = rooted / "theirs"
    file = program(theirs / "bin" / "mysqld")
    owners[theirs] = (STRANGER, 0)
    seen: list[Path] = []
    lstat = Path.lstat
    monkeypatch.setattr(Path, "lstat", lambda path: (seen.append(path), lstat(path))[1])
    assert why_not_trusted(str(file))
    assert seen[-1] == theirs


def test_a_hint_is_used_when_it_stands_the_test(rooted: Path, owners: dict[Path, tuple[int, int]]) -> None:
    hint, system = program(rooted / "opt" / "mysqld"), program(rooted / "sbin" / "mysqld")
    found = find_program(None, ("mysqld",), str(hint), (str(rooted / "sbin"),))
    assert found == (str(hint),)
    owners[hint.parent] = (STRANGER, 0)
    assert find_program(None, ("mysqld",), str(hint), (str(rooted / "sbin"),)) == (str(system),)
    system.unlink()
    with pytest.raises(Refused) as refused:
        find_program(None, ("mysqld",), str(hint), (str(rooted / "sbin"),))
    assert str(refused.value) == (
        f"no mysqld found on this host ({hint} is not used: {hint.parent} belongs to user id {STRANGER}, and "
        "it and all directories above it must belong to root, and nobody else may write there): name "
        "it in recovery.server, or with --server"
    )


def test_where_none_is_there_no_directory_is_to_blame(
    rooted: Path, owners: dict[Path, tuple[int, int]]
) -> None:
    """As /usr/local on Debian, which a group may write to."""
    (rooted / "local").mkdir()
    owners[rooted / "local"] = (STRANGER, 0)
    with pytest.raises(Refused) as refused:
        find_program(None, ("mysqld",), str(rooted / "local" / "gone" / "mysqld"), (str(rooted / "local"),))
    assert str(refused.value) == "no mysqld found on this host: name it in recovery.server, or with --server"


@pytest.mark.parametrize("name", ["mysqld-x", "sh", "mysqld_safe"])
def test_a_hint_of_another_name_is_none(name: str, rooted: Path, owners: dict[Path, tuple[int, int]]) -> None:
    """Also where it is root's: nobody chooses which of root's programs is run."""
    hint = program(rooted / "opt" / name)
    with pytest.raises(Refused, match="no mysqld found"):
        find_program(None, ("mysqld",), str(hint), (str(rooted / "sbin"),))


def test_an_installed_one_has_to_stand_the_test_too(
    rooted: Path, owners: dict[Path, tuple[int, int]]
) -> None:
    local, system = program(rooted / "local" / "mysqld"), program(rooted / "sbin" / "mysqld")
    places = (str(rooted / "local"), str(rooted / "sbin"))
    owners[local.parent] = (STRANGER, 0)
    assert find_program(None, ("mysqld",), "", places) == (str(system),)


def test_a_configured_one_that_others_can_change_is_refused(
    rooted: Path, owners: dict[Path, tuple[int, int]]
) -> None:
    mine, wrapper = program(rooted / "mine" / "mysqld"), program(rooted / "bin" / "wrap")
    require_trusted([str(wrapper), "--option", "/no/such/file", str(mine)])
    owners[mine] = (STRANGER, 0)
    for words in ([str(mine)], [str(wrapper), str(mine)]):
        with pytest.raises(
            Refused, match=f"{mine} is not run: {mine} belongs to user id {STRANGER}, and it "
        ):
            find_program(words, ("mysqld",), "", ())


def test_a_directory_is_no_program(rooted: Path, owners: dict[Path, tuple[int, int]]) -> None:
    (rooted / "sbin" / "mysqld").mkdir(parents=True)
    with pytest.raises(Refused, match="no mysqld found on this host: name"):
        find_program(None, ("mysqld",), "", (str(rooted / "sbin"),))
