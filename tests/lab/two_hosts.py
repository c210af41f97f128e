"""A second host to ship to: a network namespace behind a veth pair, a real sshd and a pool of its own.

    from tests.lab.pool import pool            # the first host's pool; it is the test's own machine
    from tests.lab.two_hosts import TwoHosts, hosts

    def test_something(pool: Pool, hosts: TwoHosts) -> None:
        hosts.root                      # "lab.1a2b3c4d/backups", where backups are received
        hosts.url                       # "ssh://zrecv@127.0.0.1:40123/lab.1a2b3c4d/backups"
        hosts.identity("plain")         # a key whose holder may run anything, as the user zrecv
        hosts.identity("append-only")   # a key for `zbackup gate --root ... --append-only` only
        hosts.identity("read-only")     # ... with --read-only; "trusted" with neither
        hosts.known_hosts               # for UserKnownHostsFile; StrictHostKeyChecking=yes works
        hosts.environment               # PATH with ssh in front, for what is run on the first host
        hosts.ssh("zfs", "list")        # run something there by the plain key

        hosts.link.cut_after(100_000)   # the connection breaks at exactly that byte; hosts.link.mend()
        with hosts.unplugged(): ...     # packets are lost without a word, as when a cable is pulled
        hosts.reboot()                  # all is killed there, the pool goes and comes back, sshd starts

The link of the URL is a relay in the test's process (tests.lab.link), which has no other way to the second
host than the veth pair. The receiving user is not root: it has what `zfs allow` gives it, as in the how-to,
and MORE. It needs root, which a test in the lab has.
"""

import contextlib
import os
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.lab.link import Link
from tests.lab.pool import Pool, PoolError, create_pool, run
from tests.lab.reach import let_reach
from tests.lab.second_host import THERE, USER, ip, keygen, make_users, near, network, programs_of_ssh
from tests.unit.docs.typed import shell

PORT = 22
START_LIMIT = 20.0
"""Seconds in which sshd answers, or something is wrong."""

MORE = (
    "sharenfs,sharesmb,compression,recordsize,snapdir,refquota,reservation,refreservation,volmode,bookmark,hold,"
    "release,send,destroy"
)
"""What the receiving user may do there besides what the how-to gives it. A gate before it allows less."""

SAFE = (
    *("-o", "readonly=on", "-o", "canmount=noauto", "-o", "setuid=off", "-o", "exec=off"),
    *("-o", "devices=off", "-x", "mountpoint"),
)
"""How a stream is received that nobody vouches for."""

ZBACKUP = Path(sys.executable).with_name("zbackup")
_BIN = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(slots=True, kw_only=True)
class TwoHosts:
    """The second host, as the first one sees it."""

    pool: Pool
    home: Path
    namespace: str
    link: Link
    _sshd: "subprocess.Popen[bytes] | None" = None
    _keys: dict[str, Path] = field(default_factory=dict)

    @property
    def root(self) -> str:
        """The dataset that backups are received below."""
        return f"{self.pool.name}/backups"

    @property
    def url(self) -> str:
        """Where it is, for a configuration."""
        return f"ssh://{USER}@127.0.0.1:{self.link.port}/{self.root}"

    @property
    def known_hosts(self) -> Path:
        """The host's key, under every address it is reached at."""
        return self.home / "known_hosts"

    @property
    def environment(self) -> dict[str, str]:
        """For programs on the first host that run ssh."""
        return {"PATH": f"{programs_of_ssh()}:{os.environ['PATH']}"}

    @property
    def programs(self) -> Path:
        """A directory for programs that are found first there."""
        return self.home / "bin"

    def identity(self, name: str) -> Path:
        """The private key of that name: "plain", "append-only", or one made by `authorize`."""
        return self._keys[name]

    def authorize(self, name: str, command: Sequence[str] = ()) -> Path:
        """Make a key that may log in; with `command` (of zbackup's words) that and nothing else is run."""
        key = self.home / f"key {name}"
        keygen(key, name)
        option = "restrict"
        if command:
            line = shlex.join((str(ZBACKUP), *command)).replace("\\", "\\\\").replace('"', '\\"')
            option += f',command="{line}"'
        with (self.home / "authorized_keys").open("a") as file:
            file.write(f"{option} {key.with_suffix('.pub').read_text()}")
        self._keys[name] = key
        return key

    def ssh_argv(self, key: str = "plain", *, shared: bool = False) -> list[str]:
        """ssh with its options and the destination; what is to run there comes behind, quoted for a shell.

        `shared`: by one connection for many commands, which saves each its handshake.
        """
        options = {
            "IdentityFile": f'"{self.identity(key)}"',
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": f'"{self.known_hosts}"',
            "StrictHostKeyChecking": "yes",
            "BatchMode": "yes",
            "ConnectTimeout": "10",
        }
        if shared:
            control = self.home / f"shared {key}"
            options |= {"ControlMaster": "auto", "ControlPath": f'"{control}"', "ControlPersist": "30"}
        words = [word for pair in options.items() for word in ("-o", "=".join(pair))]
        ssh = str(programs_of_ssh() / "ssh")
        return [ssh, "-F", "none", *words, "-p", str(self.link.port), f"{USER}@127.0.0.1", "--"]

    def ssh(
        self, *argv: str, key: str = "plain", shared: bool = False
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run a program on the second host; returns how it ended, whatever that is."""
        line = [*self.ssh_argv(key, shared=shared), shlex.join(argv)]
        none = subprocess.DEVNULL
        return subprocess.run(line, stdin=none, capture_output=True, check=False, timeout=120)

    def send(self, *what: str, key: str = "plain") -> "subprocess.CompletedProcess[bytes]":
        """`zfs send` what the words but the last say, into the dataset that the last one names."""
        *options, target = what
        receive = shlex.join(("zfs", "receive", "-s", "-u", *SAFE, target))
        with subprocess.Popen(["zfs", "send", *options], stdout=subprocess.PIPE) as sending:
            line = [*self.ssh_argv(key), receive]
            done = subprocess.run(line, stdin=sending.stdout, capture_output=True, check=False)
            assert sending.stdout is not None
            sending.stdout.close()  # so that the sender learns when nobody reads any more
        return done

    # accidents

    @contextlib.contextmanager
    def unplugged(self) -> Iterator[None]:
        """Packets between the hosts are lost meanwhile; no connection ends by that alone."""
        ip("link", "set", "dev", near(self.namespace), "down")
        try:
            yield
        finally:
            ip("link", "set", "dev", near(self.namespace), "up")

    def reboot(self) -> None:
        """Kill all that runs there with no word to anybody, let the pool go, and come up again."""
        with self.unplugged():
            self.kill_all()
            _patiently(self.pool.export)
            self.pool.bring_back()
            self.start_sshd()

    def kill_all(self) -> None:
        """SIGKILL for every process of the second host."""
        for pid in ip("netns", "pids", self.namespace).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        if self._sshd is not None:
            self._sshd.wait()
            self._sshd = None
        _wait("all processes there are gone", lambda: not ip("netns", "pids", self.namespace).split())

    def start_sshd(self) -> None:
        """Start sshd there, and wait until it listens."""
        program = (str(programs_of_ssh() / "sshd"), "-D", "-f", str(self.home / "sshd_config"))
        log = str(self.home / "sshd.log")
        inside = [str(programs_of_ssh() / "ip"), "netns", "exec", self.namespace]
        self._sshd = subprocess.Popen([*inside, *program, "-E", log], stdin=subprocess.DEVNULL)
        wanted = f":{PORT:04X} 00000000:0000 0A".encode()

        def listens() -> bool:
            table = subprocess.run([*inside, "cat", "/proc/net/tcp"], capture_output=True, check=False)
            return wanted in table.stdout

        _wait("sshd listens", listens)


@pytest.fixture(scope="module")
def hosts() -> Iterator[TwoHosts]:
    """A second host for the module."""
    with second_host() as made:
        yield made


@contextlib.contextmanager
def second_host() -> Iterator[TwoHosts]:
    """Make a second host, and take all of it away afterwards."""
    make_users()
    let_reach(Path(sys.executable))
    Path("/dev/zfs").chmod(0o666)  # as the rules of udev that come with OpenZFS do
    namespace = f"z{secrets.token_hex(3)}"
    home = Path(tempfile.mkdtemp(prefix="zhost-"))
    home.chmod(0o755)
    pool = create_pool()
    with contextlib.ExitStack() as undo:
        undo.callback(shutil.rmtree, home)
        undo.callback(pool.destroy)
        undo.enter_context(network(namespace))
        made = TwoHosts(
            pool=pool, home=home, namespace=namespace, link=undo.enter_context(Link((THERE, PORT)))
        )
        undo.callback(made.kill_all)
        _furnish(made)
        made.start_sshd()
        yield made


def _furnish(made: TwoHosts) -> None:
    for line in (
        shell(
            "append-only-backup-host.md",
            "zfs create -o canmount=off -o mountpoint=none tank/backups",
            {"tank/backups": made.root},
        ),
        shell("append-only-backup-host.md", "zfs allow -u zrecv", {"tank/backups/db1": made.root}),
    ):
        run(*shlex.split(line))
    run("zfs", "allow", "-u", USER, MORE, made.root)
    keygen(made.home / "host key", "host")
    public = " ".join((made.home / "host key.pub").read_text().split()[:2])
    names = f"{THERE},[127.0.0.1]:{made.link.port}"
    made.known_hosts.write_text(f"{names} {public}\n")
    (made.home / "authorized_keys").touch()
    made.programs.mkdir()
    made.authorize("plain")
    made.authorize("append-only", ("gate", "--root", made.root, "--append-only"))
    made.authorize("read-only", ("gate", "--root", made.root, "--read-only"))
    made.authorize("trusted", ("gate", "--root", made.root))
    config = {
        "ListenAddress": THERE,
        "Port": str(PORT),
        "HostKey": f'"{made.home / "host key"}"',
        "AuthorizedKeysFile": f'"{made.home / "authorized_keys"}"',
        "PidFile": "none",
        "StrictModes": "no",  # the file lies below /tmp, where everybody may write
        "UsePAM": "no",
        "PasswordAuthentication": "no",
        "KbdInteractiveAuthentication": "no",
        "AllowUsers": USER,
        "SetEnv": f"PATH={made.programs}:{_BIN}",  # a plain user's has no sbin, where zfs is
        "MaxStartups": "100",
    }
    text = "".join(f"{key} {value}\n" for key, value in config.items())
    (made.home / "sshd_config").write_text(text)


def _wait(what: str, condition: Callable[[], bool]) -> None:
    until = time.monotonic() + START_LIMIT
    while not condition():
        assert time.monotonic() < until, f"not within {START_LIMIT:g} s: {what}"
        time.sleep(0.05)


def _patiently(action: Callable[[], None]) -> None:
    """A receive that was killed lets go of the pool only when the kernel notices."""
    until = time.monotonic() + START_LIMIT
    while True:
        try:
            action()
            return
        except PoolError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
