"""Another host prunes while one looks."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.destinations.shop import Shop, new_shop
from tests.destinations.test_s3_keep import chain, named
from tests.lab.s3_server import S3Server
from zbackup.destinations.s3.client import Bucket, Entry
from zbackup.proc.pipeline import Meter


@pytest.fixture
def shop(server: S3Server, tmp_path: Path) -> Shop:
    return new_shop(server, tmp_path)


def test_a_verification_blames_no_backup_that_another_host_prunes(shop: Shop) -> None:
    with shop.session() as verifying, shop.session() as pruning:
        chain(verifying, shop, (11, None), (12, None), (13, None))
        going = verifying.verify(deep=True, meter=Meter())
        assert next(going).problems == ()
        pruning.remove(named(pruning)["backup-2"], "")
        assert [(c.backup, c.problems) for c in going] == [("backup-3", ())]


def test_a_manifest_that_goes_after_it_was_listed_is_not_there(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shop.session() as session:
        chain(session, shop, (11, None), (12, None))
    listing = Bucket.list

    def gone(bucket: Bucket, prefix: str) -> Iterator[Entry]:
        found = list(listing(bucket, prefix))
        for entry in found:
            if entry.key.endswith("/backup-1/manifest.json"):
                shop.direct.delete_object(Bucket=shop.bucket, Key=entry.key)
        return iter(found)

    monkeypatch.setattr(Bucket, "list", gone)
    with shop.session() as session:
        assert session.inventory().committed == {"backup-2"}
