"""Reports of copies."""

from typing import Any

from zbackup.features.copyback import command
from zbackup.features.copyback.copy import CopyReport
from zbackup.features.copyback.copying import CopiedTable, CopyPlan, CopyStep, Difference, RowChange
from zbackup.model.table_name import TableName

ORDERS = TableName("shop", "orders")
BESIDE = TableName("shop", "orders_restored")
STEP = CopyStep(
    source=ORDERS,
    into=ORDERS,
    action="rows",
    statements=("UPDATE `shop`.`orders` SET ...;",),
    rows=4000,
    notes=("triggers run",),
)
DIFFERENCE = Difference(
    missing=2, changed=30, examples=(RowChange(key="id=1", values=(("state", "wrong", "paid"),)),)
)
PLANNED = CopyReport(
    instance="shop",
    clone="good",
    plan=CopyPlan(steps=(STEP,), notes=("1 routines and events of shop are not copied",)),
    differences={ORDERS: DIFFERENCE},
)
DONE = CopyReport(
    instance="shop",
    clone="good",
    plan=PLANNED.plan,
    differences=PLANNED.differences,
    tables=(
        CopiedTable(
            source=ORDERS,
            into=ORDERS,
            action="rows",
            inserted=2,
            updated=29,
            refused=1,
            conflicts=("id=7: Duplicate entry",),
        ),
        CopiedTable(source=ORDERS, into=BESIDE, action="beside", inserted=4000, verified=True, kept=ORDERS),
    ),
)


def in_json() -> dict[str, Any]:
    return {
        "copy": command.shape(DONE, dry_run=False),
        "restore --table": {"copied": {}},
        "copy --dry-run": command.shape(PLANNED, dry_run=True),
    }
