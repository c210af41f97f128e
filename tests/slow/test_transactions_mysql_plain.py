"""Every kind of transaction, replayed on MySQL 9.7 without GTIDs, which then come; and a reset of its log."""

import pytest

from tests.system.conftest import house
from tests.system.house import House, Variant, checksums, next_second
from tests.system.log_story import SHOP, ImportStory, OpenTemporaryStory, ResetStory
from tests.system.transactions_story import OPTIONS, TransactionsStory, history

__all__ = ["history", "house"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mysql-9.7", gtid=False, options=OPTIONS)


class TestTransactions(TransactionsStory):
    """See TransactionsStory."""


class TestImport(ImportStory):
    """See ImportStory."""


class TestOpenTemporary(OpenTemporaryStory):
    """See OpenTemporaryStory."""


def test_gtids_that_were_switched_on_after_the_base(house: House) -> None:
    server = house.server
    base = house.snapshot()
    server.sql("UPDATE shop.customers SET email = CONCAT('anonymous', id)")
    server.sql("SET GLOBAL enforce_gtid_consistency = ON")
    for mode in ("OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"):
        server.sql(f"SET GLOBAL gtid_mode = {mode}")
        server.sql("DELETE FROM shop.orders ORDER BY id LIMIT 1")
    moment = next_second()
    sums = server.checksum(SHOP)
    server.sql("DELETE FROM shop.orders")
    report = house.restore(moment, "switched-on")
    assert report["base"]["backup"] == base["backup"]
    with house.clone(report) as clone:
        assert checksums(clone, list(sums)) == sums
    house.destroy("switched-on")


class TestReset(ResetStory):
    """See ResetStory."""
