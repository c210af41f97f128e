"""A restore whose result disproves what the search found goes on looking, or gives up."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from zbackup.cli import restore as room
from zbackup.cli.restore import MOST_DISPROVED, _Found
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.model.errors import Disproved
from zbackup.model.proof import ProofSubject
from zbackup.model.table_name import TableName
from zbackup.model.target import NamedTarget

DROP = ProofSubject(kind="drop", table=TableName("shop", "orders"))


class Restoring:
    """Disproves what is found so many times; each search is told what was disproved before."""

    def __init__(self, patch: pytest.MonkeyPatch, times: int, *, goes_on: bool = True) -> None:
        self.times, self.goes_on = times, goes_on
        self.disproved: list[tuple[str, ...]] = []
        self.notes: list[str] = []
        patch.setattr(room, "find_target", self.find)
        patch.setattr(room, "restore", self.restore)
        patch.setattr(room, "headline", lambda _: "shop before it")

    def find(self, *_: object, disproved: tuple[str, ...], **__: object) -> Any:
        self.disproved.append(disproved)
        return "the target"

    def restore(self, *_: object) -> Any:
        if len(self.disproved) <= self.times:
            raise Disproved("it is not there", f"binlog.000001:{len(self.disproved)}", goes_on=self.goes_on)
        return "the report"

    def found(self, choice: RestoreOptions) -> _Found:
        ctx: Any = SimpleNamespace(
            instance="shop", zone=None, progress=SimpleNamespace(note=self.notes.append)
        )
        source, named = cast(Any, None), cast(NamedTarget, None)
        return _Found(ctx, source, named, choice, None, sure=True)


def test_an_earlier_statement_is_looked_for_without_those_that_were_disproved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    restoring = Restoring(monkeypatch, 2)
    assert restoring.found(RestoreOptions(proves=DROP)).restored() == cast(Any, "the report")
    first, second = "binlog.000001:1", "binlog.000001:2"
    assert restoring.disproved == [(), (first,), (first, second)]
    assert restoring.notes.count("it is not there. Looking for an earlier one") == 2


def test_that_is_given_up_after_some(monkeypatch: pytest.MonkeyPatch) -> None:
    restoring = Restoring(monkeypatch, 99)
    with pytest.raises(Disproved):
        restoring.found(RestoreOptions(proves=DROP)).restored()
    assert len(restoring.disproved) == MOST_DISPROVED + 1


@pytest.mark.parametrize(
    ("choice", "goes_on"),
    [
        (RestoreOptions(proves=DROP), False),
        (RestoreOptions(proves=DROP, keep=True), True),
        (RestoreOptions(proves=ProofSubject()), True),
    ],
)
def test_nothing_else_is_looked_for(
    monkeypatch: pytest.MonkeyPatch, choice: RestoreOptions, goes_on: bool
) -> None:
    """A later one was missed; what was made is to be looked at; a transaction was named."""
    restoring = Restoring(monkeypatch, 1, goes_on=goes_on)
    with pytest.raises(Disproved):
        restoring.found(choice).restored()
    assert restoring.disproved == [()]
