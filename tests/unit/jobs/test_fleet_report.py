"""A report by somebody with the credentials, kept for a page whose reader has none."""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.cli.test_cli_main import invoke
from tests.unit.fleets import Receiver
from zbackup.config.load import parse
from zbackup.features.fleet import command as command
from zbackup.features.fleet import report_file
from zbackup.features.webpage import reader
from zbackup.model.errors import Refused
from zbackup.model.fleet import Fleet, FleetMember
from zbackup.plan.due import CLOCK_TOLERANCE
from zbackup.zfs.datasets import Zfs

NOW = datetime.now(UTC)
HOUR = timedelta(hours=1)
SEEN = Fleet(
    looked=NOW,
    members=(
        FleetMember(
            address="s3://backups", path="", instance="shop", backups=3, newest="z-3", taken=NOW - HOUR
        ),
    ),
)
NAIVE = replace(SEEN.members[0], archived=NOW.replace(tzinfo=None))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "fleet" / "bucket.json"


def test_what_was_written_is_read(file: Path) -> None:
    report_file.write(file, SEEN)
    assert report_file.read(file, NOW) == (SEEN, "")
    assert file.stat().st_mode & 0o777 == 0o640
    assert report_file.read(file, NOW + 25 * HOUR) == (
        SEEN,
        "the report is more than a day old: does its timer run?",
    )
    assert "still to come" in report_file.read(file, NOW - HOUR)[1]


def test_a_report_is_believed_for_a_day_and_from_a_clock_that_is_a_little_ahead(file: Path) -> None:
    report_file.write(file, SEEN)
    assert report_file.read(file, NOW + report_file.OLD) == (SEEN, "")
    assert report_file.read(file, NOW - CLOCK_TOLERANCE) == (SEEN, "")
    tick = timedelta(microseconds=1)
    assert report_file.read(file, NOW + report_file.OLD + tick)[1]
    assert report_file.read(file, NOW - CLOCK_TOLERANCE - tick)[1]


@pytest.mark.parametrize(("root", "group"), [(True, 4711), (False, os.getegid())])
def test_root_writes_it_for_the_user_of_the_page(
    file: Path, monkeypatch: pytest.MonkeyPatch, root: bool, group: int
) -> None:
    owners: list[tuple[int, int, int]] = []
    user = 0 if root else 1000
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(report_file.grp, "getgrnam", lambda _: SimpleNamespace(gr_gid=4711))
    monkeypatch.setattr(report_file.secure_files, "ensure_directory", lambda _: None)
    monkeypatch.setattr(
        report_file.secure_files, "replace", lambda *_, owner, mode: owners.append((*owner, mode))
    )
    report_file.write(file, SEEN)
    assert owners == [(user, group, 0o640)]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"looked": 1}', b"[" * 100_000])
def test_what_is_no_report_is_said(file: Path, content: bytes) -> None:
    report_file.write(file, SEEN)
    file.write_bytes(content)
    with pytest.raises(Refused, match="no report"):
        report_file.read(file, NOW)


@pytest.mark.parametrize(
    "told", [replace(SEEN, looked=NOW.replace(tzinfo=None)), replace(SEEN, members=(NAIVE,))]
)
def test_a_time_without_its_zone_is_no_time(file: Path, told: Fleet) -> None:
    report_file.write(file, told)
    with pytest.raises(Refused, match="without its zone"):
        report_file.read(file, NOW)


@pytest.mark.parametrize("mode", [0o660, 0o646, 0o666])
def test_a_report_that_others_may_write_is_not_believed(file: Path, mode: int) -> None:
    report_file.write(file, SEEN)
    file.chmod(mode)
    with pytest.raises(Refused, match="chmod go-w"):
        report_file.read(file, NOW)


def test_what_is_gone_since_does_not_look_well_until_its_report_is_old(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a bucket that somebody emptied: nobody may read of the backups that were in it."""
    there = Receiver()
    there.ship("db1", "shop", datetime.now(UTC) - HOUR)
    monkeypatch.setattr(command, "Zfs", lambda: Zfs(there, Path("/dev/null")))
    asked = ["fleet", "vault/backups", "--report", str(file)]
    assert invoke(asked) == 0
    settings = parse(f'[web]\nfleet_reports = ["{file}"]\n')
    assert command.configured(settings).health == "ok"
    there.lines.clear()
    assert invoke(asked) != 0
    found = command.configured(settings)
    assert (found.health, found.members) == ("critical", ())
    assert "no backup" in found.unreachable[0][1]

    def gone(*_: object, **__: object) -> str:
        raise Refused("cannot reach it: it is gone")

    monkeypatch.setattr(command, "Zfs", lambda: Zfs(gone, Path("/dev/null")))
    assert invoke(asked) != 0
    assert command.configured(settings).unreachable == (("vault/backups", "cannot reach it: it is gone"),)


def test_only_a_report_that_root_or_we_have_written_is_believed(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Refused, match="does its timer run"):
        report_file.read(file, NOW)
    report_file.write(file, SEEN)
    moved = file.rename(file.with_name("real"))
    file.symlink_to(moved)
    with pytest.raises(Refused):
        report_file.read(file, NOW)
    monkeypatch.setattr(report_file, "LIMIT", moved.stat().st_size)
    assert report_file.read(moved, NOW) == (SEEN, "")
    monkeypatch.setattr(report_file, "LIMIT", 10)
    with pytest.raises(Refused, match="more than 10 bytes"):
        report_file.read(moved, NOW)
    monkeypatch.undo()
    if os.geteuid() == 0:
        os.chown(moved, 65534, -1)
        with pytest.raises(Refused, match="belongs to user id 65534"):
            report_file.read(moved, NOW)


def test_from_an_address_to_the_page_of_a_host_without_its_credentials(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = Receiver()
    there.ship("db1", "shop", datetime.now(UTC) - 50 * HOUR)
    monkeypatch.setattr(command, "Zfs", lambda: Zfs(there, Path("/dev/null")))
    assert invoke(["fleet", "vault/backups", "--report", str(file)]) == 0
    text = f'[web]\nfleet_reports = ["{file}", "/nowhere/x.json"]\nfleet_max_age = "26h"\n'
    settings = parse(text)
    assert settings.instance == {}
    assert reader.overview(settings).fleet
    found = command.configured(settings)
    (shop,) = found.members
    assert (shop.path, shop.instance, shop.health) == ("db1", "shop", "critical")
    assert shop.problems == ("2 days would be lost, and 26 hours is the most",)
    assert [path for path, _ in found.reported] == [str(file)]
    assert found.unreachable == (("/nowhere/x.json", "nobody has written the report: does its timer run?"),)
    # It is judged again whenever somebody looks: what it says gets older.
    report_file.write(file, replace(SEEN, looked=NOW - 30 * HOUR))
    assert "more than a day old" in command.configured(settings).unreachable[0][1]
    config = file.with_name("c.toml")
    config.write_text(text)
    capsys.readouterr()
    assert invoke(["--config", str(config), "--json", "fleet"]) == 1
    data = json.loads(capsys.readouterr().out)["data"]
    assert data["reported"][0]["report"] == str(file)
    assert data["instances"][0]["address"] == "s3://backups"
    assert invoke(["fleet", "--report", str(file)]) == 2
