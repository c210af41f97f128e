"""Directories of a host that root mounts below or writes in: root's alone, all the way up.

The package, `zbackup install-service` and `zbackup init` make them alike, by systemd/zbackup.tmpfiles.conf.
Where no systemd runs, and where an older version was installed, root's commands make what is missing.
"""

from typing import Final

RUN: Final = "/run/zbackup"
CLONES: Final = "/var/lib/zbackup/clones"
LOG_ARCHIVE: Final = "/var/lib/zbackup/log-archive"
"""The log archives of other hosts, or of this one, are mounted below it."""

ROOTS_ALONE: Final = (RUN, CLONES, LOG_ARCHIVE)
