"""Random statements of both dialects, with all that the manuals allow between their words."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

SCHEMAS = ("s", "b c", "d.e")
NAMES = (
    "orders", "Orders", "wait", "nowait", "temporary", "to", "table", "view", "sequence", "if", "ignore",
    "partition", "x`y", 'x"y', "żółw", "日本", "1a", "restrict", "history", "x'y; drop table `orders`",
)  # fmt: skip
OTHERS = ("view", "sequence", "table", "if", "x`y")
LATER = "zz"
"""A schema that comes and goes."""

BARE = {"orders", "Orders", "wait", "nowait", "temporary", "view", "history", "żółw", "日本", "1a"}
"""Names that both servers take without quotes."""


@dataclass(frozen=True)
class Name:
    """A table's name, or with `is_schema` a schema's."""

    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


Part = str | Name


@dataclass
class Session:
    """What a session has set, and the temporary tables that it may have."""

    number: int
    current: str = "s"
    ansi: bool = False
    charset: str = "utf8mb4"
    form: str = "ROW"
    temporary: set[Name] = field(default_factory=set)


@dataclass(frozen=True)
class Said:
    """A statement of a session: its text, and the tables that it names where tables stand."""

    text: str
    names: tuple[Name, ...]
    certain: frozenset[str] = frozenset()
    """Kinds that cannot be without a change, if it succeeds and the table has rows."""


class Writer:
    """Makes statements up. The same seed makes the same ones."""

    def __init__(self, seed: int, *, mariadb: bool) -> None:
        self.random, self.mariadb, self.tag = random.Random(seed), mariadb, 0
        self.there: list[Name] = []
        """Names that are taken: most statements are about one of them."""
        self._makers = [
            (self.create, 12), (self.create_like, 4), (self.create_select, 4), (self.temporary, 7),
            (self.insert, 18), (self.update, 6), (self.delete, 8), (self.drop, 10), (self.drop_temporary, 3),
            (self.rename, 8), (self.truncate, 8), (self.alter, 16), (self.index, 4), (self.view, 5),
            (self.drop_view, 5), (self.schema, 2), (self.program, 3), (self.upkeep, 2), (self.failing, 3),
            *([(self.sequence, 4), (self.drop_sequence, 4), (self.convert, 5)] if mariadb else []),
        ]  # fmt: skip

    def statement(self, session: Session) -> Said:
        """The next one."""
        makers, weights = zip(*self._makers, strict=True)
        parts, certain = (self.random.choices(makers, weights)[0])()
        names = tuple(p for p in parts if isinstance(p, Name))
        return Said(self.spelled(parts, session), names, frozenset(certain))

    # Words

    def maybe(self, *words: str, often: float = 0.3) -> list[Part]:
        return list(words) if self.random.random() < often else []

    def one(self, *choices: str) -> list[Part]:
        return [word for word in self.random.choice(choices).split(" ") if word]

    def name(self) -> Name:
        if self.there and self.random.random() < 0.6:
            return self.random.choice(self.there)
        schemas = (*SCHEMAS, "s", "s", "s", LATER)
        return Name(self.random.choice(schemas), self.random.choice((*NAMES, *NAMES[:5])))

    def if_exists(self) -> list[Part]:
        return self.maybe("IF EXISTS", often=0.5)

    def wait(self) -> list[Part]:
        return self.one("", "", "WAIT 3", "NOWAIT") if self.mariadb else []

    def listed(self, most: int = 3) -> list[Part]:
        parts: list[Part] = [self.name()]
        for _ in range(self.random.randrange(most)):
            parts += [",", self.name()]
        return parts

    # Definitions

    COLUMNS = "(id INT NOT NULL, tag INT NOT NULL, KEY k (id))"
    PARTITIONS = (
        "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20), "
        "PARTITION p2 VALUES LESS THAN (1000))"
    )

    def _create(self, *, temporary: bool = False) -> list[Part]:
        said: list[Part] = ["CREATE"]
        replaced = self.mariadb and self.random.random() < 0.35
        said += ["OR REPLACE"] if replaced else []
        said += ["TEMPORARY"] if temporary else []
        said += ["TABLE"]
        return said if replaced else said + self.maybe("IF NOT EXISTS", often=0.4)

    def create(self) -> tuple[list[Part], set[str]]:
        tail = self.one("", "", "COMMENT='DROP TABLE `orders`'", "COMMENT 'it''s /* not */'", self.PARTITIONS)
        return [*self._create(), self.name(), self.COLUMNS, *tail], set()

    def create_like(self) -> tuple[list[Part], set[str]]:
        return [*self._create(), self.name(), "LIKE", self.name()], set()

    def create_select(self) -> tuple[list[Part], set[str]]:
        return [*self._create(), self.name(), "AS" if self.random.random() < 0.5 else "",
                "SELECT id, tag FROM", self.name()], set()  # fmt: skip

    def temporary(self) -> tuple[list[Part], set[str]]:
        return [*self._create(temporary=True), self.name(), self.COLUMNS], set()

    def drop(self) -> tuple[list[Part], set[str]]:
        return [
            "DROP", self.random.choice(("TABLE", "TABLES")), *self.if_exists(), *self.listed(), *self.wait(),
            *self.one("", "", "RESTRICT", "CASCADE"),
        ], set()  # fmt: skip

    def drop_temporary(self) -> tuple[list[Part], set[str]]:
        return ["DROP", "TEMPORARY", "TABLE", *self.if_exists(), *self.listed()], set()

    def rename(self) -> tuple[list[Part], set[str]]:
        first, second, spare = self.name(), self.name(), Name("s", f"spare{self.random.randrange(3)}")
        pairs = self.random.choice(
            (
                [(first, second)],
                [(first, spare), (second, first), (spare, second)],
                [(first, second), (second, self.name())],
                [(first, Name(self.random.choice(SCHEMAS), spare.table))],
            )
        )
        said: list[Part] = ["RENAME", self.random.choice(("TABLE", "TABLES"))]
        said += self.if_exists() if self.mariadb else []
        for number, (old, new) in enumerate(pairs):
            said += [*([","] if number else []), old, *self.wait(), "TO", new]
        return said, set()

    def truncate(self) -> tuple[list[Part], set[str]]:
        return ["TRUNCATE", *self.maybe("TABLE", often=0.6), self.name(), *self.wait()], {"truncate"}

    def _alter(self) -> list[Part]:
        more: list[Part] = []
        if self.mariadb:
            more = [*self.maybe("ONLINE", often=0.1), *self.maybe("IGNORE", often=0.1)]
        return [
            "ALTER",
            *more,
            "TABLE",
            *(self.if_exists() if self.mariadb else []),
            self.name(),
            *self.wait(),
        ]

    def alter(self) -> tuple[list[Part], set[str]]:
        number = self.random.randrange(1 << 30)
        clauses: list[list[Part]] = [
            ["RENAME", *self.one("", "TO", "AS", *(["="] if self.mariadb else [])), self.name()],
            ["COMMENT", "'RENAME TO `orders`, DROP PARTITION p0'"],
            [f"ADD COLUMN c{number} INT DEFAULT 3 COMMENT 'x, RENAME y'"],
            [f"ADD KEY i{number} (id, tag)"],
            ["RENAME INDEX k TO k2, RENAME INDEX k2 TO k"],
            ["DROP PARTITION", *(self.maybe("IF EXISTS") if self.mariadb else []), *self.one("p0", "p0,p1")],
            ["TRUNCATE PARTITION", *self.one("ALL", "p0", "p1, p2")],
            [*self.one("EXCHANGE PARTITION p0", "EXCHANGE PARTITION p1"), "WITH TABLE", self.name(),
             *self.one("", "WITHOUT VALIDATION")],
            ["REMOVE PARTITIONING"],
            [self.PARTITIONS],
            ["COALESCE PARTITION 1"],
            ["REBUILD PARTITION ALL"],
            ["FORCE"],
            ["ENGINE", "=", "InnoDB"],
            ["ORDER BY id, tag"],
        ]  # fmt: skip
        chosen = self.random.sample(clauses, self.random.choice((1, 1, 1, 2)))
        said = self._alter()
        for number, clause in enumerate(chosen):
            said += [*([","] if number else []), *clause]
        return said, set()

    def convert(self) -> tuple[list[Part], set[str]]:
        return self.random.choice(
            (
                [*self._alter(), "CONVERT PARTITION", *self.one("p0", "p1"), "TO TABLE", self.name()],
                [*self._alter(), "CONVERT TABLE", self.name(), "TO PARTITION p9", "VALUES LESS THAN (2000)"],
            )
        ), set()

    def failing(self) -> tuple[list[Part], set[str]]:
        """An ALTER that ends in an error when it has worked for a while, for most tables."""
        return [*self._alter(), "ADD UNIQUE KEY u (id)", ",", "RENAME TO", self.name()], set()

    def index(self) -> tuple[list[Part], set[str]]:
        name = f"i{self.random.randrange(4)}"
        if self.random.random() < 0.5:
            return ["DROP INDEX", *(self.if_exists() if self.mariadb else []), name, "ON", self.name()], set()
        replace = self.maybe("OR REPLACE") if self.mariadb else []
        return ["CREATE", *replace, *self.maybe("UNIQUE", often=0.1), "INDEX", name,
                *self.maybe("USING BTREE"), "ON", self.name(), "(tag)"], set()  # fmt: skip

    def other(self) -> Name:
        """A name for a view or a sequence, which other tables have as well."""
        name = self.name()
        return name if name.table in OTHERS else Name(name.schema, self.random.choice(OTHERS))

    def view(self) -> tuple[list[Part], set[str]]:
        said: list[Part] = [
            *self.one("CREATE", "CREATE OR REPLACE", "CREATE OR REPLACE", "ALTER"),
            *self.maybe("ALGORITHM=MERGE"),
            *self.maybe("DEFINER=table@localhost", "SQL SECURITY INVOKER", often=0.2),
        ]
        return [*said, "VIEW", self.other(), *self.one("AS SELECT 1 AS id, 2 AS tag")], set()

    def drop_view(self) -> tuple[list[Part], set[str]]:
        return ["DROP VIEW", *self.if_exists(), *self.listed(), *self.one("", "CASCADE")], set()

    def sequence(self) -> tuple[list[Part], set[str]]:
        said = self.one("CREATE", "CREATE OR REPLACE", "CREATE TEMPORARY", "ALTER")
        return [*said, "SEQUENCE", self.other(), "INCREMENT BY 3"], set()

    def drop_sequence(self) -> tuple[list[Part], set[str]]:
        return [
            "DROP",
            *self.maybe("TEMPORARY", often=0.2),
            "SEQUENCE",
            *self.if_exists(),
            *self.listed(),
        ], set()

    def schema(self) -> tuple[list[Part], set[str]]:
        replace = self.random.choice(("CREATE DATABASE IF NOT EXISTS", "CREATE SCHEMA IF NOT EXISTS"))
        if self.mariadb and self.random.random() < 0.2:
            replace = "CREATE OR REPLACE DATABASE"
        return self.one(f"{replace} {LATER}", f"DROP SCHEMA IF EXISTS {LATER}", f"DROP DATABASE {LATER}",
                        f"ALTER DATABASE {LATER} CHARACTER SET utf8mb4"), set()  # fmt: skip

    def program(self) -> tuple[list[Part], set[str]]:
        name = self.random.choice(("`table`", "`orders`", "view"))
        return self.one(
            f"CREATE PROCEDURE s.{name}() DROP TABLE s.orders",
            f"DROP PROCEDURE IF EXISTS s.{name}",
            f"CREATE DEFINER=view@localhost EVENT s.{name} ON SCHEDULE EVERY 1 YEAR DO TRUNCATE s.orders",
            f"DROP EVENT IF EXISTS s.{name}",
            f"CREATE TRIGGER s.{name} BEFORE INSERT ON s.orders FOR EACH ROW SET @drop = 'DROP TABLE orders'",
            f"DROP TRIGGER IF EXISTS s.{name}",
            f"CREATE FUNCTION s.{name}() RETURNS INT DETERMINISTIC RETURN 1",
            f"DROP FUNCTION IF EXISTS s.{name}",
        ), set()

    def upkeep(self) -> tuple[list[Part], set[str]]:
        verb = self.random.choice(("ANALYZE", "OPTIMIZE", "REPAIR", "FLUSH"))
        return [verb, *self.maybe("LOCAL", often=0.2), "TABLE", *self.listed()], set()

    # Rows

    def row(self) -> str:
        self.tag += 1
        return f"({self.random.randrange(30)}, {self.tag})"

    def insert(self) -> tuple[list[Part], set[str]]:
        verb = self.random.choice(("INSERT", "INSERT", "REPLACE"))
        ways = ["", "", "LOW_PRIORITY"] + (
            ["HIGH_PRIORITY", "IGNORE", "HIGH_PRIORITY IGNORE"] if verb == "INSERT" else []
        )
        said: list[Part] = [verb, *self.one(*ways), *self.maybe("INTO", often=0.7), self.name(), "(id, tag)"]
        if self.random.random() < 0.15:
            return [*said, "SELECT id, tag FROM", self.name(), "WHERE tag > 'DROP TABLE'"], set()
        rows = ", ".join(self.row() for _ in range(self.random.randrange(1, 9)))
        return [*said, "VALUES", rows], {"insert"}

    def update(self) -> tuple[list[Part], set[str]]:
        ways = self.one("", "", "LOW_PRIORITY", "IGNORE", "LOW_PRIORITY IGNORE")
        if self.random.random() < 0.3:
            return ["UPDATE", *ways, self.name(), "AS", "a", *self.one("JOIN", "LEFT JOIN", "STRAIGHT_JOIN"),
                    self.name(), "AS b", "ON a.id = b.id", "SET a.tag = a.tag + 100000"], set()  # fmt: skip
        return ["UPDATE", *ways, self.name(), *self.one("", "AS a", "b"), "SET", "tag = tag + 100000"], {
            "update"
        }

    def delete(self) -> tuple[list[Part], set[str]]:
        ways = self.one("", "", "LOW_PRIORITY", "QUICK", "IGNORE")
        first, second = self.name(), self.name()
        whole = self.random.random() < 0.3
        single: list[Part] = ["DELETE", *ways, "FROM", first, *([] if whole else ["WHERE id < 9"])]
        multi: list[list[Part]] = [
            ["DELETE", *ways, "a", "FROM", first, "AS a", "JOIN", second, "b", "ON a.id = b.id"],
            [
                "DELETE",
                *ways,
                "a.*",
                ",",
                "b",
                "FROM",
                first,
                "AS a",
                ",",
                second,
                "AS b",
                "WHERE a.id = b.id",
            ],
            ["DELETE", *ways, "FROM", "b", "USING", first, "AS a", "JOIN", second, "AS b", "USING (id)"],
            ["DELETE", *ways, first, "FROM", first, "JOIN (SELECT 3 AS id) d", "USING (id)"],
        ]
        if not self.mariadb:
            multi.append(["WITH q AS (SELECT 3 AS id)", *single[:-1], "WHERE id IN (SELECT id FROM q)"])
        chosen = self.random.choice((single, *multi))
        return chosen, {"delete"} if chosen is single and whole else set()

    # Spelling

    def spelled(self, parts: Sequence[Part], session: Session) -> str:
        """The text, as a server reads it in that session."""
        words = [self._word(part, session) for part in parts if part]
        if self.mariadb and self.random.random() < 0.05:
            words = ["SET STATEMENT max_statement_time=100 FOR", *words]
        text = words[0]
        for before, word in pairwise(words):
            text += (self._gap() if before not in ("a", "b") else " ") + word
        return self._gap(empty=True) + text + self._gap(empty=True)

    def _gap(self, *, empty: bool = False) -> str:
        if self.random.random() < 0.8:
            return "" if empty else " "
        return self.random.choice(
            (
                "\n", "\t ", " /* DROP TABLE s.orders */ ", " -- it's `\n", " # \"\n", " /**/ ", "  ",
                " --\n", " /*!99999 , zz.a */ ", " /*!40000 */ ", " /*M!999999 TEMPORARY */ ", " /*+ x */ ",
                "/* `*/ ",
            )
        )  # fmt: skip

    def _word(self, part: Part, session: Session) -> str:
        if isinstance(part, Name):
            table = self._quoted(part.table, session)
            if part.schema == session.current and self.random.random() < 0.5:
                return table
            dot = self.random.choice((".", ".", ".", " . ", "./**/"))
            return f"{self._quoted(part.schema, session)}{dot}{table}"
        if part == LATER or not part.replace(" ", "").isalpha():
            return part
        case = self.random.random()
        part = part.lower() if case < 0.2 else part.title() if case < 0.3 else part
        if self.random.random() < 0.04 and part.upper() not in ("A", "B"):
            return self.random.choice(
                ("/*!{}*/", "/*!40000 {} */", "/*!50000{}*/" if not self.mariadb else "/*M!100000 {} */")
            ).format(part)
        return part

    def _quoted(self, name: str, session: Session) -> str:
        if name in BARE and self.random.random() < 0.5:
            return name
        if session.ansi and self.random.random() < 0.5:
            return '"' + name.replace('"', '""') + '"'
        return "`" + name.replace("`", "``") + "`"


def pool() -> Iterator[Name]:
    """All tables that may come to be."""
    for schema in (*SCHEMAS, LATER):
        for table in (*NAMES, "spare0", "spare1", "spare2"):
            yield Name(schema, table)
