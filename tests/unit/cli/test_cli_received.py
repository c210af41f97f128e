"""Received backups as people and scripts read them, and where a host is pointed to them."""

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from tests.unit.reports import RECEIVED
from zbackup.cli import received
from zbackup.cli.main import invoke


def test_for_people() -> None:
    assert received.render(RECEIVED, ZoneInfo("UTC")).splitlines() == [
        "Received below tank/b: critical",
        "  critical: backups: there is none",
        "      $ zbackup ship docs",
        "  shop        2 backups in tank/b/shop, newest zbackup-2, 1 h 0 min old, "
        "data as of 2024-05-01 13:00:00 UTC",
        "  docs        no backup in tank/b/docs",
        "  shop log    3 archived files, 2.0 GiB (1.0 GiB on disk), up to 5.0 s ago",
        "  arriving    tank/b/docs/data: a stream is under way or was cut off",
        "  prune here  shop: 1 due; prune:here last success 2024-05-01 12:00:00 UTC",
        "  space       3.0 GiB used, 5.0 GiB available; tank is ONLINE and has 50.0 GiB free (50%)",
    ]


def test_for_scripts_every_key_is_documented() -> None:
    shape = received._shape(RECEIVED)
    assert (shape["health"], shape["instances"][0]["backups"]) == ("critical", 2)
    assert shape["instances"][0]["age_seconds"] == 3600 and shape["instances"][1]["newest"] is None
    assert shape["prune"][0]["due"] == ["zbackup-1"]
    page = (Path(__file__).parents[3] / "docs/reference/json.md").read_text()
    section = page.partition("## received\n")[2].partition("\n## ")[0]
    for key in (
        *shape,
        *shape["instances"][0],
        *shape["prune"][0],
        *shape["space"],
        *shape["held"][0],
        *shape["archived_log"][0],
    ):
        assert f"`{key}`" in section, key


@pytest.mark.parametrize("text", ["soon", "never", "-1h"])
def test_an_age_that_is_none_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["received", "tank/b", f"--max-age={text}"]) == 2
    assert "is no length of time" in capsys.readouterr().err


def test_a_host_that_receives_nothing_is_told_how(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "zbackup.toml"
    config.write_text(
        '[instance.shop]\nengine = "mysql"\ndatasets = ["tank/mysql"]\n'
        '[[instance.shop.ship]]\nto = "ssh://vault/tank"\n'
    )
    assert invoke(["--config", str(config), "received"]) == 4
    assert "zbackup received tank/backups" in capsys.readouterr().err
