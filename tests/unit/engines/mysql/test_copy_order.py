"""The order in which rows are put back."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from zbackup.engines.mysql.production.tables import ServerTable
from zbackup.features.copyback.copying import CopyStep
from zbackup.features.copyback.mysql.job import TableJob, parents_first
from zbackup.model.table_name import TableName


def job(number: int, parents: frozenset[int]) -> TableJob:
    name = TableName("s", str(number))
    table = ServerTable(name=name, type="BASE TABLE", engine="InnoDB", rows=0, row_bytes=0, columns=())
    step = CopyStep(source=name, into=name, action="rows", statements=())
    return TableJob(
        step=step, table=table, work=name, parents=frozenset(TableName("s", str(n)) for n in parents)
    )


REFERENCES = st.lists(st.frozensets(st.integers(0, 7)), max_size=7)


@given(REFERENCES, st.randoms())
def test_parents_come_first_where_tables_do_not_refer_to_each_other(
    references: list[frozenset[int]], chance: Random
) -> None:
    jobs = [job(n, frozenset(p for p in parents if p <= n)) for n, parents in enumerate(references)]
    chance.shuffle(jobs)
    ordered = parents_first({j.table.name: j for j in jobs})
    for place, each in enumerate(ordered):
        assert not (each.parents - {each.step.into}) & {j.step.into for j in ordered[place:]}


@given(REFERENCES)
def test_no_table_is_left_out_or_comes_twice(references: list[frozenset[int]]) -> None:
    jobs = {TableName("s", str(n)): job(n, parents) for n, parents in enumerate(references)}
    assert sorted(j.step.into for j in parents_first(jobs)) == sorted(jobs)
