"""A table's definition under another name, without what may not be there twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.engines.mysql.copy.definition import (
    add_foreign_key,
    add_keys,
    built_at_once,
    counter,
    parse_definition,
    referring_to,
    trigger_on,
    view_named,
)
from zbackup.model.copying import TableName, parse_table
from zbackup.model.errors import Refused, UsageError

SHOWN = """CREATE TABLE `we``ird` (
  `id` int NOT NULL COMMENT 'CONSTRAINT `x` FOREIGN KEY (a), ) ENGINE',
  `pid` int DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `toparent` (`pid`),
  CONSTRAINT `to``parent` FOREIGN KEY (`pid`) REFERENCES `parent` (`id`) ON DELETE CASCADE,
  CONSTRAINT `pos` CHECK ((`id` > 0))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='c, )\\n;'
/*!50100 PARTITION BY RANGE (`id`)
(PARTITION p0 VALUES LESS THAN (100) ENGINE = InnoDB,
 PARTITION p1 VALUES LESS THAN MAXVALUE ENGINE = InnoDB) */"""
WORK = TableName("s", "w`k")


def test_only_the_name_and_the_foreign_keys_are_taken_out() -> None:
    found = parse_definition(SHOWN)
    assert found.foreign == (
        ("to`parent", "FOREIGN KEY (`pid`) REFERENCES `parent` (`id`) ON DELETE CASCADE"),
    )
    made = found.create(WORK)
    assert made.startswith("CREATE TABLE `s`.`w``k` (\n  `id` int")
    wanted = [line for line in SHOWN.splitlines()[1:] if "to``parent" not in line]
    assert made.splitlines()[1:] == wanted
    assert "  CHECK ((`id` > 0))" in found.without_check_names().lines


def test_ordinary_indexes_are_taken_out_unless_a_counter_may_need_one() -> None:
    shown = """CREATE TABLE `t` (
  `id` int NOT NULL AUTO_INCREMENT,
  `KEY ``x` int DEFAULT NULL COMMENT 'KEY `no` (`a`)',
  PRIMARY KEY (`id`),
  UNIQUE KEY `KEY ``x` (`KEY ``x`,`id`),
  KEY `up` ((upper(`v`))) /*!80000 INVISIBLE */,
  KEY `low` (`id`,(lower(`v`))),
  KEY `v` (`v`(10) DESC),
  FULLTEXT KEY `ft` (`t`)
) ENGINE=InnoDB"""
    rest, keys = parse_definition(shown).without_keys()
    assert [name for name, _ in keys] == ["KEY `x", "up", "low", "v"]
    assert [add_keys(WORK, group) for group in built_at_once(keys)] == [
        "ALTER TABLE `s`.`w``k` ADD UNIQUE KEY `KEY ``x` (`KEY ``x`,`id`), ADD KEY `v` (`v`(10) DESC)",
        "ALTER TABLE `s`.`w``k` ADD KEY `up` ((upper(`v`))) /*!80000 INVISIBLE */",
        "ALTER TABLE `s`.`w``k` ADD KEY `low` (`id`,(lower(`v`)))",
    ]
    assert built_at_once(()) == []
    left = [line for line in shown.splitlines()[1:] if not line.startswith(("  UNIQUE", "  KEY"))]
    assert rest.create(WORK).splitlines()[1:] == left
    counted = parse_definition(shown.replace("PRIMARY KEY (`id`)", "PRIMARY KEY (`n`,`id`)"))
    assert counted.without_keys() == (counted, ())


@given(
    st.lists(st.text(st.characters(exclude_characters="\n"), min_size=1, max_size=30), min_size=1, max_size=5)
)
def test_whatever_stands_in_a_line_stays_there(comments: list[str]) -> None:
    lines = [f"  `c{n}` int COMMENT '{text}'" for n, text in enumerate(comments)]
    shown = "CREATE TABLE `t` (\n" + ",\n".join(lines) + "\n) ENGINE=InnoDB"
    assert parse_definition(shown).create(TableName("s", "t")) == shown.replace("`t` (", "`s`.`t` (", 1)


def test_a_table_that_is_kept_elsewhere_is_refused() -> None:
    for more in ("DATA DIRECTORY='/fast'", "/*!50100 TABLESPACE `ts` */"):
        with pytest.raises(Refused, match="DATA DIRECTORY"):
            parse_definition(f"CREATE TABLE `t` (\n  `a` int\n) {more} ENGINE=InnoDB")
    with pytest.raises(Refused, match="has a line end"):
        parse_definition("CREATE TABLE `t` (\n  `a` int,\n  KEY `b\nc` (`a`)\n) ENGINE=InnoDB")
    with pytest.raises(Refused, match="cannot parse SHOW CREATE output"):
        parse_definition("CREATE SEQUENCE `s` start with 1")


def test_a_foreign_key_follows_the_table_that_is_filled() -> None:
    statement = add_foreign_key(WORK, "f", "FOREIGN KEY (`a`) REFERENCES `parent` (`id`)")
    assert statement == (
        "ALTER TABLE `s`.`w``k` ADD CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `parent` (`id`)"
    )
    assert referring_to(statement, TableName("s", "parent"), WORK).endswith("REFERENCES `s`.`w``k` (`id`)")
    other = statement.replace("`parent`", "`s`.`parent`")
    assert referring_to(other, TableName("s", "parent"), WORK) == referring_to(
        statement, TableName("s", "parent"), WORK
    )


def test_views_and_triggers_get_another_name_and_table() -> None:
    view = "CREATE ALGORITHM=UNDEFINED DEFINER=`a`@`%` SQL SECURITY DEFINER VIEW `v` AS select 1 AS ` VIEW `"
    assert view_named(view, TableName("s", "x"), replace=True) == view.replace(
        "CREATE", "CREATE OR REPLACE", 1
    ).replace("VIEW `v`", "VIEW `s`.`x`", 1)
    listed = view.replace("`v` AS", "`v` (`a, ``b)`,`c`) AS")
    assert view_named(listed, TableName("s", "x"), replace=False).startswith(
        view.partition(" VIEW `v`")[0] + " VIEW `s`.`x` (`a, ``b)`,`c`) AS select"
    )
    trigger = "CREATE DEFINER=`a`@`%` TRIGGER `on` BEFORE INSERT ON `t` FOR EACH ROW SET @on = 1"
    assert trigger_on(trigger, WORK) == trigger.replace("ON `t`", "ON `s`.`w``k`")
    for wrong in (
        lambda: view_named("CREATE TABLE `v` AS ", WORK, replace=False),
        lambda: trigger_on("CREATE", WORK),
    ):
        with pytest.raises(Refused, match="cannot parse SHOW CREATE output"):
            wrong()


def test_the_next_number_of_a_table() -> None:
    assert counter(SHOWN) == 1
    assert counter(SHOWN.replace("ENGINE=InnoDB D", "ENGINE=InnoDB AUTO_INCREMENT=77 D")) == 77


def test_names_of_tables() -> None:
    assert parse_table("shop.orders") == TableName("shop", "orders")
    assert parse_table("shop") == parse_table("shop.*") == TableName("shop", "*")
    assert str(parse_table("docs.a.b")) == "docs.a.b"
    for wrong in ("", ".", "shop.", ".orders", "a\nb.c"):
        with pytest.raises(UsageError):
            parse_table(wrong)
