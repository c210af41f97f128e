"""Semi-synchronous replication: what its settings mean for whoever waits for a commit. Pure.

MySQL reference manual, "Semisynchronous Replication" (the plugin calls the server source, or master in older
packages); MariaDB's manual, "Semisynchronous Replication" (always master).
"""

from collections.abc import Mapping

LONG_S = 60.0
"""A timeout from which on commits that wait for a replica are an outage, and no hiccup."""
_NAMES = ("rpl_semi_sync_source", "rpl_semi_sync_master")


def semi_sync_warnings(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Warn where commits wait, or may wait for long, for replicas that are not there.

    `variables` are those of the server, with its status (Rpl_semi_sync_*).
    """
    name = next((name for name in _NAMES if variables.get(f"{name}_enabled") in ("ON", "1")), "")
    status = {key.lower(): value for key, value in variables.items() if key.startswith("Rpl_semi_sync_")}
    if not name or status.get(f"{name}_status", "ON") == "OFF":
        return ()
    wanted = int(variables.get(f"{name}_wait_for_replica_count") or variables.get(_old_count(name)) or 1)
    there = int(status.get(f"{name}_clients") or 0)
    timeout_s = int(variables.get(f"{name}_timeout") or 0) / 1000
    setting = f"semi-sync replication: {there} of {wanted} replicas are connected, timeout {timeout_s:.15g} s"
    if there < wanted:
        return (
            f"{setting} ({name}_timeout): each commit waits that long, and so does a backup's lock, "
            f"which gives up after lock.wait: start a replica, or SET GLOBAL {name}_enabled = OFF",
        )
    if timeout_s > LONG_S:
        return (
            f"{setting} ({name}_timeout): when a replica is lost, commits wait that long, and a lock that "
            "stops commits is not granted during that time",
        )
    return ()


def _old_count(name: str) -> str:
    return f"{name}_wait_for_slave_count"
