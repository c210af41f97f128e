"""A parent that comes back with its child is found, however the collation of both lets it be written."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from zbackup.engines.mysql.production.tables import Column, ForeignKey, ServerTable
from zbackup.features.undo.mysql.foreign_keys import orphaned
from zbackup.features.undo.mysql.net_change import RowStep
from zbackup.features.undo.mysql.referring_rows import ReferringRows, RowsGiven, row_id
from zbackup.features.undo.mysql.tables import Target
from zbackup.model.table_name import TableName

PARENT, CHILD = TableName("s", "currency"), TableName("s", "price")


def _target(name: TableName, *parents: ForeignKey) -> Target:
    code = Column(name="code", type="varchar(9)", data_type="varchar", charset="utf8mb4")
    table = ServerTable(
        name=name, type="BASE TABLE", engine="InnoDB", rows=0, row_bytes=0,
        columns=(code,), key=(code,), index="PRIMARY",
    )  # fmt: skip
    return Target(table=table, key=(0,), parents=parents)


def _back(name: TableName, code: str) -> RowStep:
    row = (code.encode(),)
    return RowStep(table=name, key=row, key_before=row, after=None, before=row)


@pytest.mark.parametrize(
    ("parent", "child", "found"),
    [
        ("USD", "USD", True), ("USD", "usd", True), ("USD", "USD ", True), ("café", "CAFE", True),
        ("USD", "EUR", False), ("USD", "US", False),
    ],
)  # fmt: skip
def test_a_parent_that_comes_back_too_is_found_as_the_server_finds_it(
    parent: str, child: str, found: bool
) -> None:
    key = ForeignKey(name="fk", table=CHILD, parent=PARENT, columns=(("code", "code"),))
    targets = {PARENT: _target(PARENT), CHILD: _target(CHILD, key)}
    steps = [_back(PARENT, parent), _back(CHILD, child)]
    rows = [(row_id(targets[step.table], step), step) for step in steps]
    nothing_there = cast(Any, SimpleNamespace(read=lambda _: []))
    production = ReferringRows(production=nothing_there, rows=nothing_there, targets=targets)
    needs = production.needs(steps[1], RowsGiven(targets, rows))
    assert (orphaned(needs, dict(rows)) == "") is found
