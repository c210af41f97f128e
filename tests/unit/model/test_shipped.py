"""Notes about destinations, and what is made of them when somebody else has written there."""

import pytest

from tests.unit.reports import a_backup
from zbackup.model.shipped import SHIPPED, arrived, arrived_of, to_text


def test_what_is_written_is_read_again() -> None:
    newest = arrived_of(a_backup())
    properties = {f"{SHIPPED}offsite": to_text(newest), "zbackup:clone": "{}", "mountpoint": "/var/lib/mysql"}
    assert arrived(properties) == {"offsite": newest}


@pytest.mark.parametrize(
    "text",
    ["", "-", "[]", "{}", '{"name":"a","taken":"yesterday"}', '{"name":"a","taken":"2024-05-01T08:00"}'],
)
def test_what_cannot_be_understood_is_not_known(text: str) -> None:
    assert arrived({f"{SHIPPED}offsite": text}) == {}
