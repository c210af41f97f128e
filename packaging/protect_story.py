"""From the package to a protected host, in the lab's guest under a real systemd: protect_story.py PACKAGE

Three commands on a host that has a MariaDB on ZFS and nothing of zbackup's; says how long they took.
"""

import json
import sys
import time
from pathlib import Path

from tests.slow.init_under_systemd import Host, bare_host, in_the_guest
from tests.system.house import wait_until
from tests.system.program import Result


def main(package: Path) -> None:
    """Install, protect, look. Ends with an error when one of them does."""
    if not in_the_guest():
        sys.exit("this installs a package: run it in the lab's guest")
    Path("/usr/local/bin/zbackup").unlink(missing_ok=True)
    with bare_host() as host:
        began = time.monotonic()
        done(host, "dpkg", "--install", str(package))
        # dpkg has looked at thousands of files, and each stays open on the machine that the guest runs on.
        Path("/proc/sys/vm/drop_caches").write_text("3")
        say(done(host, "/usr/bin/zbackup", "init", "--yes").out)
        say(done(host, "/usr/bin/zbackup", "status").out)
        seconds = time.monotonic() - began
        wait_until("status is ok", lambda: health(host) == "ok", 120)
        user = host.systemd.inside("ps", "-o", "user=", "-C", "zbackup").out.split()
        say(f"story: the daemon runs as {', '.join(sorted(set(user)))}")
        again = done(host, "/usr/bin/zbackup", "init", "--yes")
        say("story: run again nothing is done" if " 1. " not in again.err else again.err)
        say(f"story: protected in three commands, after {seconds:.0f} s")


def done(host: Host, *argv: str) -> Result:
    """A command that has to succeed."""
    result = host.systemd.inside(*argv)
    if result.rc != 0:
        state = host.systemd.ask("status", "zbackup.service")
        log = host.systemd.journal("zbackup.service")
        as_daemon = ("setpriv", "--reuid=zbackup", "--regid=zbackup", "--init-groups", "timeout", "5")
        by_hand = host.systemd.inside(*as_daemon, "/usr/bin/zbackup", "daemon")
        sys.exit(f"{result}\n{state}\n{log}\nby hand: {by_hand}")
    return result


def health(host: Host) -> str:
    """What status says of the one instance."""
    said = host.systemd.inside("/usr/bin/zbackup", "status", "--json").out
    return str(json.loads(said)["data"][0]["health"])


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
