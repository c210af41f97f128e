"""Who can read what lies in a bucket is said as it is."""

import pytest

from zbackup.model.shipping import Readers
from zbackup.plan.health.bucket_keys import of_keys

ID = "4610c2638d1fe629"
NONE = Readers(
    encrypted=True, public_key="", sealed=0, others=0, private_key_here=False
)  # fmt: skip


def said(reads: str = "", **facts: object) -> list[tuple[str, str]]:
    known = {name: getattr(NONE, name) for name in Readers.__dataclass_fields__}
    return [(f.severity, f.text) for f in of_keys(Readers(**(known | facts)), "cloud", reads=reads)]


@pytest.mark.parametrize(
    ("facts", "severities", "text"),
    [
        ({}, ["ok"], "this host can read its old backups: the key that encrypts them is here"),
        ({"encrypted": False}, [], ""),
        ({"encrypted": False, "others": 3}, ["ok"], "zbackup does not encrypt new backups"),
        ({"public_key": ID}, ["ok"], f"write-only: the private key of {ID} is not on this host"),
        ({"public_key": ID, "private_key_here": True}, ["warning"], "this host can read its old backups"),
        ({"public_key": ID, "others": 1}, ["ok", "advice"], "1 backup from before public_key was set"),
        ({"public_key": ID, "others": 2}, ["ok", "advice"], "2 backups from before public_key was set"),
        ({"public_key": ID, "reads": "a drill"}, ["ok", "warning"], "a drill is on schedule here, and fails"),
        ({"public_key": ID, "reads": "a drill", "private_key_here": True}, ["warning"], "can read its old"),
        ({"reads": "a drill"}, ["ok"], "this host can read"),
    ],
    ids=str,
)
def test_what_is_so_is_said(facts: dict[str, object], severities: list[str], text: str) -> None:
    found = said(**facts)  # type: ignore[arg-type]
    assert [severity for severity, _ in found] == severities
    assert not text or text in found[-1][1]
