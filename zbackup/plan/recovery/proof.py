"""Decide from the restored server whether a search of the log found the right transaction. Pure."""

from collections.abc import Sequence

from zbackup.model.log import how_many
from zbackup.model.proof import Proof, ProofSubject, Sight


def judge(subject: ProofSubject, sights: Sequence[Sight], why: str = "") -> Proof:
    """Judge what the recovered server shows, and what it shows one transaction later.

    `why` is the reason why the second sight is missing.
    """
    before, *later = sights
    after = later[0] if later else None
    name, gone = str(subject.table or "the transaction"), subject.kind == "truncate"
    if unclear := before.unclear or (after.unclear if after else ""):
        return Proof("open", f"{name} cannot be checked: {unclear}")
    if subject.table is None:
        return _transaction(before, after, why)
    if not before.tables:
        return Proof("absent", f"{name} has no rows" if gone else f"{name} is not there")
    there = f"{name} has rows" if gone else f"{name} is there"
    if after is None:
        return Proof("open", there + _unseen(why))
    if taken := before.tables - after.tables:
        count = (
            f" ({how_many(len({each for each, _ in taken}), 'table', 'tables')})"
            if subject.table.is_schema
            else ""
        )
        made_again = {each for each, _ in taken} & {each for each, _ in after.tables}
        partly = "a partition has none" if made_again else "it has none"
        then = partly if gone else "it is another one" if made_again else "it is gone"
        return Proof("proved", f"{there}; one transaction later {then}{count}")
    return Proof("remains", f"{there}, and {'still has them' if gone else 'still is'} one transaction later")


def _transaction(before: Sight, after: Sight | None, why: str) -> Proof:
    if before.holds:
        return Proof("remains", "the transaction is there already")
    if after is None:
        return Proof("open", "the transaction is not there" + _unseen(why))
    if after.holds:
        return Proof("proved", "the transaction is not there; one transaction later it is")
    return Proof("remains", "the transaction is not there, and still is not one transaction later")


def _unseen(why: str) -> str:
    return f"; the state one transaction later could not be checked: {why}" if why else ""


def was_missed(subject: ProofSubject, in_log: bool | None, in_production: bool | None) -> bool:
    """Whether a later drop was missed: the table exists at the end of the log, but not in production.

    None means unknown.
    """
    return subject.kind == "drop" and in_log is True and in_production is False


def goes_on(proof: Proof, in_production: bool | None) -> bool:
    """Whether to look for an earlier statement.

    Not if the table survived the statement and production lacks it: then a later statement dropped it.
    """
    return proof.result == "absent" or (proof.result == "remains" and in_production is True)
