"""A program called zfs that stands before the real one, to make it slow or to kill whoever calls it.

zbackup knows nothing of it: it is found first in the PATH that a test gives to one run.
"""

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

_SCRIPT = """#!/bin/sh
# Changes are counted; questions go through.
real={real} home={home}
case "$1 $2" in "list "*|"get "*|"holds "*|"send -n"*) exec "$real" "$@" ;; esac
echo "$1" >> "$home/calls"
number=$(wc -l < "$home/calls")
if [ -e "$home/slow-$1" ]; then
    : > "$home/waiting"
    sleep "$(cat "$home/slow-$1")"
fi
if [ -e "$home/shut-$1" ]; then
    : > "$home/waiting"
    while [ -e "$home/shut-$1" ]; do sleep 0.1; done
fi
if [ "$number" = "$(cat "$home/wait-at")" ]; then
    : > "$home/waiting"
    while [ "$number" = "$(cat "$home/wait-at")" ]; do sleep 0.1; done
fi
[ "$number" = "$(cat "$home/kill-before")" ] && {{ kill -KILL $PPID; exit 1; }}
"$real" "$@"
status=$?
[ "$number" = "$(cat "$home/kill-after")" ] && kill -KILL $PPID
exit $status
"""


_HISTORY = Path("/sys/module/zfs/parameters/zfs_txg_history")


class ZfsDoor:
    """The directory with the program, and what it is told to do. `home` must not exist yet."""

    def __init__(self, home: Path) -> None:
        real = shutil.which("zfs")
        assert real, "there is no zfs"
        self._home = home
        self._history = _HISTORY.read_text()
        home.mkdir()
        program = home / "zfs"
        program.write_text(_SCRIPT.format(real=shlex.quote(real), home=shlex.quote(str(home))))
        program.chmod(0o755)
        self.kill()

    def close(self) -> None:
        """Let ZFS tell again what `slow` made it keep to itself."""
        _HISTORY.write_text(self._history)

    @property
    def environment(self) -> Mapping[str, str]:
        """For the run that is to pass this door."""
        return {"PATH": f"{self._home}:{os.environ['PATH']}"}

    def slow(self, verb: str, seconds: float) -> None:
        """Make every `zfs VERB` wait before it takes effect, and a lock last as long as a slow snapshot.

        zbackup would let go at the next transaction group, some time in these seconds, so ZFS is not to tell.
        """
        self._tell_no_groups(verb)
        (self._home / f"slow-{verb}").write_text(str(seconds))

    def shut(self, verb: str) -> None:
        """Make every `zfs VERB` wait before it takes effect, until the door is opened."""
        self._tell_no_groups(verb)
        (self._home / f"shut-{verb}").touch()

    def open(self, verb: str) -> None:
        """Let go on what waits, and let pass what comes."""
        (self._home / f"shut-{verb}").unlink(missing_ok=True)

    def wait_at(self, number: int) -> None:
        """Make the Nth change since `kill` wait before it takes effect, until this is said again."""
        (self._home / "wait-at").write_text(str(number))

    def kill(self, *, before: int = 0, after: int = 0) -> None:
        """Kill the caller of the Nth change from now on, before or after it takes effect; 0: of none."""
        (self._home / "kill-before").write_text(str(before))
        (self._home / "kill-after").write_text(str(after))
        self.wait_at(0)
        (self._home / "calls").write_text("")

    @property
    def waiting(self) -> bool:
        """Whether a slow command has been called."""
        return (self._home / "waiting").exists()

    @property
    def calls(self) -> list[str]:
        """The verbs of the changes so far."""
        return (self._home / "calls").read_text().split()

    def _tell_no_groups(self, verb: str) -> None:
        if verb == "snapshot":
            _HISTORY.write_text("0")
