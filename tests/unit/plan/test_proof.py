"""What a recovered server proves of the transaction that a search found."""

import pytest

from zbackup.model.proof import Proof, ProofSubject, Sight
from zbackup.model.table_name import TableName
from zbackup.plan.recovery.proof import goes_on, judge, was_missed

ORDERS = TableName("shop", "orders")
DROP, TRUNCATE = ProofSubject(kind="drop", table=ORDERS), ProofSubject(kind="truncate", table=ORDERS)
SCHEMA = ProofSubject(kind="drop", table=TableName("shop", "*"))
NAMED = ProofSubject()


def sight(*names: str, unclear: str = "") -> Sight:
    return Sight(tables=frozenset((name, "1") for name in names), unclear=unclear)


THERE, NONE = sight("orders"), sight()
ANOTHER = Sight(tables=frozenset({("orders", "2")}))
THERE_IN_P1 = Sight(tables=frozenset({("orders", "p1")}))
HELD, NOT_HELD = Sight(holds=True), Sight()


@pytest.mark.parametrize(
    ("subject", "sights", "result", "text"),
    [
        (DROP, (THERE, NONE), "proved", "shop.orders is there; one transaction later it is gone"),
        (DROP, (THERE, ANOTHER), "proved", "shop.orders is there; one transaction later it is another one"),
        (DROP, (THERE, THERE), "remains", "shop.orders is there, and still is one transaction later"),
        (DROP, (NONE,), "absent", "shop.orders is not there"),
        (DROP, (NONE, NONE), "absent", "shop.orders is not there"),
        (DROP, (THERE,), "open", "shop.orders is there"),
        (SCHEMA, (sight("a", "b", "c"), sight("b")), "proved", "one transaction later it is gone (2 tables)"),
        (SCHEMA, (sight("a", "b"), sight("a", "b")), "remains", "still is"),
        (TRUNCATE, (THERE, NONE), "proved", "shop.orders has rows; one transaction later it has none"),
        (
            TRUNCATE,
            (THERE, THERE),
            "remains",
            "shop.orders has rows, and still has them one transaction later",
        ),
        (
            TRUNCATE,
            (Sight(tables=frozenset({("orders", "p0"), ("orders", "p1")})), THERE_IN_P1),
            "proved",
            "shop.orders has rows; one transaction later a partition has none",
        ),
        (TRUNCATE, (THERE_IN_P1, THERE_IN_P1), "remains", "still has them"),
        (TRUNCATE, (NONE,), "absent", "shop.orders has no rows"),
        (
            TRUNCATE,
            (sight(unclear="MEMORY keeps none"),),
            "open",
            "shop.orders cannot be checked: MEMORY keeps",
        ),
        (
            TRUNCATE,
            (THERE, sight(unclear="MEMORY keeps none")),
            "open",
            "cannot be checked: MEMORY keeps none",
        ),
        (NAMED, (NOT_HELD, HELD), "proved", "the transaction is not there; one transaction later it is"),
        (NAMED, (NOT_HELD,), "open", "the transaction is not there"),
        (NAMED, (HELD,), "remains", "the transaction is there already"),
        (NAMED, (HELD, HELD), "remains", "the transaction is there already"),
        (NAMED, (NOT_HELD, NOT_HELD), "remains", "still is not one transaction later"),
    ],
)
def test_what_was_seen_decides(
    subject: ProofSubject, sights: tuple[Sight, ...], result: str, text: str
) -> None:
    proof = judge(subject, sights)
    assert proof.result == result
    assert text in proof.text


@pytest.mark.parametrize("subject", [DROP, TRUNCATE, NAMED])
def test_why_a_later_look_was_not_had_is_told(subject: ProofSubject) -> None:
    first = NOT_HELD if subject is NAMED else THERE
    proof = judge(subject, (first,), "the pool is full")
    assert proof.result == "open" and proof.text.endswith("could not be checked: the pool is full")


@pytest.mark.parametrize(
    ("result", "in_production", "goes"),
    [
        ("absent", None, True),
        ("absent", False, True),
        ("remains", True, True),
        ("remains", False, False),
        ("remains", None, False),
    ],
)
def test_an_earlier_one_is_looked_for_unless_a_later_one_must_have_been_missed(
    result: str, in_production: bool | None, goes: bool
) -> None:
    assert goes_on(Proof(result, ""), in_production) == goes  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("subject", "in_log", "in_production", "missed"),
    [
        (DROP, True, False, True),
        (SCHEMA, True, False, True),
        (DROP, True, True, False),
        (DROP, True, None, False),
        (DROP, False, False, False),
        (DROP, None, False, False),
        (TRUNCATE, True, False, False),
    ],
)
def test_a_later_drop_was_missed_where_the_log_has_the_table_and_production_has_not(
    subject: ProofSubject, in_log: bool | None, in_production: bool | None, missed: bool
) -> None:
    assert was_missed(subject, in_log, in_production) == missed
