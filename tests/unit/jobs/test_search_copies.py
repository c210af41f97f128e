"""What a search of a destination's logs leaves, and what it leaves alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.samples import backup
from zbackup.destinations.copies import Copies
from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.restore import search_copies
from zbackup.jobs.ship.archived import NO_ARCHIVE, ArchivedCopies
from zbackup.model.errors import Taken


class Host:
    """Copies by their ids, of which one has the name that a search uses; each search makes another."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, there: str) -> None:
        self.there, self.destroyed = there, list[str]()
        monkeypatch.setattr(clone_datasets, "find_clone", self._find)
        monkeypatch.setattr(clone_datasets, "destroy", self._destroy)
        for name in ("working_on", "remote_holds"):
            monkeypatch.setattr(search_copies, name, self._nothing)
        monkeypatch.setattr(search_copies, "fetch", self._fetch)
        self.failure: Exception | None = None
        self.makes = "made"

    def search(self) -> None:
        ctx, target = (
            cast(Any, SimpleNamespace(instance="shop", **more))
            for more in ({}, {"adapter": SimpleNamespace(here=""), "limit": 0})
        )
        held = backup(1, 7, 7, log_id="a", log_from="binlog.000001:4", log_to="binlog.000001:20")
        there = ArchivedCopies(Copies((held,), ()), NO_ARCHIVE, ())
        with search_copies._brought(ctx, target, cast(Any, None), there, held):
            pass

    def _find(self, _: object, name: str) -> tuple[SimpleNamespace, str] | None:
        assert name == "shop-search.copy"
        return (SimpleNamespace(id=self.there), "dataset") if self.there else None

    def _destroy(self, _: object, clone: SimpleNamespace, __: object) -> None:
        self.destroyed.append(clone.id)
        self.there = ""

    @contextmanager
    def _nothing(self, *_: object) -> Iterator[None]:
        yield

    def _fetch(self, *_: object) -> None:
        self.there = self.makes or self.there
        if self.failure:
            raise self.failure


def test_what_was_made_is_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, there="")
    host.search()
    assert host.destroyed == ["made"]


def test_what_was_made_is_gone_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, there="")
    host.failure = OSError()
    with pytest.raises(OSError):
        host.search()
    assert host.destroyed == ["made"]


def test_what_was_gone_on_with_is_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, there="begun")
    host.makes = ""
    host.search()
    assert host.destroyed == ["begun"]


def test_what_another_has_made_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, there="another's")
    host.makes, host.failure = "", Taken("it holds what was fetched for another restore")
    with pytest.raises(Taken):
        host.search()
    assert host.destroyed == []
