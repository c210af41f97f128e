"""The machine's log (syslog(3)), for what must be known on this host and not only to who connected."""

import syslog

from zbackup.model.printable import printable


def tell(name: str, text: str, *, warning: bool) -> None:
    """One line under the name of a program; without a log on this machine it goes nowhere."""
    syslog.openlog(name, syslog.LOG_PID, syslog.LOG_AUTHPRIV)
    syslog.syslog(syslog.LOG_WARNING if warning else syslog.LOG_INFO, printable(text))
