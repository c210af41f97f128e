"""The library that spares programs in a guest most faults on pages: `populate.c` says how."""

import hashlib
import subprocess
import threading
from pathlib import Path

from tests.lab import apt
from tests.lab.progress import StepFailed

SOURCE = Path(__file__).with_name("populate.c")


def library() -> Path:
    """Where it is, or will be; other source is another file."""
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()
    return apt.cache_root() / f"populate-{digest[:10]}.so"


def ensure() -> Path:
    """Compile it unless it is there; raises StepFailed."""
    wanted = library()
    if wanted.exists():
        return wanted
    fresh = wanted.with_name(f"{wanted.name}.{threading.get_native_id()}")
    argv = ["gcc", "-O2", "-shared", "-fPIC", "-nostdlib", "-o", str(fresh), str(SOURCE)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StepFailed(f"cannot compile {SOURCE.name}: {done.stderr.strip()}")
    fresh.rename(wanted)
    return wanted
