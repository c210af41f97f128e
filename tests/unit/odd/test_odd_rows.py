"""The combinations of odd servers."""

from tests.odd import sql_levels
from tests.odd.stories import FLAVOURS, described, row_of, rows


def test_there_are_two_hundred_and_the_same_each_time() -> None:
    planned = {flavour: rows(flavour) for flavour in FLAVOURS}
    assert sum(len(found) for found in planned.values()) >= 200
    assert rows("mongodb-6.0") == planned["mongodb-6.0"]
    for row in planned["mysql-9.7"]:
        assert sql_levels.allowed("mysql-9.7")(row)
    said = {flavour: [described(flavour, row) for row in found] for flavour, found in planned.items()}
    assert all(len(set(lines)) == len(lines) for lines in said.values()), "one is told twice"


def test_a_row_is_as_usual_but_for_what_is_said() -> None:
    row = row_of("mariadb-11.8", {"tail": "torn"})
    assert described("mariadb-11.8", row) == "tail=torn"
    assert described("mariadb-11.8", row_of("mariadb-11.8", {})) == "nothing odd"
