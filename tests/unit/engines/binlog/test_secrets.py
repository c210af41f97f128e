"""Logs of a MariaDB with passwords in them, as its server wrote them."""

from pathlib import Path

import pytest

from zbackup.engines.mysql.binlog.search_by_filter import search
from zbackup.model.log_entry import LogEntry, LogFilter

LOGS = sorted((Path(__file__).parent / "with_passwords").iterdir())


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_no_password_is_shown_and_each_is_found(log: Path) -> None:
    assert b"topSecret" in log.read_bytes()
    found = [each for each in search([log], LogFilter()) if isinstance(each, LogEntry)]
    assert len(found) > 1
    assert not [each for each in found if "topSecret" in each.text or "topSecret" in repr(each)]
    asked = [each for each in search([log], LogFilter(grep="TOPsecret")) if isinstance(each, LogEntry)]
    assert asked and all("'***'" in each.text and "topSecret" in each.logged for each in asked)
