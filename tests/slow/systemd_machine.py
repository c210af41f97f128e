"""A real systemd for a test: process 1 of a PID namespace in the lab's guest, with zbackup's own units.

Mounts are shared with the rest of the guest, as they are on a machine; processes have numbers of their own,
so whatever looks at processes is run inside, and so is whoever talks to systemd: it answers nobody whose
process it has no number for.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.lab.reach import let_reach
from tests.system.house import ZBACKUP, wait_until
from tests.system.program import Result
from tests.unit.docs.typed import shell

PROJECT = Path(__file__).resolve().parents[2]
ETC = Path("/etc/systemd/system")
UNSHARE = ("unshare", "--fork", "--pid", "--mount", "--propagation=unchanged", "--mount-proc", "--kill-child")
TARGET = """[Unit]
Description=Nothing but what the test starts
Requires=systemd-journald.service
After=systemd-journald.service
AllowIsolate=yes
"""


class Systemd:
    """Call `boot` first and `power_off` in the end."""

    def boot(self) -> None:
        """Install the files as docs/how-to/run-as-a-service.md says, and start systemd."""
        assert os.environ.get("LAB_INSIDE") == "guest", "this changes /etc: only in the lab's guest"
        let_reach(ZBACKUP, Path(sys.executable))
        ETC.mkdir(parents=True, exist_ok=True)
        ours = {"sysusers &&": "sysusers zbackup.conf &&", "--create": "--create zbackup.conf"}
        for line in (
            shell("run-as-a-service.md", "install -m 644 systemd/zbackup.sysusers.conf"),
            shell("run-as-a-service.md", "install -m 644 systemd/zbackup.tmpfiles.conf"),
            shell("run-as-a-service.md", "install -m 644 systemd/zbackup.service systemd/zbackup-clone@"),
            shell("run-as-a-service.md", "install -m 644 systemd/zbackup-helper.socket"),
            shell("run-as-a-service.md", "install -m 644 systemd/zbackup-drill.socket"),
            shell("run-as-a-service.md", "install -m 644 systemd/zbackup-read.socket"),
            shell("run-as-a-service.md", "systemd-sysusers", ours),
        ):
            subprocess.run(("sh", "-c", line), check=True, cwd=PROJECT)
        Path("/usr/local/bin/zbackup").symlink_to(ZBACKUP)
        self.boot_bare()

    def boot_bare(self) -> None:
        """Start systemd on a host that has nothing of zbackup yet."""
        assert os.environ.get("LAB_INSIDE") == "guest", "this changes /etc: only in the lab's guest"
        ETC.mkdir(parents=True, exist_ok=True)
        (ETC / "lab.target").write_text(TARGET)
        inside = ("/usr/lib/systemd/systemd", "--system", "--unit=lab.target", "--log-target=null")
        self._log = Path("/tmp/systemd.log").open("wb")  # noqa: SIM115  as long as systemd runs
        self._outer = subprocess.Popen(
            (*UNSHARE, *inside),
            env={"PATH": os.environ["PATH"], "container": "lab"},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        wait_until("systemd is there", lambda: bool(_children(self._outer.pid)), 60)
        (self._first,) = _children(self._outer.pid)
        wait_until("systemd is up", lambda: self.ask("is-active", "lab.target") == "active", 120)

    def power_off(self) -> None:
        self._outer.kill()
        self._outer.wait()
        self._log.close()

    def inside(self, *argv: str, environment: Mapping[str, str] | None = None) -> Result:
        """Run a command where systemd's processes are, as somebody who logged in would."""
        enter = ("nsenter", f"--target={self._first}", "--pid", "--mount", "--", *argv)
        done = subprocess.run(
            enter, capture_output=True, text=True, check=False, env={**os.environ, **(environment or {})}
        )
        return Result(argv=argv, rc=done.returncode, out=done.stdout, err=done.stderr)

    def type(self, line: str) -> Result:
        """Run a line as a shell there takes it; it has to succeed."""
        done = self.inside("sh", "-c", line)
        assert done.rc == 0, done
        return done

    def zbackup(self, *words: str) -> Result:
        return self.inside("/usr/local/bin/zbackup", *words)

    def ask(self, *words: str) -> str:
        """What systemctl says."""
        return self.inside("systemctl", "--no-pager", *words).out.strip()

    def do(self, *words: str) -> None:
        """What systemctl has to succeed in."""
        done = self.inside("systemctl", "--no-pager", *words)
        assert done.rc == 0, f"{done}\n{self._state(words[-1])}"

    def show(self, unit: str, name: str) -> str:
        """A property of a unit."""
        return self.ask("show", "--value", f"--property={name}", unit)

    def journal(self, unit: str) -> str:
        """What a unit logged, without decoration."""
        self.inside("journalctl", "--sync")
        return self.inside("journalctl", "--no-pager", "-o", "cat", "-u", unit).out

    def wait_for_log(self, unit: str, text: str, times: int = 1, within: float = 120) -> None:
        deadline = time.monotonic() + within
        while self.journal(unit).count(text) < times:
            assert time.monotonic() < deadline, f"not in the journal: {text}\n{self._state(unit)}"
            time.sleep(0.5)

    def _state(self, unit: str) -> str:
        return f"{self.ask('status', unit)}\n{self.journal(unit)}"


def _children(parent: int) -> list[str]:
    """The process ids of a process's children (proc(5), /proc/pid/stat; not all kernels list them)."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if file.read_text().rpartition(")")[2].split()[1] == str(parent):
                found.append(file.parent.name)
    return found
