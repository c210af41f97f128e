"""The throttle of a copy: when it waits."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from zbackup.config.copying import CopyBack
from zbackup.engines.mysql.production.tables import Column, ServerTable
from zbackup.engines.mysql.production.throttle import Throttle, worst_lag
from zbackup.features.copyback.copying import CopyStep
from zbackup.features.copyback.mysql.compare import CopyTally, Pair, insert_lacking
from zbackup.features.copyback.mysql.copy_sessions import Ends
from zbackup.features.copyback.mysql.job import TableJob
from zbackup.model.progress import Silent
from zbackup.model.table_name import TableName


@dataclass
class Clock:
    at: float = 100.0
    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds


@dataclass
class Production:
    running: Iterator[int]
    asked: int = 0

    def one(self, _: str) -> dict[str, Any]:
        self.asked += 1
        return {"Value": str(next(self.running))}


def throttle(running: list[int], clock: Clock, **options: Any) -> tuple[Throttle, Production]:
    production = Production(iter(running))
    return (
        Throttle(
            cast(Any, production),
            CopyBack.model_construct(**options),
            Silent(),
            sleep=clock.sleep,
            now=lambda: clock.at,
        ),
        production,
    )


def test_it_waits_until_fewer_statements_run_and_asks_once_a_second_at_most() -> None:
    clock = Clock()
    one, production = throttle([26, 99, 25, 1], clock)
    one.wait()
    assert (clock.slept, production.asked) == ([1.0, 1.0], 3)
    one.wait()
    assert production.asked == 3
    clock.at += 1.0
    one.wait()
    assert production.asked == 4


def test_a_rate_is_kept_from_the_first_byte_on() -> None:
    clock = Clock()
    one, _ = throttle([1] * 100, clock, rate=100)
    for _ in range(10):
        one.wait(50)
    assert clock.at - 100.0 == 5.0


def test_the_lag_of_a_replica_that_stands_still_is_infinite() -> None:
    assert worst_lag([]) is None
    assert worst_lag([{"Seconds_Behind_Source": 3}]) == 3
    assert worst_lag([{"Seconds_Behind_Master": 3}, {"Seconds_Behind_Master": None}]) == float("inf")


def test_it_does_not_look_where_a_transaction_may_be_open() -> None:
    clock = Clock()
    one, production = throttle([99, 1], clock)
    one.wait(looks=False)
    assert (clock.slept, production.asked) == ([], 0)
    one.wait()
    assert production.asked == 2


@dataclass
class Written:
    statements: list[bytes] = field(default_factory=list)

    def write(self, statement: bytes) -> int:
        self.statements.append(statement)
        return 1


def test_rows_that_are_put_back_as_statements_keep_the_rate() -> None:
    clock = Clock()
    one, _ = throttle([1] * 100, clock, rate=100)
    name, column = TableName("shop", "a"), Column(name="n", type="text", data_type="text", charset="latin1")
    table = ServerTable(
        name=name, type="BASE TABLE", engine="InnoDB", rows=1, row_bytes=1, columns=(column,), key=(column,)
    )
    step = CopyStep(source=name, into=name, action="rows", statements=())
    written = Written()
    ends = Ends(
        clone=cast(Any, None), production=cast(Any, written), loaders=(), throttle=one, progress=Silent()
    )
    row = (b"1" * 500,)
    insert_lacking(ends, TableJob(step=step, table=table, work=name), [Pair(row, row, None)], CopyTally())
    assert sum(clock.slept) == 5.0
    assert len(written.statements) == 1
