"""A process with mounts of its own that stay when the host unmounts: a container that shows all of /."""

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PRIVATE = ("unshare", "--mount", "--propagation", "private", "sleep", "600")


@contextmanager
def private_mounts() -> Iterator[int]:
    """The number of a process that keeps what is mounted now."""
    with subprocess.Popen(_PRIVATE) as process:
        try:
            own = Path("/proc/self/ns/mnt").readlink()
            while Path(f"/proc/{process.pid}/comm").read_text() != "sleep\n":
                assert process.poll() is None, "it cannot have mounts of its own"
                time.sleep(0.01)
            assert Path(f"/proc/{process.pid}/ns/mnt").readlink() != own
            yield process.pid
        finally:
            process.kill()


@contextmanager
def private_mounts_once_mounted(dataset: str) -> Iterator[list[int]]:
    """The same, begun as soon as the dataset is mounted while the body runs; the list has its number then."""
    found: list[int] = []
    over = threading.Event()

    def watch() -> None:
        source = f" - zfs {dataset.replace(' ', chr(92) + '040')} "
        while not over.is_set() and source not in Path("/proc/self/mountinfo").read_text():
            time.sleep(0.02)
        if not over.is_set():
            with private_mounts() as pid:
                found.append(pid)
                over.wait()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        over.set()
        watcher.join()
