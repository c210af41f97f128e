"""The machine itself as the lab: it has the OpenZFS module and we are root."""

import os
import select
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path

from tests.lab import runs
from tests.lab.guest import GRACE, Sink, kept_files
from tests.lab.request import TIMED_OUT, BadRequest, Outcome, Request

ZFS_DEVICE = Path("/dev/zfs")


def unusable() -> str | None:
    """Why the machine itself cannot be the lab; None when it can."""
    if os.geteuid() != 0:
        return "not root"
    if shutil.which("zfs") is None or shutil.which("zpool") is None:
        return "zfs and zpool are not installed"
    try:
        ZFS_DEVICE.open("rb").close()
    except OSError as error:
        return f"no OpenZFS module: {ZFS_DEVICE}: {error.strerror}"
    done = subprocess.run(["zfs", "version"], capture_output=True, text=True, check=False, timeout=30)
    return None if done.returncode == 0 else f"zfs version fails: {done.stderr.strip()}"


class NativeRun:
    """Runs one request on this machine; the same methods as a Guest."""

    def __init__(self, request: Request, out: Sink, err: Sink) -> None:
        self._request = request
        self._sinks = (out, err)
        self._process: subprocess.Popen[bytes] | None = None
        self._deadline: float | None = None
        self._asked: list[int] = []

    def run(self, terminal: tuple[int, int] | None = None) -> Outcome:
        """Run the command and say how it ended."""
        with runs.new_run("native") as run:
            environment = {
                **self._request.environment,
                "LAB_INSIDE": "native",
                "LAB_DISKS": ":".join(str(path) for path in self._disk_files(run)),
            }
            if terminal is not None:
                done = subprocess.run(
                    self._request.command, cwd=self._request.directory, env=environment, check=False
                )
                return Outcome(status=done.returncode if done.returncode >= 0 else 128 - done.returncode)
            outcome = self._supervised(run, environment)
            return replace(outcome, kept=kept_files(run, self._request, outcome))

    def signal(self, number: int) -> None:
        """Pass a signal on to the command; asked a second time, or not obeyed, it is killed."""
        self._asked.append(number)
        if self._process is None or len(self._asked) > 1:
            self.kill()
            return
        os.killpg(self._process.pid, number)
        self._deadline = min(self._deadline or float("inf"), time.monotonic() + GRACE)

    def kill(self) -> None:
        """End the command and everything it started in its group."""
        if self._process is not None:
            runs.kill_group(self._process.pid)

    def _supervised(self, run: runs.Run, environment: dict[str, str]) -> Outcome:
        began = time.monotonic()
        self._deadline = began + self._request.timeout if self._request.timeout else None
        try:
            self._process = subprocess.Popen(
                self._request.command,
                cwd=self._request.directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                preexec_fn=runs.die_with_parent,
            )
        except OSError as error:
            status = 127 if isinstance(error, FileNotFoundError) else 126
            return Outcome(status=status, trouble=f"{self._request.command[0]}: {error.strerror}")
        run.owns(self._process.pid)
        if self._attend(self._process):
            if self._asked:
                return Outcome(status=128 + self._asked[0], trouble="command killed on request")
            return Outcome(status=TIMED_OUT, trouble=f"no end within {self._request.timeout:g} s: killed")
        status = self._process.wait()
        return Outcome(status=status if status >= 0 else 128 - status)

    def _attend(self, process: subprocess.Popen[bytes]) -> bool:
        """Pass output on until the command has ended; True if it had to be killed at its time limit."""
        assert process.stdout is not None and process.stderr is not None
        sinks = {process.stdout.fileno(): self._sinks[0], process.stderr.fileno(): self._sinks[1]}
        poll = select.poll()
        for descriptor in sinks:
            poll.register(descriptor, select.POLLIN)
        timed_out = False
        while sinks:
            for descriptor, _ in poll.poll(500):
                if data := os.read(descriptor, 1 << 16):
                    sinks[descriptor](data)
                else:
                    poll.unregister(descriptor)
                    del sinks[descriptor]
            if process.poll() is not None:
                self.kill()  # what it left running would keep its output open
            elif self._deadline is not None and time.monotonic() >= self._deadline:
                timed_out = True
                self.kill()
        return timed_out

    def _disk_files(self, run: runs.Run) -> list[Path]:
        files = []
        for number, disk in enumerate(self._request.disks):
            path = disk.path or run.path / f"disk{number}"
            if disk.size is not None and not path.exists():
                with path.open("xb") as file:
                    file.truncate(disk.size)
            if not path.is_file():
                raise BadRequest(f"no such disk: {path} (with {path}:4G it is made)")
            files.append(path)
        return files
