"""A second host: a user, a network behind a veth pair, keys."""

import contextlib
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.lab import servers
from tests.unit.docs.typed import shell

USER = "zrecv"
HERE, THERE = "10.77.0.1", "10.77.0.2"


def make_users() -> None:
    """sshd insists on a user to drop to. `*`: no password fits, yet the account is not locked."""
    for name, useradd in (
        ("sshd", "useradd --system --no-create-home --password '*' --home-dir /run/sshd sshd"),
        (USER, shell("append-only-backup-host.md", "useradd")),
    ):
        known = subprocess.run(["id", name], capture_output=True, check=False).returncode == 0
        if not known:
            subprocess.run(shlex.split(useradd), check=True)
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)


@contextlib.contextmanager
def network(namespace: str) -> Iterator[None]:
    """A namespace with one end of a veth pair, and the other end here, while the body runs."""
    here, far = near(namespace), f"{namespace}b"
    ip("netns", "add", namespace)
    try:
        ip("link", "add", here, "type", "veth", "peer", "name", far, "netns", namespace)
        ip("address", "add", f"{HERE}/24", "dev", here)
        ip("link", "set", "dev", here, "up")
        for words in (("address", "add", f"{THERE}/24", "dev", far), ("link", "set", "dev", far, "up")):
            ip("-netns", namespace, *words)
        ip("-netns", namespace, "link", "set", "dev", "lo", "up")
        yield
    finally:
        ip("netns", "delete", namespace)  # the pair goes with it


def near(namespace: str) -> str:
    """The end of the pair that is here."""
    return f"{namespace}a"


def keygen(file: Path, comment: str) -> None:
    """Make a key without a passphrase."""
    words = ("-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(file))
    subprocess.run([str(programs_of_ssh() / "ssh-keygen"), *words], check=True, stdin=subprocess.DEVNULL)


def ip(*words: str) -> str:
    """Run ip(8); returns what it said."""
    done = subprocess.run(
        [str(programs_of_ssh() / "ip"), *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
    return done.stdout


def programs_of_ssh() -> Path:
    """Where ssh, sshd, ssh-keygen and ip are."""
    return servers.path("sshd") / "bin"
