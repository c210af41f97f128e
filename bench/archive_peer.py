"""The means by which people archive a log today, as a program of its own:

    python -m bench.archive_peer EVERY DIRECTORY REMOTE COUNT -- MYSQLBINLOG...

`mysqlbinlog --read-from-remote-server --raw --stop-never` writes the log into DIRECTORY as the server sends
it, and every EVERY seconds `rclone copy` uploads what has changed there to REMOTE. After SIGTERM the number
of requests is in the file COUNT.
"""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

UPLOAD = ("rclone", "copy", "--local-no-check-updated", "--retries=1", "-vv", "--dump=headers")


def main(every: float, directory: Path, remote: str, count: Path, reading: Sequence[str]) -> None:
    """Until SIGTERM."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    requests = 0
    with subprocess.Popen(reading, cwd=directory) as reader:
        while not over.is_set():
            began = time.monotonic()
            argv = (*UPLOAD, str(directory), remote)
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"rclone: {done.stderr[-2000:]}")
            requests += done.stderr.count("HTTP REQUEST")
            over.wait(max(0.0, every - (time.monotonic() - began)))
        reader.terminate()
    count.write_text(str(requests))


if __name__ == "__main__":
    main(float(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4]), sys.argv[6:])
