"""`zbackup init`'s command line: what makes no sense is refused before anything is looked at, in one line."""

import os
from pathlib import Path

import pytest

from zbackup.cli.main import invoke
from zbackup.features.init.draft import Draft, known_hosts_line, named
from zbackup.features.init.finish import Finished
from zbackup.model.errors import Refused, UsageError

KEY = "ssh-ed25519 " + "A" * 68


@pytest.fixture(autouse=True)
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


PUBLIC = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"
PRIVATE = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["init"], "add --yes and the options"),
        (["init", "--yes", "--retention", "forever"], "choose one of short, standard, long"),
        (["init", "--yes", "--copies", "tape"], '"tape" is not an address such as'),
        (["init", "--yes", "--copies", "zfs:other/b", "--host-key", KEY], "--host-key is for copies by ssh"),
        (["init", "--yes", "--copies", "ssh://a@b/c/d", "--host-key", "nonsense"], "that is no public key"),
        (["init", "--yes", "--endpoint", "https://s3.here"], "are for copies in a bucket"),
        (["init", "--yes", "--copies", "zfs:o/b", "--access-key", "AKIA"], "are for copies in a bucket"),
        (["init", "--yes", "--copies", "s3://bkt/p", "--access-key", "AKIA"], "belong together"),
        (
            ["init", "--yes", "--copies", "s3://bkt/p", "--endpoint", "here"],
            '"here" is not an address such as',
        ),
        (["init", "--yes", "--copies", "zfs:o/b", "--public-key", PUBLIC], "are for copies in a bucket"),
        (["init", "--yes", "--copies", "s3://bkt/p", "--public-key", PUBLIC[:-1]], "it is mistyped"),
        (["init", "--yes", "--copies", "s3://bkt/p", "--public-key", PRIVATE], "this is a private key"),
        (["init", "--yes", "--instance", "shop"], "is not NAME=WHERE"),
        (["init", "--yes", "--instance", "Shop=/x"], "is not NAME=WHERE"),
        (["init", "--yes", "--instance", "a=/x", "--instance", "a=/y"], "a name and a server of its own"),
        (["init", "--yes", "--quota", "1T"], "add --receive"),
        (["init", "--yes", "--admin-password-file", "/root/x"], "needs --admin-user"),
        (["init", "--yes", "--admin-user", "a", "--admin-password-file", "/root/x"], "add --instance"),
        (["init", "--receive", "--yes"], "--receive needs --dataset"),
        (["init", "--receive", "--yes", "--dataset", "tank"], "is no dataset for copies"),
        (["init", "--receive", "--yes", "--dataset", "tank/a b"], "is no dataset for copies"),
        (["init", "--receive", "--yes", "--dataset", "tank/a", "--user", "a b"], "is no name for a user"),
        (["init", "--receive", "--yes", "--dataset", "tank/a", "--quota", "much"], '"much" is no size'),
        (["init", "--receive", "--yes", "--dataset", "tank/a", "--key", "/nowhere.pub"], "cannot be read"),
    ],
)
def test_what_makes_no_sense_is_refused(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.toml"
    assert invoke(["--config", str(config), *words]) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.splitlines()) == 1 and PRIVATE not in error
    assert list(tmp_path.iterdir()) == []


def test_a_configuration_that_is_wrong_is_not_added_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[instance.shop]\nengine = 'oracle'\n")
    assert invoke(["--config", str(config), "init", "--yes"]) == 2
    assert "config.toml:2: instance.shop.engine" in capsys.readouterr().err
    assert config.read_text() == "[instance.shop]\nengine = 'oracle'\n"


@pytest.mark.parametrize(
    "words", [["init", "--yes"], ["init", "--receive", "--dataset", "a/b"], ["install-service"]]
)
def test_it_is_for_root(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert invoke(words) == 9
    assert "as root" in capsys.readouterr().err


def test_servers_are_named_by_where_they_are() -> None:
    assert named(["shop=/run/a=b.sock", "carts=127.0.0.1:27017"]) == {
        "/run/a=b.sock": "shop",
        "127.0.0.1:27017": "carts",
    }


@pytest.mark.parametrize(
    ("to", "line"),
    [
        ("ssh://zrecv@vault/tank/b", f"vault {KEY}\n"),
        ("ssh://zrecv@vault:22/tank/b", f"vault {KEY}\n"),
        ("ssh://zrecv@vault:2222/tank/b", f"[vault]:2222 {KEY}\n"),
    ],
)
def test_another_host_s_key_is_known_under_its_address(to: str, line: str) -> None:
    assert known_hosts_line(to, KEY) == line


def test_a_bucket_has_no_host_key() -> None:
    with pytest.raises(UsageError):
        known_hosts_line("s3://bucket/x", KEY)


def test_what_keeps_the_daemon_from_its_work_is_in_the_json_too() -> None:
    problems = (Refused("shop: on two pools"),)
    plan = Draft(newcomers=(), problems=problems, advice=(), left=("carts: left out",))
    finished = Finished(failed=[Refused("blog: the daemon\ncannot do its work")])
    said = ["blog: the daemon cannot do its work", "shop: on two pools", "carts: left out"]
    assert finished.not_protected(plan) == said
