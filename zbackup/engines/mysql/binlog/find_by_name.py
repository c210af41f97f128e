"""Find one transaction in a log by its name, without reading all of it."""

from collections.abc import Sequence
from pathlib import Path
from struct import Struct
from typing import Final

from zbackup.engines.mysql.binlog.errors import BinlogDamaged, BinlogTooOld
from zbackup.engines.mysql.binlog.files import sequence
from zbackup.engines.mysql.binlog.position import LoggedTransaction
from zbackup.engines.mysql.binlog.reader import begun, describe, opened
from zbackup.engines.mysql.binlog.scan import Scanner
from zbackup.engines.mysql.binlog.search_by_filter import Finder
from zbackup.engines.mysql.binlog.transactions_before import Earlier, read_earlier
from zbackup.model.log import LogPosition, Searched
from zbackup.model.transaction_name import Gtid, TransactionName

_NUMBER_AND_DOMAIN: Final = Struct("<Q I")


def find(name: TransactionName, files: Sequence[Path]) -> Searched:
    """Look for it in files of one log, at least one, oldest first; numbers may be missing between them.

    Raise BinlogDamaged or BinlogEncrypted when a file that has to be read cannot be.
    """
    found: Sequence[LoggedTransaction]
    if isinstance(name, Gtid):
        found, why = find_gtid(name, files)
    else:
        one, why = find_position(name, files)
        found = [one] if one else []
    return Searched(
        found=found[0].described() if found else None,
        others=tuple(each.described() for each in found[1:]),
        first=files[0].name,
        last=files[-1].name,
        begun=begun(files[0]),
        why=why,
    )


def find_position(position: LogPosition, files: Sequence[Path]) -> tuple[LoggedTransaction | None, str]:
    """The transaction that the position lies in or that begins there; else None, and why."""
    file = next((f for f in files if f.name == position.file), None)
    if file is None:
        oldest, base = files[0].name, position.file.rpartition(".")[0]
        gone = oldest.rpartition(".")[0] == base and sequence(oldest) > sequence(position.file)
        return None, f"there is no {position.file} any more" if gone else f"there is no {position.file}"
    with opened(file) as scanner:
        for span in scanner.spans():
            if position.offset < span[0]:
                return None, f"{position} is in no transaction: the next one begins at {span[0]}"
            if position.offset < span[1]:
                return describe(file, scanner, span), ""
    return None, f"{position} is in no transaction: none ends behind it in that file"


def find_gtid(gtid: Gtid, files: Sequence[Path]) -> tuple[list[LoggedTransaction], str]:
    """The transactions with that global id, the oldest first; where there is none, why.

    MySQL gives each once. MariaDB without gtid_strict_mode gives a number again when it is told to
    (gtid_seq_no), and when servers were exchanged or their logs reset: so every file is looked at.
    """
    heads = [earlier(file) for file in files]
    found: list[LoggedTransaction] = []
    for file in _candidates(gtid, files, heads):
        with opened(file) as scanner:
            if gtid.flavor == "mariadb" and not _is_named_in(scanner, gtid):
                continue
            named = (span for span in scanner.spans() if scanner.gtid(span[0]) == str(gtid))
            found += [describe(file, scanner, span) for span in named]
        if found and gtid.flavor == "mysql":
            break
    if found:
        return sorted(found, key=lambda each: each.start), ""
    if heads[0] and heads[0].contains(gtid):
        return [], f"{gtid} was before {files[0].name}, the oldest there is"
    return [], f"{gtid} is not there"


def _is_named_in(scanner: Scanner, gtid: Gtid) -> bool:
    """Whether the bytes of MariaDB's GTID event are in the file: its number and domain come together.

    That is found some ten times faster than the transactions are.
    """
    domain = int(gtid.source.partition("-")[0])
    return Finder(scanner.data, _NUMBER_AND_DOMAIN.pack(gtid.number, domain)).at(0) < len(scanner.data)


def _candidates(gtid: Gtid, files: Sequence[Path], heads: Sequence[Earlier | None]) -> list[Path]:
    """The files it may be in, the likeliest first: those that do not know of it, while the next one does.

    A head that is not known rules out nothing.
    """
    ranked = []
    for index, (file, head, following) in enumerate(zip(files, heads, (*heads[1:], None), strict=True)):
        before = head is not None and head.contains(gtid)
        if (before and head and head.certain) or (following and not following.may_contain(gtid)):
            continue
        after = following.contains(gtid) if following else file is files[-1]
        ranked.append((head is None, before or not after, -index, file))
    return [file for *_, file in sorted(ranked, key=lambda r: r[:3])]


def earlier(path: Path) -> Earlier | None:
    """What was in the log before the file, by its beginning.

    None where that cannot be told: a crash cut the file off too early, or it is damaged or too old, which
    matters only if the file has to be read. Raise BinlogEncrypted.
    """
    try:
        with opened(path) as scanner:
            head = scanner.head()
        return read_earlier(*head) if head else None
    except (BinlogDamaged, BinlogTooOld, ValueError):
        return None
