"""One guest: a User-Mode Linux process that runs one command as root with real ZFS."""

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tests.lab import apt, linked, mconsole, places, populate, runs
from tests.lab.kernel_line import Lines, disk_devices, kernel_arguments
from tests.lab.recipe import BuiltGuest
from tests.lab.request import DIED, TIMED_OUT, BadRequest, Outcome, Request

Sink = Callable[[bytes], object]

LINES_OF_LOG = 15
OUTPUT_AFTER_END = 5.0
"""Seconds in which output of a guest that has ended is still read."""
LONGEST_WAIT = 1.0
GRACE = 10.0
"""Seconds between a terminating signal for the command and the end of the guest."""


class Guest:
    """Runs one request; `signal` and `kill` may be called from another thread or a signal handler."""

    def __init__(self, request: Request, built: BuiltGuest, out: Sink, err: Sink) -> None:
        self._request = request
        self._built = built
        self._sinks = (out, err)
        self._process: subprocess.Popen[bytes] | None = None
        self._orders = -1
        self._deadline: float | None = None
        self._asked: list[int] = []
        self._said = b""
        self._began = time.monotonic()
        self.ready_after: float | None = None
        """Seconds from the start to the moment the command was started."""

    def run(self, terminal: tuple[int, int] | None = None) -> Outcome:
        """Start the guest, wait until it is gone, and say how the command ended.

        `terminal` is the size (rows, columns) of our own terminal, for an interactive shell.
        """
        with runs.new_run("guest") as run:
            self._began = time.monotonic()
            if self._request.timeout is not None:
                self._deadline = self._began + self._request.timeout
            disks = [_disk_file(run, number, self._request) for number in range(len(self._request.disks))]
            (run.path / "spec").touch(mode=0o600)
            (run.path / "spec").write_text(json.dumps(spec(self._request, self._built, terminal)))
            streams = self._start(run, disks, terminal is not None)
            timed_out = self._attend(run, streams)
            outcome = self._outcome(run, timed_out)
            return replace(outcome, kept=kept_files(run, self._request, outcome))

    def signal(self, number: int) -> None:
        """Pass a signal on to the command; asked a second time, or not obeyed, the guest is killed."""
        self._asked.append(number)
        if len(self._asked) > 1 or self.ready_after is None:
            self.kill()
            return
        with contextlib.suppress(OSError):
            os.write(self._orders, f"signal {number}\n".encode())
        self._deadline = min(self._deadline or float("inf"), time.monotonic() + GRACE)

    def kill(self) -> None:
        """End the guest at once, as a power cut would."""
        if self._process is not None:
            runs.kill_group(self._process.pid)

    def _start(self, run: runs.Run, disks: Sequence[Path], with_terminal: bool) -> dict[int, Sink]:
        """Start the kernel's process; returns what to do with each stream that comes from it."""
        out, err, said, orders = os.pipe(), os.pipe(), os.pipe(), os.pipe()
        self._orders = orders[1]
        terminal = (os.dup(0), os.dup(1)) if with_terminal else None
        with (run.path / "kernel.log").open("ab") as log:
            lines = Lines(
                console=log.fileno(),
                out=out[1],
                err=err[1],
                control_in=orders[0],
                control_out=said[1],
                terminal=terminal,
            )
            init = run.path / "init.py"
            shutil.copyfile(Path(__file__).with_name("guest_init.py"), init)
            arguments = kernel_arguments(
                memory=self._request.memory,
                run=run.path,
                disks=disks,
                lines=lines,
                init=[system_python(), "-I", "-S", str(init), str(run.path / "spec")],
            )
            memory = places.fast_place(self._request.memory)
            theirs = (out[1], err[1], said[1], orders[0], *(terminal or ()))
            self._process = subprocess.Popen(
                [str(self._built.kernel), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(log.fileno(), *theirs),
                env={"HOME": str(run.path), "TMPDIR": str(memory), "PATH": os.defpath},
                # Its own session: Ctrl-C must reach the command in the guest, not the kernel.
                start_new_session=True,
                preexec_fn=runs.die_with_parent,
            )
        run.owns(self._process.pid)
        for descriptor in theirs:
            os.close(descriptor)
        # In this order: whoever has seen output of the command may count on `ready` having been heard.
        return {said[0]: self._hear, out[0]: self._sinks[0], err[0]: self._sinks[1]}

    def _hear(self, data: bytes) -> None:
        self._said += data
        if self.ready_after is None and b"ready\n" in self._said:
            self.ready_after = time.monotonic() - self._began

    def _attend(self, run: runs.Run, streams: dict[int, Sink]) -> bool:
        """Pass output on until the guest is gone; True if it had to be killed at its time limit."""
        assert self._process is not None
        ended = os.pidfd_open(self._process.pid)
        poll = select.poll()
        for descriptor in (ended, *streams):
            poll.register(descriptor, select.POLLIN)
        timed_out = False
        last_call = float("inf")
        while streams and time.monotonic() < last_call:
            for descriptor, _ in poll.poll(_milliseconds(self._deadline, last_call)):
                if descriptor == ended:
                    poll.unregister(ended)
                    runs.kill_group(self._process.pid)  # helpers of the kernel's process, if any is left
                    last_call = time.monotonic() + OUTPUT_AFTER_END
                elif data := os.read(descriptor, 1 << 16):
                    streams[descriptor](data)
                else:
                    poll.unregister(descriptor)
                    os.close(descriptor)
                    del streams[descriptor]
            if not timed_out and self._deadline is not None and time.monotonic() >= self._deadline:
                timed_out = True
                mconsole.show_blocked_tasks(run.path)
                self.kill()
        for descriptor in (*streams, ended, self._orders):
            os.close(descriptor)
        self._process.wait()
        return timed_out

    def _outcome(self, run: runs.Run, timed_out: bool) -> Outcome:
        status = exit_status(self._said)
        if status is not None and not timed_out:
            return Outcome(status=status)
        if self._asked:
            return Outcome(status=128 + self._asked[0], trouble="guest killed on request")
        log = run.keep_log()
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-LINES_OF_LOG:])
        if timed_out:
            what = f"no end within {self._request.timeout:g} s: guest killed"
            return Outcome(status=TIMED_OUT, trouble=f"{what}; kernel log: {log}")
        when = (
            "without an exit status of the command" if self.ready_after else "before the command was started"
        )
        return Outcome(
            status=DIED, trouble=f"the guest ended {when}; kernel log: {log}, it ends with\n{tail}"
        )


def spec(request: Request, built: BuiltGuest, terminal: tuple[int, int] | None) -> dict[str, object]:
    """What process 1 of the guest is to do."""
    visible = [apt.cache_root(), request.directory, places.REPOSITORY, *request.visible]
    return {
        "command": list(request.command),
        "directory": str(request.directory),
        "environment": {
            **request.environment,
            "LAB_INSIDE": "guest",
            "LAB_DISKS": ":".join(disk_devices(len(request.disks))),
        },
        "terminal": terminal,
        "tools": [str(tree) for tree in linked.trees(built)],
        "modules": [str(module) for module in built.modules],
        "preload": str(populate.ensure()),
        "visible": [str(path) for path in visible if path.is_dir()],
        "shares": [str(share) for share in request.shares],
    }


def kept_files(run: runs.Run, request: Request, outcome: Outcome) -> tuple[Path, ...]:
    """Keep the files of a run if the request wishes it; returns them."""
    wanted = request.keep == "always" or (request.keep == "after failure" and outcome.status != 0)
    return run.keep() if wanted else ()


def exit_status(said: bytes) -> int | None:
    """The status that process 1 of the guest reported, if it did."""
    for word in said.decode(errors="replace").splitlines():
        if word.startswith("exit ") and word[5:].isdecimal():
            return int(word[5:])
    return None


def system_python() -> str:
    """The interpreter below any virtual environment: process 1 needs one that is found by its path alone."""
    return str(Path(getattr(sys, "_base_executable", None) or sys.executable).resolve())


def _disk_file(run: runs.Run, number: int, request: Request) -> Path:
    """The file behind a disk, by a name in the run's directory that a kernel command line can carry."""
    disk = request.disks[number]
    name = run.path / f"disk{number}"
    path = disk.path
    if path is None:
        size = disk.size or 0
        path = places.fast_place(request.memory + size) / f"{run.path.name}-disk{number}"
        run.owns_file(path)
    if disk.size is not None and not path.exists():
        with path.open("xb") as file:
            file.truncate(disk.size)
    if not path.is_file():
        raise BadRequest(f"no such disk: {path} (with {path}:4G it is made)")
    name.symlink_to(path)
    return name


def _milliseconds(deadline: float | None, last_call: float) -> int:
    """How long poll may wait: till the nearer of two moments, but not long, for `signal` moves the first."""
    nearest = min(last_call, float("inf") if deadline is None else deadline, time.monotonic() + LONGEST_WAIT)
    return max(10, int((nearest - time.monotonic()) * 1000))


@contextlib.contextmanager
def raw_terminal() -> Iterator[tuple[int, int]]:
    """Hand our terminal to the guest's shell, and take it back as it was."""
    before, blocking = termios.tcgetattr(0), os.get_blocking(0)
    size = os.get_terminal_size(0)
    try:
        yield size.lines, size.columns
    finally:
        os.set_blocking(0, blocking)
        termios.tcsetattr(0, termios.TCSADRAIN, before)
