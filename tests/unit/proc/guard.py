"""A guardian for tests. Its order is "ANSWER LIMIT FILE"; it writes what its environment holds to the file.

An answer of "mute" is never given.
"""

import os
import signal
import sys
from pathlib import Path

from zbackup.proc.guardian import abandoned, answer

if __name__ == "__main__":
    said, limit, deed = sys.stdin.readline().strip().split(" ", 2)
    if said == "mute":
        signal.pause()
    answer(said)
    if abandoned(float(limit)):
        fresh = Path(f"{deed}.new")
        fresh.write_text("\n".join(os.environ))
        fresh.rename(deed)
