"""Tell how a server keeps its log and writes its pages, in words every engine has. Pure.

MySQL reference manual, "Binary Logging Options and Variables"; MariaDB's manual, "Replication and Binary Log
System Variables": 0 means that nothing is purged by age. MariaDB has binlog_expire_logs_seconds since 10.6.
"""

import math
from collections.abc import Mapping

from zbackup.engines.mysql.server.status import Dialect
from zbackup.model.server import Tuning

DAY_S = 86_400.0


def tuning(variables: Mapping[str, str], server: Dialect) -> Tuning:
    """Read SHOW GLOBAL VARIABLES."""
    seconds = _retention(variables)
    double_write = variables.get("innodb_doublewrite", "")
    return Tuning(
        log_retention_s=seconds,
        retention_setting="binlog_expire_logs_seconds"
        if "binlog_expire_logs_seconds" in variables
        else "expire_logs_days",
        page_size=int(variables.get("innodb_page_size", "0")) or None,
        data_directory=variables.get("innodb_data_home_dir") or variables["datadir"],
        double_write=double_write.upper() not in ("OFF", "0", "") if double_write else None,
        keep_setting="SET PERSIST" if server.is_mysql(8, 0) else "SET GLOBAL",
    )


def _retention(variables: Mapping[str, str]) -> float:
    if variables.get("binlog_expire_logs_auto_purge") == "OFF":
        return math.inf
    by_seconds = float(variables.get("binlog_expire_logs_seconds", "0"))
    by_days = float(variables.get("expire_logs_days", "0")) * DAY_S
    return min((limit for limit in (by_seconds, by_days) if limit > 0), default=math.inf)
