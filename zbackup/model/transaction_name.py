"""Names by which people tell one transaction: its GTID, or its position in the log."""

import re
from dataclasses import dataclass
from typing import Final, Literal

from zbackup.model.errors import UsageError
from zbackup.model.log import ClusterTime, LogPosition

_UUID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_MYSQL: Final = re.compile(rf"(?P<source>{_UUID}(?::[a-z_][a-z0-9_]{{0,31}})?):(?P<number>[0-9]{{1,19}})")
_MARIADB: Final = re.compile(r"(?P<domain>[0-9]{1,10})-(?P<server>[0-9]{1,10})-(?P<number>[0-9]{1,20})")
_POSITION: Final = re.compile(r"(?P<file>[^/:\s]+\.[0-9]{6,10}):(?P<offset>[0-9]{1,19})")
_RANGE: Final = re.compile(r"(?P<first>[0-9]{1,19})(?:-(?P<last>[0-9]{1,19}))?")
_SEVERAL: Final = re.compile(rf"{_UUID}:.*[-:,].*|[0-9]+-[0-9]+-[0-9]+\s*,.*")

FORMS: Final = (
    "a GTID (3e11fa47-71ca-11e1-9e33-c80aa9429562:23, for MariaDB 0-1-23) "
    "or FILE:POSITION (binlog.000012:4711)"
)


@dataclass(frozen=True, slots=True)
class Gtid:
    """A transaction's global id, as its server writes it. `source` is all but the number at its end."""

    flavor: Literal["mysql", "mariadb"]
    source: str
    number: int

    def __str__(self) -> str:
        return f"{self.source}{':' if self.flavor == 'mysql' else '-'}{self.number}"

    def is_in(self, recorded: str) -> bool:
        """Whether it is in a set of GTIDs as servers write them.

        MariaDB tells the last one of each domain only, so this goes by the numbers in the domain.
        """
        if self.flavor == "mysql":
            return any(self._is_among(entry.strip().lower()) for entry in recorded.split(","))
        last = [found for entry in recorded.split(",") if (found := _MARIADB.fullmatch(entry.strip()))]
        domain = self.source.partition("-")[0]
        return any(each["domain"] == domain and self.number <= int(each["number"]) for each in last)

    def _is_among(self, entry: str) -> bool:
        """Whether it is in UUID:1-5:7:tag:1-3; a tag is that of the numbers behind it.

        What is no range is a tag, so that nothing which was recorded wrongly holds it.
        """
        uuid, *parts = entry.split(":")
        source = uuid
        for part in parts:
            found = _RANGE.fullmatch(part)
            if not found:
                source = f"{uuid}:{part}"
                continue
            first, last = found["first"], found["last"] or found["first"]
            if source == self.source and int(first) <= self.number <= int(last):
                return True
        return False


TransactionName = Gtid | LogPosition


def parse_transaction(text: str) -> TransactionName:
    """Read what names one transaction: a GTID of either flavour, or FILE:POSITION. Raise UsageError."""
    cleaned = text.strip()
    lower = cleaned.lower()
    if (found := _MYSQL.fullmatch(lower)) and 0 < int(found["number"]) < 2**63:
        return Gtid("mysql", found["source"], int(found["number"]))
    if (found := _MARIADB.fullmatch(lower)) and _in_range(found):
        return Gtid("mariadb", f"{int(found['domain'])}-{int(found['server'])}", int(found["number"]))
    if (found := _POSITION.fullmatch(cleaned)) and int(found["offset"]) < 2**63:
        return LogPosition.of(found["file"], int(found["offset"]))
    if _SEVERAL.fullmatch(lower):
        raise UsageError(f'"{text}" is not one transaction: write {FORMS}')
    raise UsageError(f'"{text}" names no transaction: write {FORMS}')


def parse_named(text: str) -> TransactionName | ClusterTime:
    """Read what names one transaction; of MongoDB its cluster time, also with the term behind it, as zbackup
    log shows it. Raise UsageError."""
    try:
        return ClusterTime.parse(re.sub(r"@-?[0-9]{1,19}\s*$", "", text))
    except ValueError:
        return parse_transaction(text)


def _in_range(found: "re.Match[str]") -> bool:
    return max(int(found["domain"]), int(found["server"])) < 2**32 and int(found["number"]) < 2**64
