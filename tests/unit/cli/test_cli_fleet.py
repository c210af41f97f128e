"""A fleet as people read it, and what is no address."""

from dataclasses import replace
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from tests.unit.cli.test_cli_main import invoke
from tests.unit.web.host import fleet
from zbackup.config.load import parse
from zbackup.destinations.copies import MOST_INSTANCES
from zbackup.features.fleet.command import render
from zbackup.model.errors import ConfigError


def test_a_table_with_the_worst_first_and_what_is_wrong() -> None:
    lines = render(fleet(), ZoneInfo("UTC")).splitlines()
    told = [line.split()[:3] for line in lines[1:4]]
    assert told == [
        ["critical", "vault/backups/db7", "docs"],
        ["critical", "vault/backups/db2", "shop"],
        ["ok", "vault/backups/db1", "shop"],
    ]
    assert lines[4:] == [
        "db7/docs: nothing can be restored",
        "db2/shop: 2 days would be lost, and 26 h is the most",
    ]


def test_hostile_names_move_no_cursor() -> None:
    evil = "\x1b[2Jx"
    bad = replace(fleet().members[0], path=evil, problems=(evil,))
    text = render(replace(fleet(), members=(bad,), unreachable=((evil, evil),)), ZoneInfo("UTC"))
    assert "\x1b" not in text


def test_where_nothing_is_received_nothing_is_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("zbackup.features.fleet.command.of_dataset", lambda *_: ([], 0))
    assert invoke(["fleet", "tank/b"]) == 4
    assert "no backup below tank/b" in capsys.readouterr().err


def test_an_address_that_tells_no_more_names_may_hide_some(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = replace(fleet().members[-1], problems=())
    monkeypatch.setattr("zbackup.features.fleet.command.of_address", lambda *_: [one] * MOST_INSTANCES)
    assert invoke(["fleet", "zfs:tank/b"]) == 1
    assert "and at least 1 more" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["tank/b", "--key", "/x"],
        ["tank/b@snap"],
        ["/tank/b"],
        ["s3:/x"],
        ["tank/b", "--max-age", "soon"],
        ["zfs:tank/b", "--endpoint", "https://x"],
    ],
)
def test_what_is_no_address_is_refused(words: list[str]) -> None:
    assert invoke(["fleet", *words]) == 2


def test_where_nothing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "c.toml"
    config.write_text('[instance.shop]\nengine = "mysql"\ndatasets = ["tank/db"]\n')
    assert invoke(["--config", str(config), "fleet"]) == 4
    assert "[web] fleet" in capsys.readouterr().err


def test_a_host_that_only_receives_needs_no_instance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = '[web]\nfleet = ["tank/backups"]\nfleet_max_age = "26h"\n'
    found = parse(text)
    assert (found.instance, found.web.fleet, found.web.fleet_max_age) == ({}, ("tank/backups",), 26 * 3600.0)
    for bad in ("[web]\nfleet = []\n", '[web]\nfleet = ["a@b"]\n', "[web]\nclones = true\n"):
        with pytest.raises(ConfigError):
            parse(bad)
    config = tmp_path / "c.toml"
    config.write_text(text)
    for command in (["snapshot"], ["status"], ["restore", "--to", "now"], ["clone", "list"], ["list"]):
        assert invoke(["--config", str(config), *command]) == 4
        assert "no instance" in capsys.readouterr().err
