"""Bad days of MySQL."""

import pytest

from tests.system.bad_days import BadDays, full, nothing_left, sums
from tests.system.house import House, Variant

__all__ = ["nothing_left", "sums"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mysql-9.7")


class TestBadDays(BadDays):
    """See BadDays."""

    # MariaDB itself does not survive a pool without any room.
    def test_a_pool_that_is_full_takes_no_snapshot_and_keeps_no_lock(
        self, house: House, sums: dict[str, int | None]
    ) -> None:
        before = house.names()
        with full(house, 0):
            text = house.zb("-q", "snapshot", config=house.home / "ftwrl.toml").refused(3)
            assert "out of space" in text or "no space" in text
        assert house.sessions() == []
        assert house.names() == before
        house.server.sql("FLUSH TABLES")
