from pathlib import Path

import pytest

from zbackup.config.tls import Tls
from zbackup.engines.mysql.lock.applier import marker_file
from zbackup.engines.mysql.lock.long_queries import is_select
from zbackup.engines.mysql.lock.watchdog_message import WatchOrder
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.model.errors import DatabaseError


def test_an_order_survives_the_pipe_on_one_line() -> None:
    order = WatchOrder(
        connect=ConnectOptions(host="db", user="u", password=lambda: "p\n'ä", tls=Tls(ca=Path("/ca"))),
        channels=("", "east"),
        note=Path("/run/n"),
        limit_s=9.5,
    )
    line = order.to_line()
    assert "\n" not in line
    read = WatchOrder.from_line(line)
    assert read.connect.password() == "p\n'ä"
    assert (read.connect.host, read.connect.tls) == ("db", Tls(ca=Path("/ca")))
    assert (read.channels, read.note, read.limit_s) == (("", "east"), Path("/run/n"), 9.5)
    assert "ä" not in repr(read)


def test_a_note_tells_which_channels_ran(tmp_path: Path) -> None:
    note = marker_file(tmp_path / "run" / "a.applier-stopped")
    assert note.read() is None
    note.write(["", "east"])
    assert note.read() == ["", "east"]
    assert note.path.read_text() == '{"channels": ["", "east"]}', "as every version writes and reads it"
    note.remove()
    note.remove()
    assert note.read() is None


@pytest.mark.parametrize("text", ["{", "[]", "{}", "[" * 100_000])
def test_a_damaged_note_is_not_taken_for_none(tmp_path: Path, text: str) -> None:
    note = marker_file(tmp_path / "n")
    note.path.write_text(text)
    with pytest.raises(DatabaseError, match="delete it"):
        note.read()


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("select 1", True),
        (" ( SELECT 1) UNION (SELECT 2)", True),
        ("/* app */ -- x\n SELECT 1", True),
        ("SELECTED", False),
        ("/*!50000 UPDATE */ t", False),
        ("WITH x AS (SELECT 1) DELETE FROM t", False),
        ("UPDATE t SET a = (SELECT 1)", False),
        ("--\n-- report\n--\nSELECT 1", True),
        ("--\nDELETE FROM t WHERE a IN (\nSELECT 1)", False),
        ("/*M!100101 DELETE FROM t WHERE a IN ( */ SELECT 1)", False),
        pytest.param("/**/" * 1000 + "SELECT 1", True, id="comments SELECT"),
        # One who tries all ways to take these for comments does so for ever.
        pytest.param("/**/" * 1000 + "DO SLEEP(99)", False, id="comments DO"),
    ],
)
def test_what_counts_as_reading(text: str, reads: bool) -> None:
    assert is_select(text) == reads
