"""What production has made is compared with the clone's definition, token by token."""

from dataclasses import replace

import pytest

from tests.unit.engines.mysql.test_copy_definition import SHOWN
from zbackup.engines.mysql.production.tables import Column, ForeignKey, ServerTable
from zbackup.engines.mysql.sql.lexer import tokens
from zbackup.features.copyback.copying import CopyStep
from zbackup.features.copyback.mysql.definition import parse_definition, referring_to
from zbackup.features.copyback.mysql.job import TableJob
from zbackup.features.copyback.mysql.plan_table import together
from zbackup.features.copyback.mysql.same_definition import differences
from zbackup.model.table_name import TableName

NAME, WORK, PARENT = TableName("s", "we`ird"), TableName("s", "zbackup_copy_1"), TableName("s", "parent")
KEY = "  KEY `toparent` (`pid`),\n"
FOREIGN = "  CONSTRAINT `to``parent` FOREIGN KEY (`pid`) REFERENCES `parent` (`id`) ON DELETE CASCADE,\n"
LATER = {tuple(["KEY", "`toparent`", "(", "`pid`", ")"])}


def job(shown: str = SHOWN, *, check_names: bool = True, parent: TableName = PARENT) -> TableJob:
    definition = parse_definition(shown)
    key = ForeignKey(name="to`parent", table=NAME, parent=parent, columns=(("pid", "id"),))
    table = ServerTable(
        name=NAME,
        type="BASE TABLE",
        engine="InnoDB",
        rows=1,
        row_bytes=1,
        columns=(Column(name="id", type="int", data_type="int"),),
    )
    rest = definition.foreign[0].rest
    return TableJob(
        step=CopyStep(source=NAME, into=NAME, action="new", statements=()),
        table=table,
        work=WORK,
        definition=definition if check_names else definition.without_check_names(),
        foreign=(key,),
        foreign_rest=(rest if parent == PARENT else referring_to(rest, parent),),
    )


def found(made: str, of: TableJob | None = None, *, first: bool = False) -> list[str]:
    return list(differences(of or job(), parse_definition(made), LATER if first else None))


def test_the_same_is_the_same_whatever_the_table_counts_and_is_called() -> None:
    assert found(SHOWN) == []
    assert found(SHOWN.replace("`we``ird`", "`zbackup_copy_1`", 1)) == []
    assert found(SHOWN.replace("ENGINE=InnoDB D", "ENGINE=InnoDB AUTO_INCREMENT=7 D")) == []
    assert found(SHOWN.replace(" COMMENT='c", " ENCRYPTION='Y' COMMENT='c")) == []
    # Servers print indexes in the order in which they were made.
    assert found(SHOWN.replace(KEY, "").replace("  PRIMARY", KEY + "  PRIMARY")) == []
    assert found(SHOWN.replace("`parent` (`id`)", "`s`.`parent` (`id`)")) == []


def test_what_comes_later_may_be_missing_at_first_and_not_at_last() -> None:
    early = SHOWN.replace(KEY, "").replace(FOREIGN, "")
    assert found(early, first=True) == []
    assert found(early) == ["it lacks KEY `toparent` ( `pid` )", "it lacks the foreign key to`parent"]
    assert found(SHOWN, first=True) == []


def test_names_of_checks_are_others_where_they_were_left_out() -> None:
    named = SHOWN.replace("`pos` CHECK", "`zbackup_copy_1_chk_1` CHECK")
    assert found(named, job(check_names=False)) == []
    assert found(named) != []


def test_a_foreign_key_refers_to_the_table_that_is_filled() -> None:
    parent = TableName("s", "zbackup_copy_2")
    made = SHOWN.replace("REFERENCES `parent`", "REFERENCES `zbackup_copy_2`")
    assert found(made, job(parent=parent)) == []
    assert found(SHOWN, job(parent=parent)) == ["it has the foreign key to`parent"]


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        (
            "  `pid` int DEFAULT NULL,\n",
            "  `pid` int DEFAULT NULL,\n  `who` int,\n",
            "its columns: `id`, `pid`, `who`",
        ),
        ("  `pid` int DEFAULT NULL,\n", "", "its columns: `id`"),
        ("`pid` int DEFAULT NULL", "`pid` int DEFAULT '7'", "its columns: `id`, `pid`"),
        ("`pid` int DEFAULT NULL", "`pid` bigint DEFAULT NULL", "its columns: `id`, `pid`"),
        (KEY, KEY + "  KEY `more` (`id`),\n", "it has KEY `more` ( `id` )"),
        (KEY, "  UNIQUE KEY `toparent` (`pid`),\n", "it has UNIQUE KEY `toparent` ( `pid` )"),
        ("  PRIMARY KEY (`id`)", "  PRIMARY KEY (`id`,`pid`)", "it has PRIMARY KEY ( `id` , `pid` )"),
        ("CHECK ((`id` > 0))", "CHECK ((`id` > 1))", "it has CONSTRAINT `pos` CHECK ( ( `id` > 1 ) )"),
        ("ON DELETE CASCADE", "", "it has the foreign key to`parent"),
        ("to``parent", "other", "it has the foreign key other"),
        ("REFERENCES `parent`", "REFERENCES `x`.`parent`", "it has the foreign key to`parent"),
        ("CHARSET=utf8mb4", "CHARSET=latin1", "its options: ENGINE = InnoDB DEFAULT CHARSET = latin1"),
        ("LESS THAN (100)", "LESS THAN (101)", "its options: ENGINE = InnoDB"),
        ("COMMENT='c, )", "COMMENT='d, )", "its options: ENGINE = InnoDB"),
    ],
)
def test_any_other_is_named(old: str, new: str, named: str) -> None:
    assert old in SHOWN
    assert found(SHOWN.replace(old, new))[0].startswith(named)


def test_what_is_shown_for_people_to_run_has_names_in_quotes_alone() -> None:
    step = CopyStep(
        source=NAME, into=NAME, action="replace", statements=(), kept=TableName("s", "t\nDROP TABLE x;")
    )
    shown = together({NAME: replace(job(), step=step)})[NAME].step.statements
    assert "DROP" not in [token.word for token in tokens("\n".join(shown))]
