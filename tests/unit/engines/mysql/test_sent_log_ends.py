"""A server that sends less of its encrypted log than it has is not believed that this was all."""

import struct
from pathlib import Path

import pytest

from tests.unit.engines.mysql.sent import SealedServer, Session, copy_of, held, require_same, summed
from zbackup.engines.mysql.binlog.events import FORMAT_DESCRIPTION
from zbackup.model.errors import DatabaseError, VerificationFailed


@pytest.fixture(params=[False, True], ids=["mysql", "mariadb"])
def server(tmp_path: Path, request: pytest.FixtureRequest) -> SealedServer:
    return SealedServer(tmp_path, request.param)


def test_a_server_that_says_too_early_that_this_was_all_is_asked_again(
    server: SealedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does that shuts down, or where somebody ends the session's statement: a copy that ends there
    would be taken for all there is."""
    monkeypatch.setattr("zbackup.engines.mysql.plain_log.plain_log._AGAIN_S", (0.0, 0.0))
    server.commit()
    copy_of(server).catch_up()
    for ended in range(12):
        for _ in range(3):
            server.commit(300)
        server.rotate()
        server.commit()
        server.ended = [ended, 4]
        end = copy_of(server).catch_up()
        assert str(end) == f"{max(server.plain())}:{len(server.plain()[max(server.plain())])}"
        require_same(server)


def test_a_server_that_does_not_send_all_it_has_is_an_error(
    server: SealedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zbackup.engines.mysql.plain_log.plain_log._AGAIN_S", (0.0, 0.0))
    copy_of(server).catch_up()
    for _ in range(9):
        server.commit(300)
    server.ended = [8] * 3
    with pytest.raises(DatabaseError, match=r"sent its log up to binlog\.000001:\d+ only, and it ends at"):
        copy_of(server).catch_up()
    copy_of(server).catch_up()
    require_same(server)


def test_a_reset_while_it_is_read_is_no_end_that_lacks(
    server: SealedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zbackup.engines.mysql.plain_log.plain_log._AGAIN_S", (0.0,))
    server.commit(300)
    asked = Session.files

    def reset(session: Session) -> list[str]:
        """Between the question for the log's end and what is read then."""
        monkeypatch.setattr(Session, "files", asked)
        server.reset()
        return asked(session)

    monkeypatch.setattr(Session, "files", reset)
    copy_of(server).catch_up()
    require_same(server)


def test_a_head_that_is_none_is_one_error(server: SealedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.commit()
    head = summed(struct.pack("<IBIIIH", 1, FORMAT_DESCRIPTION, 1, 23, 27, 0))
    monkeypatch.setattr(Session, "_events", lambda *_: iter([head]))
    with pytest.raises(VerificationFailed, match="is no head of a file"):
        copy_of(server).catch_up()
    assert not held(server)
