"""A table's definition under another name, without what may not be there twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.engines.mysql_sql.hostile_names import NAMES, TEXTS
from zbackup.engines.mysql.sql.lexer import string_value, tokens
from zbackup.engines.mysql.sql.quoting import identifier, literal, qualified
from zbackup.features.copyback.mysql.definition import (
    DefinitionPiece,
    add_foreign_key,
    add_keys,
    built_at_once,
    counter,
    parse_definition,
    qualified_reference,
    referring_to,
    schema_named,
)
from zbackup.features.copyback.mysql.stored_text import trigger_on, view_named
from zbackup.model.errors import Refused
from zbackup.model.table_name import TableName

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
    assert [(key.name, key.rest.printed) for key in found.foreign] == [
        ("to`parent", "FOREIGN KEY (`pid`) REFERENCES `parent` (`id`) ON DELETE CASCADE"),
    ]
    made = found.create(WORK)
    assert made.startswith("CREATE TABLE `s`.`w``k` (\n  `id` int")
    wanted = [line for line in SHOWN.splitlines()[1:] if "to``parent" not in line]
    assert made.splitlines()[1:] == wanted
    assert found.without_check_names().items[-1].printed == "CHECK ((`id` > 0))"


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
    assert [key.name for key in keys] == ["KEY `x", "up", "low", "v"]
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


@given(st.lists(st.tuples(NAMES, TEXTS), min_size=1, max_size=4, unique_by=lambda pair: pair[0]), NAMES)
def test_whatever_is_in_names_and_texts_stays_there(columns: list[tuple[str, str]], other: str) -> None:
    """Both servers print names with doubled backticks, and texts with the escapes of `literal`."""
    lines = [f"  {identifier(name)} int COMMENT {literal(text)}" for name, text in columns]
    lines += [f"  KEY {identifier(name + other)} ({identifier(name)})" for name, _ in columns]
    lines += [f"  CONSTRAINT {identifier(other)} CHECK ({identifier(columns[0][0])} <> {literal(other)})"]
    lines += [
        f"  CONSTRAINT {key} FOREIGN KEY (`a`) REFERENCES {identifier(other)} ({key})"
        for key in (identifier(name) for name, _ in columns)
    ]
    tail = f") ENGINE=InnoDB COMMENT={literal(columns[0][1])}"
    shown = f"CREATE TABLE {identifier(other)} (\n" + ",\n".join(lines) + f"\n{tail}"
    found = parse_definition(shown)
    rest, keys = found.without_keys()
    assert [key.name for key in keys] == [name + other for name, _ in columns]
    assert [(piece.tokens[0].name, string_value(piece.tokens[3])) for piece in rest.items[:-1]] == columns
    assert [key.name for key in found.foreign] == [name for name, _ in columns]
    made = parse_definition(found.create(TableName(other, columns[0][0])))
    assert [piece.said for piece in made.items] == [piece.said for piece in found.items]
    assert made.tail.said == found.tail.said
    statement = add_keys(WORK, keys)
    assert [t.name for t in tokens(statement) if t.kind == "name"][2:] == [
        each for name, _ in columns for each in (name + other, name)
    ]
    for key in found.foreign:
        said = add_foreign_key(WORK, other, referring_to(key.rest, TableName(other, key.name)))
        names = [t.name for t in tokens(said) if t.kind == "name"]
        assert names == [WORK.schema, WORK.table, other, "a", other, key.name, key.name]


def test_what_inverts_the_quoting_of_lines_is_only_a_name() -> None:
    """The index whose name has a line end and a backtick, as both servers print it."""
    evil, payload = "x\n  KEY ` y", "`(id))SELECT pay id,who x FROM hr.salaries"
    shown = (
        "CREATE TABLE `t` (\n  `id` int NOT NULL,\n  ` LEFT JOIN shop.e` varchar(10) DEFAULT NULL,\n"
        f"  PRIMARY KEY (`id`),\n  KEY {identifier(evil)} (`id`),\n"
        f"  FULLTEXT KEY {identifier(payload)} (` LEFT JOIN shop.e`)\n"
        ") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='x` ON 1=1 -- '"
    )
    rest, keys = parse_definition(shown).without_keys()
    assert [key.name for key in keys] == [evil]
    assert [piece.words[:2] for piece in rest.items[2:]] == [("PRIMARY", "KEY"), ("FULLTEXT", "KEY")]
    assert rest.items[3].tokens[2].name == payload


@pytest.mark.parametrize(
    "shown",
    [
        "CREATE SEQUENCE `s` start with 1",
        "CREATE TEMPORARY TABLE `t` (\n  `a` int\n) ENGINE=InnoDB",
        "CREATE TABLE t (\n  `a` int\n) ENGINE=InnoDB",
        "CREATE TABLE `t` (\n  `a` int\n)",
        "CREATE TABLE `t` (\n  `a` int",
        "CREATE TABLE `t` (\n  `a` int, ,\n) ENGINE=InnoDB",
        "CREATE TABLE `t` (\n  a int\n) ENGINE=InnoDB",
        "CREATE TABLE `t` (\n  `a` int\n) ENGINE=InnoDB; DROP TABLE `u`",
        "CREATE TABLE `t` (\n  `a` int\n) ENGINE=InnoDB /* why */",
        "CREATE TABLE `t` (\n  `a` int -- why\n) ENGINE=InnoDB",
        "CREATE TABLE `t` (\n  `a` int\n) ENGINE=InnoDB SELECT 1 AS b",
        "CREATE TABLE `t` (\n  `a` int\n) ENGINE=InnoDB AS TABLE `u`",
        "CREATE TABLE `t` (\n  `a` int DEFAULT (select 1)\n) ENGINE=InnoDB",
        "CREATE TABLE `t` (\n  `a` int\n) ENGINE=InnoDB COMMENT='x",
        "CREATE TABLE `t` (\n  `a` int /*!80000 INVISIBLE\n) ENGINE=InnoDB",
        "CREATE TABLE `t` (\n  `a` int /*!80000 ,\n  `b` */ int\n) ENGINE=InnoDB",
        "CREATE TABLE `t` (\n  `a` int\n) ENGINE=InnoDB )",
        "CREATE TABLE `t` (\n  `a` int\n) ENGINE=InnoDB (TABLE `hr`.`salaries`)",
        "CREATE TABLE `t` (\n  `a` int DEFAULT (TABLE `hr`.`salaries`)\n) ENGINE=InnoDB",
        "CREATE TABLE `t` (`a` int /*!99999 ' */ ) ENGINE=InnoDB SELECT 1 -- ' */ ) ENGINE=InnoDB",
        "CREATE TABLE `t` (`a` int /*M! ' */ ) ENGINE=InnoDB SELECT 1 -- ' */ ) ENGINE=InnoDB",
        "CREATE TABLE `t` (\n  `a` int /*!80021 ENGINE_ATTRIBUTE '/*' */\n) ENGINE=InnoDB",
    ],
)
def test_what_no_server_prints_is_refused(shown: str) -> None:
    with pytest.raises(Refused, match="cannot parse SHOW CREATE output"):
        parse_definition(shown)


@pytest.mark.parametrize(
    "tail",
    [
        "ENGINE=FEDERATED CONNECTION='mysql://u@h/d/t'",
        "ENGINE=InnoDB ENGINE=CONNECT FILE_NAME='/etc/passwd'",
        "ENGINE FEDERATED",
        "ENGINE=`FEDERATED`",
        "ENGINE='FEDERATED'",
        "ENGINE=MRG_MyISAM INSERT_METHOD=LAST",
        "ENGINE=InnoDB PARTITION BY HASH (`a`) (PARTITION p0 ENGINE = SPIDER)",
        "ENGINE",
    ],
)
def test_a_table_of_an_engine_that_reaches_others_is_refused(tail: str) -> None:
    with pytest.raises(Refused, match="zbackup copies no tables of the engine"):
        parse_definition(f"CREATE TABLE `t` (\n  `a` int\n) {tail}")


def test_an_option_before_the_engine_is_kept() -> None:
    tail = "/*!80023 AUTOEXTEND_SIZE=4194304 */ ENGINE=InnoDB"
    assert parse_definition(f"CREATE TABLE `t` (\n  `a` int\n) {tail}").tail.printed == tail


def test_what_every_server_runs_may_have_the_end_of_a_comment_in_quotes() -> None:
    shown = (
        "CREATE TABLE `t` (\n  `a` int\n) ENGINE=InnoDB\n/*!50500 PARTITION BY LIST  COLUMNS(`a`)\n"
        "(PARTITION `*/` VALUES IN ('/*') COMMENT = '*/' ENGINE = InnoDB) */"
    )
    assert parse_definition(shown).tail.printed == shown.partition("\n) ")[2]


def test_a_table_that_is_kept_elsewhere_is_refused() -> None:
    for more in (
        "ENGINE=InnoDB DATA DIRECTORY='/fast'",
        "/*!50100 TABLESPACE `ts` */ ENGINE=InnoDB",
        "ENGINE=InnoDB /*!50100 PARTITION BY HASH (`a`) (PARTITION p DATA DIRECTORY = '/x') */",
    ):
        with pytest.raises(Refused, match="DATA DIRECTORY"):
            parse_definition(f"CREATE TABLE `t` (\n  `a` int\n) {more}")


def _foreign(said: str) -> DefinitionPiece:
    shown = f"CREATE TABLE `t` (\n  `a` int,\n  CONSTRAINT `f` {said}\n) ENGINE=InnoDB"
    return parse_definition(shown).foreign[0].rest


def test_a_foreign_key_follows_the_table_that_is_filled() -> None:
    here = _foreign("FOREIGN KEY (`a`) REFERENCES `parent` (`id`)")
    other = _foreign("FOREIGN KEY (`a`) REFERENCES `s`.`parent` (`id`)")
    head = "ALTER TABLE `s`.`w``k` ADD CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES"
    assert add_foreign_key(WORK, "f", here) == f"{head} `parent` (`id`)"
    for rest in (here, other):
        assert add_foreign_key(WORK, "f", referring_to(rest, WORK)) == f"{head} `s`.`w``k` (`id`)"
    assert qualified_reference(here, "s").said == qualified_reference(other, "x").said == other.said


def test_a_schema_gets_another_name() -> None:
    shown = "CREATE DATABASE `o``dd` /*!40100 DEFAULT CHARACTER SET utf8mb4 */ COMMENT '` x'"
    assert schema_named(shown, "n`") == shown.replace("`o``dd`", "`n```")
    for wrong in (
        "CREATE DATABASE `a",
        "CREATE DATABASE `a` `b`",
        "CREATE DATABASE `a`; SELECT 1",
        "CREATE DATABASE",
    ):
        with pytest.raises(Refused):
            schema_named(wrong, "n")


VIEW = "CREATE ALGORITHM=UNDEFINED DEFINER=`a`@`%` SQL SECURITY DEFINER VIEW `v` AS select 1 AS ` VIEW `"
TRIGGER = "CREATE DEFINER=`a`@`%` TRIGGER `on` BEFORE INSERT ON `t` FOR EACH ROW SET @on = 1"


def test_views_and_triggers_get_another_name_and_table() -> None:
    made = view_named(VIEW, TableName("s", "x"), replace=True)
    assert made.creation == VIEW.replace("CREATE", "CREATE OR REPLACE", 1).replace(
        "VIEW `v`", "VIEW `s`.`x`", 1
    )
    assert (made.user, made.host) == ("a", "%")
    listed = VIEW.replace("`v` AS", "`v` (`a, ``b)`,`c`) AS")
    assert view_named(listed, TableName("s", "x"), replace=False).creation == listed.replace(
        "VIEW `v`", "VIEW `s`.`x`"
    )
    assert view_named(VIEW.replace("SECURITY DEFINER", "SECURITY INVOKER"), WORK, replace=False).user is None
    found = trigger_on(TRIGGER, WORK)
    assert found.creation == TRIGGER.replace("ON `t`", "ON `s`.`w``k`")
    assert (found.user, found.host) == ("a", "%")
    unquoted = TRIGGER.replace("TRIGGER `on`", "TRIGGER IF NOT EXISTS s . trg").replace("ON `t`", "on\n s.t")
    assert trigger_on(unquoted, WORK).creation == unquoted.replace("s.t FOR", "`s`.`w``k` FOR")
    ansi = TRIGGER.replace("ON `t`", 'ON "t`"').replace("`a`@`%`", "'it''s'@\"%\"")
    made = trigger_on(ansi, WORK, ansi_quotes=True)
    assert made.creation == ansi.replace('ON "t`"', "ON `s`.`w``k`")
    assert (made.user, made.host) == ("it's", "%")


@given(NAMES, NAMES, NAMES, NAMES, TEXTS)
def test_hostile_names_of_views_and_triggers(user: str, host: str, name: str, into: str, body: str) -> None:
    account = f"{identifier(user)}@{identifier(host)}"
    target = TableName(into, name)
    said = f"CREATE ALGORITHM=MERGE DEFINER={account} SQL SECURITY DEFINER VIEW {identifier(name)} AS select "
    made = view_named(said + body, target, replace=False)
    behind = f" VIEW {qualified(into, name)} AS select {body}"
    assert made.creation == said.removesuffix(f" VIEW {identifier(name)} AS select ") + behind
    assert (made.user, made.host) == (user, host)
    head = f"CREATE DEFINER={account} TRIGGER {qualified(into, name)} AFTER UPDATE ON "
    found = trigger_on(f"{head}{identifier(name)} FOR EACH ROW {body}", target)
    assert found.creation == f"{head}{qualified(into, name)} FOR EACH ROW {body}"
    assert (found.user, found.host) == (user, host)


@pytest.mark.parametrize(
    "wrong",
    [
        "CREATE",
        "CREATE TRIGGER `x` BEFORE INSERT ON `t` FOR EACH ROW SET @a = 1",
        TRIGGER.replace("ON `t`", "ON `t` /*!50000 , `u` */"),
        TRIGGER.replace("ON `t`", "/* ON */ ON `t`"),
        TRIGGER.replace("ON `t`", "ON `t"),
        TRIGGER.replace("BEFORE", "INSTEAD OF"),
    ],
)
def test_a_trigger_that_is_not_understood_is_refused(wrong: str) -> None:
    with pytest.raises(Refused, match="cannot parse SHOW CREATE output"):
        trigger_on(wrong, WORK)


@pytest.mark.parametrize(
    "wrong",
    [
        "CREATE TABLE `v` AS ",
        VIEW.replace("DEFINER=`a`@`%` ", ""),
        VIEW.replace("SQL SECURITY DEFINER ", ""),
        VIEW.replace("`a`@`%`", "CURRENT_USER"),
        VIEW.replace("`a`@`%`", "Current_Role"),
        VIEW.replace("`v`", "`v` /*! AS select 2 */"),
        VIEW.partition(" AS ")[0],
    ],
)
def test_a_view_that_is_not_understood_is_refused(wrong: str) -> None:
    with pytest.raises(Refused, match="cannot parse SHOW CREATE output"):
        view_named(wrong, WORK, replace=False)


def test_the_next_number_of_a_table() -> None:
    assert counter(SHOWN) == 1
    assert counter(SHOWN.replace("ENGINE=InnoDB D", "ENGINE=InnoDB AUTO_INCREMENT=77 D")) == 77
