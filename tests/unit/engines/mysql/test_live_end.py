"""Reading the log that a server writes now behind the newest backup."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.engines.binlog.builder import Builder
from tests.unit.samples import PLAIN
from zbackup.engines.mysql.binlog.errors import DifferentLog
from zbackup.engines.mysql.binlog.events import FIRST_EVENT
from zbackup.engines.mysql.recovery import log_reader
from zbackup.engines.mysql.recovery.log_reader import damage
from zbackup.model.backup import BackupFiles
from zbackup.model.relocation import Relocation

NOW = 1_700_000_000
TORN = b"\x00\x11\x22\x33\xa2\x01\x00\x00\x00\xff\x00\x00\x00"


@pytest.fixture
def newest(tmp_path: Path) -> BackupFiles:
    """A backup that ends behind the second of four transactions of a log, of which the live one goes on."""
    builder = Builder(mariadb=True, checksum=True)
    for number in range(1, 5):
        builder.maria(NOW + number, number)
    for where in ("live", "held"):
        (tmp_path / where).mkdir()
        (tmp_path / where / "binlog.000001").write_bytes(bytes(builder.data))
        (tmp_path / where / "binlog.index").write_text("./binlog.000001\n")
    facts = {"log_bin_basename": "/live/binlog", "log_bin_index": "/live/binlog.index"}
    record = replace(PLAIN, log_to=f"binlog.000001:{builder.written[1].end}", server=facts)
    return BackupFiles(record, Relocation((("/live", str(tmp_path / "held")),)))


def live(tmp_path: Path) -> Relocation:
    return Relocation((("/live", str(tmp_path / "live")),))


def test_a_sound_log(newest: BackupFiles, tmp_path: Path) -> None:
    assert damage(newest, live(tmp_path), 0) == ()


def test_a_torn_end_that_nobody_goes_on_writing(newest: BackupFiles, tmp_path: Path) -> None:
    file = tmp_path / "live" / "binlog.000001"
    whole = file.stat().st_size
    file.write_bytes(file.read_bytes() + TORN)
    (said,) = damage(newest, live(tmp_path), 0)
    assert said.torn
    assert (
        said.what == f"binlog.000001 ends in the middle of an event, at {whole} of {whole + len(TORN)} bytes"
    )


def test_an_end_that_is_being_written(
    newest: BackupFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "live" / "binlog.000001"
    file.write_bytes(file.read_bytes() + TORN)
    monkeypatch.setattr(log_reader.time, "sleep", lambda _: file.write_bytes(file.read_bytes() + b"more"))
    assert damage(newest, live(tmp_path)) == ()


def test_a_changed_byte_in_the_middle(newest: BackupFiles, tmp_path: Path) -> None:
    file = tmp_path / "live" / "binlog.000001"
    data = bytearray(file.read_bytes())
    at = int(newest[0].log_to.partition(":")[2]) + 25
    data[at] ^= 0xFF
    file.write_bytes(bytes(data))
    (said,) = damage(newest, live(tmp_path), 0)
    assert "binlog.000001 is damaged at offset" in said.what and not said.torn


def test_a_file_that_is_not_the_newest_may_be_torn(newest: BackupFiles, tmp_path: Path) -> None:
    file = tmp_path / "live" / "binlog.000001"
    second = Builder(mariadb=True, checksum=True)
    second.maria(NOW + 9, 9)
    (tmp_path / "live" / "binlog.000002").write_bytes(bytes(second.data))
    (tmp_path / "live" / "binlog.index").write_text("./binlog.000001\n./binlog.000002\n")
    file.write_bytes(file.read_bytes() + TORN)
    assert damage(newest, live(tmp_path), 0) == ()


def test_what_lies_far_back_is_left_to_the_restore(newest: BackupFiles, tmp_path: Path) -> None:
    first = tmp_path / "live" / "binlog.000001"
    data = bytearray(first.read_bytes())
    data[int(newest[0].log_to.partition(":")[2]) + 25] ^= 0xFF
    second = Builder(mariadb=True, checksum=True)
    second.maria(NOW + 9, 9)
    (tmp_path / "live" / "binlog.000002").write_bytes(bytes(second.data))
    (tmp_path / "live" / "binlog.index").write_text("./binlog.000001\n./binlog.000002\n")
    first.write_bytes(bytes(data))
    assert len(damage(newest, live(tmp_path), 0)) == 1
    (said,) = damage(newest, live(tmp_path), 0, most=len(second.data))
    assert said.unread and "only the files after binlog.000001" in said.what
    # Nothing at all is read where the newest is too large for a quick look.
    (said,) = damage(newest, live(tmp_path), 0, most=1)
    assert said.unread and said.what == "it was not read, for it is large"


def test_another_log_is_not_called_damaged(newest: BackupFiles, tmp_path: Path) -> None:
    other = Builder(mariadb=True, checksum=True)
    for number in range(20):
        other.maria(NOW + 50 + number, 50 + number)
    (tmp_path / "live" / "binlog.000001").write_bytes(bytes(other.data))
    assert other.written[0].start > FIRST_EVENT
    with pytest.raises(DifferentLog):
        damage(newest, live(tmp_path), 0)


def with_second(tmp_path: Path) -> Builder:
    second = Builder(mariadb=True, checksum=True)
    second.maria(NOW + 9, 9)
    (tmp_path / "live" / "binlog.000002").write_bytes(bytes(second.data))
    (tmp_path / "live" / "binlog.index").write_text("./binlog.000001\n./binlog.000002\n")
    return second


def test_as_much_as_was_asked_for_is_read_to_the_last_byte(newest: BackupFiles, tmp_path: Path) -> None:
    second = with_second(tmp_path)
    behind = (tmp_path / "live" / "binlog.000001").stat().st_size - int(newest[0].log_to.partition(":")[2])
    assert damage(newest, live(tmp_path), 0, most=len(second.data) - FIRST_EVENT + behind) == ()
    (said,) = damage(newest, live(tmp_path), 0, most=len(second.data) - FIRST_EVENT + behind - 1)
    assert said.unread


def test_who_asks_for_nothing_special_gets_the_newest_and_more_while_it_is_cheap(
    newest: BackupFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_second(tmp_path)
    newer = tmp_path / "live" / "binlog.000002"
    newer.write_bytes(newer.read_bytes() + TORN)
    monkeypatch.setattr(log_reader, "MOST_READ", 1)
    unread, torn = damage(newest, live(tmp_path), 0)
    assert torn.torn and unread.what == "only the files after binlog.000001 were read, for it is large"


def test_what_the_backup_has_read_is_not_read_again(tmp_path: Path) -> None:
    """What is far in front of the backup's end, and in the files before that, is the backup's."""
    builder = Builder(mariadb=True, checksum=True)
    for number in range(1, 5):
        builder.maria(NOW + number, number, rows=1, size=80_000)
    for where in ("live", "held"):
        (tmp_path / where).mkdir()
        for number in (1, 2):
            (tmp_path / where / f"binlog.00000{number}").write_bytes(bytes(builder.data))
        (tmp_path / where / "binlog.index").write_text("./binlog.000001\n./binlog.000002\n")
    facts = {"log_bin_basename": "/live/binlog", "log_bin_index": "/live/binlog.index"}
    record = replace(PLAIN, log_to=f"binlog.000002:{builder.written[2].end}", server=facts)
    held = Relocation((("/live", str(tmp_path / "held")),))
    for number, at in ((1, 10_000), (2, 10_000)):
        file = tmp_path / "live" / f"binlog.00000{number}"
        data = bytearray(file.read_bytes())
        data[at] ^= 0xFF
        file.write_bytes(bytes(data))
    assert damage(BackupFiles(record, held), live(tmp_path), 0) == ()
