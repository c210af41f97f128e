"""A server that has replayed goes on as its users' server, with no stop and start in between. Pure.

What was said at its start because nobody's data was at stake is taken back, all that it holds in memory alone
is written out, and from then on it is the server that a start would have given. What is written out is on
disk when the clone is marked as ready: that is a change of ZFS's own, which waits for the transaction group,
and that one holds every write that came before.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from zbackup.model.recovery import Serving

_TAKEN_BACK = ("innodb_flush_log_at_trx_commit", "sync_binlog")
_AS_RECORDED = ("innodb_strict_mode", "log_bin_trust_function_creators")


def can_stay(serving: Serving) -> bool:
    """Whether nothing differs that is only said at a start, such as a port or limits."""
    return replace(serving, read_only=False, memory=0) == Serving()


def taken_back(flavor: str, recorded: Mapping[str, str]) -> list[str]:
    """Statements that make it as durable and as strict as one that was started for users.

    `recorded` is Record.server.
    """
    values = {name: "DEFAULT" for name in _TAKEN_BACK}
    values |= {name: _word(recorded.get(name, "")) for name in _AS_RECORDED}
    # A step between neighbours, which a server takes while it runs (MySQL manual, "Changing GTID Mode
    # Online").
    if flavor == "mysql" and recorded.get("gtid_mode") in ("ON", "OFF"):
        values["gtid_mode"] = _word(recorded["gtid_mode"])
    return [f"SET GLOBAL {name} = {value}" for name, value in values.items()]


def given_back(flavor: str, has: int, wanted: int) -> str:
    """The statement that gives a buffer pool of `has` bytes the wanted size; "" where it is no larger.

    A crash recovery of MariaDB's may have got more (recovery_memory). Pages are written to their files for
    this, which nobody needs to wait for.
    """
    larger = flavor == "mariadb" and has > wanted
    return f"SET GLOBAL innodb_buffer_pool_size = {wanted}" if larger else ""


def at_last(flavor: str, *, read_only: bool) -> list[str]:
    """Statements for when our account is no more: write out what is in memory alone, then close the door.

    A table that is no transaction's is closed by the first, and the second writes InnoDB's log.
    """
    flushes = ["FLUSH LOCAL TABLES", "FLUSH LOCAL ENGINE LOGS"]
    if not read_only:
        return flushes
    if flavor == "mysql":
        return [*flushes, "SET GLOBAL super_read_only = ON"]
    return [*flushes, "SET GLOBAL read_only = ON", "SET GLOBAL TRANSACTION READ ONLY"]


def _word(value: str) -> str:
    return value if re.fullmatch(r"\w+", value) else "DEFAULT"
