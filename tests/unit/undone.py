"""Reports of transactions that were taken back."""

from typing import Any

from tests.unit.samples import at
from zbackup.features.undo import command
from zbackup.features.undo.undo import UndoReport
from zbackup.features.undo.undoing import UndoneTable, UndoPlan
from zbackup.model.log import Transaction
from zbackup.model.table_name import TableName

ORDERS = TableName("shop", "orders")


def report(**counts: Any) -> UndoReport:
    tables = (UndoneTable(table=ORDERS, **counts),)
    done = Transaction(start="binlog.000001:4", end="binlog.000001:99", committed=at(1), gtid="0-1-7")
    return UndoReport(
        instance="shop",
        name="0-1-7",
        transaction=done,
        plan=UndoPlan(tables=tables, transactions=1),
        tables=tables,
        statements=("START TRANSACTION;", "DELETE FROM `shop`.`orders` WHERE `id` = 7;", "COMMIT;"),
    )


def in_json() -> dict[str, Any]:
    """By the name of the command."""
    return {"undo": command.shape(report(deleted=1), dry_run=True)}
