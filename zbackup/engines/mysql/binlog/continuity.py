"""Tell by GTIDs whether a binlog file goes on where the one before it ended.

A file begins with the transactions of all files before it: MySQL lists them (Previous_gtids), MariaDB the
last number of each server in each domain (Gtid_list). What the file before began with, and what it holds,
must come to that. Names and numbers prove nothing. Where a server writes no GTIDs nothing is compared.

Sources: MySQL reference manual, "GTID Format and Storage"; MariaDB knowledge base, GTID_LIST_EVENT, and FLUSH
BINARY LOGS DELETE_DOMAIN_ID, by which a domain goes of which no file that is left has a transaction.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from zbackup.engines.mysql.binlog.events import FIRST_EVENT, GTID_LIST
from zbackup.engines.mysql.binlog.reader import opened
from zbackup.engines.mysql.binlog.scan import Scanner
from zbackup.engines.mysql.binlog.transactions_before import Earlier, Intervals, read_earlier

_SHOWN: Final = 3


def break_between(one: Path, following: Path) -> str:
    """Why `following` does not go on where `one` ends, "" where it does, or where nobody can tell.

    Raise BinlogDamaged for what cannot be read.
    """
    with opened(following) as scanner:
        said = _earlier(scanner)
    if said is None:
        return ""
    with opened(one) as scanner:
        before = _earlier(scanner)
        if before is None:
            return ""
        contained = _contained(scanner)
    if said.certain:
        return _mysql(_sum(before.sources, contained), _sum(said.sources, {}))
    return _mariadb(before, contained, said)


def _earlier(scanner: Scanner) -> Earlier | None:
    """The transactions in front of a file; None for one without a transaction or without that event."""
    head = scanner.head()
    if head is None:
        return None
    kind, body = head
    try:
        return read_earlier(kind, body)
    except ValueError as wrong:
        name = "Gtid_list" if kind == GTID_LIST else "Previous_gtids"
        raise scanner.damaged(FIRST_EVENT, f"its {name} event: {wrong}") from None


def _contained(scanner: Scanner) -> dict[str, Intervals]:
    """The file's own transactions, by source, in the order in which they stand there."""
    found: defaultdict[str, Intervals] = defaultdict(list)
    for start, _, _ in scanner.spans():
        separator = ":" if (gtid := scanner.gtid(start)).count(":") else "-"
        source, _, digits = gtid.rpartition(separator)
        if not source:
            continue
        number, intervals = int(digits), found[source]
        if intervals and intervals[-1][1] == number:
            intervals[-1] = (intervals[-1][0], number + 1)
        else:
            intervals.append((number, number + 1))
    return found


def _sum(one: Mapping[str, Intervals], other: Mapping[str, Intervals]) -> dict[str, Intervals]:
    """All of both, in order, none twice."""
    return {
        source: merged
        for source in one.keys() | other.keys()
        if (merged := _merged([*one.get(source, ()), *other.get(source, ())]))
    }


def _merged(intervals: Iterable[tuple[int, int]]) -> Intervals:
    found: Intervals = []
    for first, behind in sorted(intervals):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(behind, found[-1][1]))
        elif first < behind:
            found.append((first, behind))
    return found


def _mysql(wanted: Mapping[str, Intervals], said: Mapping[str, Intervals]) -> str:
    between = _without(said, wanted)
    if between:
        return f"transactions that lie between them are missing ({_shown(between)})"
    unknown = _without(wanted, said)
    return f"it knows nothing of transactions in front of it ({_shown(unknown)})" if unknown else ""


def _without(one: Mapping[str, Intervals], other: Mapping[str, Intervals]) -> dict[str, Intervals]:
    """The intervals of the one that the other lacks; both are merged."""
    found = {s: _difference(intervals, other.get(s, [])) for s, intervals in one.items()}
    return {source: left for source, left in found.items() if left}


def _difference(one: Intervals, other: Intervals) -> Intervals:
    found: Intervals = []
    for start, behind in one:
        first = start
        for begin, end in other:
            if end <= first or begin >= behind:
                continue
            if begin > first:
                found.append((first, begin))
            first = max(first, end)
        if first < behind:
            found.append((first, behind))
    return found


def _shown(sources: Mapping[str, Intervals]) -> str:
    texts = [
        f"{source}:{first}-{behind - 1}" if behind - first > 1 else f"{source}:{first}"
        for source, intervals in sorted(sources.items())
        for first, behind in intervals
    ]
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more


def _mariadb(before: Earlier, contained: Mapping[str, Intervals], said: Earlier) -> str:
    """Compare the last number of each server in each domain: the last that was written, whichever it is."""
    last = {source: intervals[-1][1] - 1 for source, intervals in before.sources.items()}
    last |= {source: intervals[-1][1] - 1 for source, intervals in contained.items()}
    now = {source: intervals[-1][1] - 1 for source, intervals in said.sources.items()}
    written = {source.partition("-")[0] for source in contained}
    for source in sorted(last.keys() | now.keys()):
        here, there = last.get(source), now.get(source)
        if here == there or (there is None and source.partition("-")[0] not in written):
            continue
        if there is None:
            return f"it knows nothing of {source}-{here}, which is in front of it"
        if here is None:
            return f"transactions up to {source}-{there} that lie between them are missing"
        return f"it begins behind {source}-{there}, and the one before it ends at {source}-{here}"
    return ""
