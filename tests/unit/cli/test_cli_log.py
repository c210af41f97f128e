"""Options of zbackup log."""

import pytest

from tests.unit.engines.binlog.test_secrets import LOGS
from zbackup.cli import log
from zbackup.cli.log_lines import entry_shape
from zbackup.engines.mysql.binlog.search_by_filter import search
from zbackup.model.errors import Refused, UsageError
from zbackup.model.log_entry import LogEntry, LogFilter


def test_statements_as_they_were_logged_are_for_root_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log.os, "geteuid", lambda: 0)
    log._require_root("full")
    with pytest.raises(UsageError, match="write --statements full"):
        log._require_root("all")
    monkeypatch.setattr(log.os, "geteuid", lambda: 4711)
    with pytest.raises(Refused, match="only root may use it"):
        log._require_root("full")


def test_they_replace_the_text_and_nothing_else_holds_them() -> None:
    found = [each for each in search(LOGS[:1], LogFilter()) if isinstance(each, LogEntry)]
    assert "topSecret" not in str([entry_shape(each) for each in found])
    full = [log._as_logged(each) for each in found]
    assert "topSecret" in str([entry_shape(each) for each in full if isinstance(each, LogEntry)])
