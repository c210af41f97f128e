"""Messages when the look for a transaction leads nowhere."""

from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest

from tests.unit.samples import backup
from zbackup.catalog.local import Catalog
from zbackup.engines.mongodb.recovery.log_search import MongoLogSearch
from zbackup.jobs.context import Context
from zbackup.jobs.restore.locate_transaction import locate, locate_in
from zbackup.model.backup import Backup
from zbackup.model.errors import NotRecoverable, UsageError
from zbackup.model.transaction_name import parse_transaction


def test_a_log_that_is_purged_meanwhile_is_no_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(*_: object) -> None:
        raise FileNotFoundError(2, "No such file or directory", "binlog.000001")

    monkeypatch.setattr(Backup, "browse", lambda *_: None)
    held = backup(1, 7, 7, log_id="a", log_from="binlog.000001:4", log_to="binlog.000001:20")
    catalog = Catalog((), (held,), cast(Any, ()))
    search = SimpleNamespace(find=find, check_name=lambda _: None)
    ctx = cast(Context, SimpleNamespace(log_search=search, zone=ZoneInfo("UTC")))
    with pytest.raises(NotRecoverable, match=r"cannot be searched for .*binlog\.000001'; if it was purged"):
        locate_in(ctx, parse_transaction("0-1-5"), catalog)


def test_no_transaction_of_a_binlog_is_in_an_oplog() -> None:
    search = MongoLogSearch(recovery=cast(Any, None))
    ctx = cast(Context, SimpleNamespace(log_search=search))
    with pytest.raises(UsageError, match="entries have cluster times: SECONDS,INCREMENT"):
        locate(ctx, parse_transaction("0-1-7"))
