"""The rows of one transaction: what the server's own tool is given, and what of its words is told."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.engines.mysql.recovered import Story
from zbackup.engines.mysql.clone.program import DIRECTORIES
from zbackup.engines.mysql.recovery import log_search as module
from zbackup.engines.mysql.recovery.log_search import images, of_rows
from zbackup.model.backup import BackupFiles
from zbackup.model.errors import NotRecoverable
from zbackup.model.recovery import RecoveryFiles

ROWS = """\
/*!50530 SET @@SESSION.PSEUDO_SLAVE_MODE=1*/;
# at 4
#231114 22:13:20 server id 1  end_log_pos 126
SET TIMESTAMP=1700000000/*!*/;
BEGIN
/*!*/;
DELETE everything, in a comment of the tool's
### UPDATE `shop`.`t`
### WHERE
###   @1=1 /* INT */
### SET
###   @1=2 /* INT */
COMMIT/*!*/;
""".splitlines()


def test_rows_are_told_and_nothing_else_where_there_are_rows() -> None:
    assert list(of_rows(iter(ROWS))) == [
        "UPDATE `shop`.`t`", "WHERE", "  @1=1 /* INT */", "SET", "  @1=2 /* INT */"
    ]  # fmt: skip


def test_of_the_servers_own_tables_no_value_is_told() -> None:
    own = [line.replace("shop", "mysql") for line in ROWS]
    assert list(of_rows(iter([*own, *ROWS]))) == [
        "UPDATE `mysql`.`t`", "WHERE", "  @1=***", "SET", "  @1=***",
        "UPDATE `shop`.`t`", "WHERE", "  @1=1 /* INT */", "SET", "  @1=2 /* INT */",
    ]  # fmt: skip


@pytest.fixture(params=["mysql", "mariadb"])
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Story:
    made = Story(tmp_path, monkeypatch, request.param)
    made.commit(10, 20)
    made.rotate()
    made.commit(30, 40, 50)
    return made


class Tool:
    """Notes how it was called and what it was given."""

    def __init__(self, room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.argv: Sequence[str] = ()
        self.given = b""
        self.looked_for: tuple[Sequence[str], Sequence[str]] = ((), ())

        def filtered(argv: Sequence[str], given: Iterator[bytes]) -> Iterator[str]:
            self.argv, self.given = argv, b"".join(given)
            return iter(ROWS)

        def find_program(_: None, names: Sequence[str], __: str, near: Sequence[str], ___: str) -> tuple[str]:
            self.looked_for = names, near
            return (f"/there/{names[0]}",)

        monkeypatch.setattr(module, "filtered", filtered)
        monkeypatch.setattr(module.programs, "find_program", find_program)


def as_backup(files: RecoveryFiles) -> BackupFiles:
    return BackupFiles(files.record, files.where)


@pytest.mark.parametrize("number", [3, 4])
@pytest.mark.parametrize("chunk", [7, 1 << 20])
def test_it_gets_what_a_file_begins_with_and_that_transaction_alone(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, chunk: int
) -> None:
    monkeypatch.setattr(module, "_CHUNK", chunk)
    tool, log = Tool(tmp_path, monkeypatch), story.log.files[2]
    first, wanted = log.written[0], log.written[number - 3]
    told = list(images(story.flavor, None, [as_backup(story.files("s"))], story.transaction(number)))
    assert told[0] == "UPDATE `shop`.`t`"
    assert tool.given == log.data[: first.start] + log.data[wanted.start : wanted.end]
    assert tool.argv[0].endswith("binlog") and "--no-defaults" in tool.argv and tool.argv[-1] == "-"


@pytest.mark.parametrize(
    ("server", "mysqld", "near"),
    [
        (None, "", []),
        (("mysqld",), "mysqld", []),
        (("/opt/a/bin/mysqld", "--x"), "", ["/opt/a/bin"]),
        (("nice", "/opt/a/bin/mysqld"), "/opt/b/bin/mysqld", ["/opt/a/bin", "/opt/b/bin"]),
    ],
)
def test_the_tool_that_came_with_the_server_comes_first(
    story: Story,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    server: tuple[str, ...] | None,
    mysqld: str,
    near: list[str],
) -> None:
    tool, files = Tool(tmp_path, monkeypatch), as_backup(story.files("s", mysqld=mysqld))
    list(images(story.flavor, server, [files], story.transaction(3)))
    names, directories = tool.looked_for
    assert list(directories) == [*near, *DIRECTORIES]
    assert names == (("mysqlbinlog",) if story.flavor == "mysql" else ("mariadb-binlog", "mysqlbinlog"))


def test_a_file_that_was_purged_meanwhile_is_a_line(story: Story, tmp_path: Path) -> None:
    gone = replace(story.transaction(3), start="binlog.000007:4", end="binlog.000007:99")
    with pytest.raises(NotRecoverable, match=r"binlog.000007 was purged or pruned just now"):
        list(images(story.flavor, None, [as_backup(story.files("s"))], gone))
