"""Fetch and unpack packages of any Debian suite without installing anything on this machine.

Every suite has an apt state of its own below the lab's cache: its own lists, an empty list of
installed packages (so that "with dependencies" really means all of them) and its own archive
directory, for two apt runs that share one delete each other's files. The mirror is the machine's own.

Standard library only: this runs before any virtual environment exists.
"""

import fcntl
import os
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
LISTS_ARE_FRESH_FOR = 12 * 3600.0
APT_TIMEOUT = 1800.0

# The machine's proxies, certificates and retry settings must hold for us too, its hooks must not:
# a container's "docker-clean" hook, for example, deletes the machine's downloaded packages.
_INHERITED = ("Acquire::http", "Acquire::https", "Acquire::Check-", "Acquire::Retries", "Acquire::Force")


class AptFailed(Exception):
    """One line that says what could not be fetched and where the whole output is."""


def cache_root() -> Path:
    """Where the lab keeps everything it built or fetched."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "zbackup-lab"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path` (created when missing); waits for another holder to finish."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def download(
    packages: Sequence[str], suite: str, into: Path, log: Path, *, with_dependencies: bool = False
) -> list[Path]:
    """Download `packages` of `suite` and return the .deb files in `into`.

    An interrupted download goes on where it stopped. Recommended packages are never included.
    Raises AptFailed; apt's own output is appended to `log`.
    """
    into = into.resolve()
    (into / "partial").mkdir(parents=True, exist_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    state = cache_root() / "apt" / suite
    with locked(state.with_name(f"{suite}.lock")):
        config = _prepare(state, suite, into, log)
        verb = ["install", "--no-install-recommends"] if with_dependencies else ["download"]
        _update(state, config, log)
        try:
            return _fetch([*verb, *packages], config, into, log)
        except AptFailed:
            # The mirror may have replaced a package since the lists were fetched.
            _update(state, config, log, even_if_fresh=True)
            return _fetch([*verb, *packages], config, into, log)


def download_source(package: str, version: str, suite: str, into: Path, log: Path) -> Path:
    """Download the source archive of `package`, as its authors released it, and return it.

    It has passed the hash that the signed lists of the suite name. Raises AptFailed.
    """
    into = into.resolve()
    into.mkdir(parents=True, exist_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    state = cache_root() / "apt" / f"{suite}-source"
    with locked(state.with_name(f"{state.name}.lock")):
        config = _prepare(state, suite, into, log, kind="deb-src")
        _update(state, config, log)
        command = ["source", "--download-only", "--tar-only", f"{package}={version}"]
        (name,) = deb_names(_apt([*command, "--print-uris"], config, log, cwd=state)) or ("",)
        _apt(command, config, log, cwd=into)
    if not (into / name).is_file():
        raise AptFailed(f"apt did not deliver the source of {package} {version} (see {log})")
    return into / name


def unpack(debs: Iterable[Path], into: Path) -> None:
    """Unpack the files of all packages into the directory `into`; no maintainer script is run."""
    into.mkdir(parents=True, exist_ok=True)
    for deb in debs:
        done = subprocess.run(
            ["dpkg-deb", "--extract", str(deb), str(into)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise AptFailed(f"cannot unpack {deb.name}: {done.stderr.strip()}")


def package_version(deb: Path) -> str:
    """The version field of a .deb file."""
    done = subprocess.run(
        ["dpkg-deb", "--field", str(deb), "Version"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise AptFailed(f"cannot read {deb.name}: {done.stderr.strip()}")
    return done.stdout.strip()


def mirror(scratch: Path, log: Path) -> str:
    """The address this machine fetches Debian packages from, as its own apt configuration says.

    When the machine's lists are empty, apt names no address; then the machine's sources are asked
    with lists of our own in `scratch`. Raises AptFailed if no Debian archive is configured.
    """
    found = _debian_archives([])
    if not found:
        lists = scratch / "machine-lists"
        (lists / "partial").mkdir(parents=True, exist_ok=True)
        private = ["-o", f"Dir::State::lists={lists}", "-o", "APT::Update::Post-Invoke-Success::=true"]
        _run(["apt-get", "update", *private, "-o", "APT::Sandbox::User=root"], log, os.environ)
        found = _debian_archives(private)
    if not found:
        raise AptFailed("apt on this machine has no source for the Debian archive (/etc/apt/sources.list*)")
    return found[0]


def suites_for(suite: str) -> list[str]:
    """The suites to read: backports are built against their release, so its packages are needed too."""
    base = suite.removesuffix("-backports")
    return [suite] if base == suite else [suite, base]


def inherited_settings(dump: str) -> list[str]:
    """The lines of `apt-config dump` that reach the network as the machine does, and no others."""
    return [line for line in dump.splitlines() if line.startswith(_INHERITED)]


def deb_names(uris: str) -> list[str]:
    """File names out of `apt-get --print-uris`: each line is 'URI' NAME SIZE HASH."""
    return [line.split("' ", 1)[1].split()[0] for line in uris.splitlines() if line.startswith("'")]


def _debian_archives(options: Sequence[str]) -> list[str]:
    fields = "$(LABEL) $(REPO_URI)"
    listed = subprocess.run(
        ["apt-get", "indextargets", *options, "--format", fields, "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=False,
    )
    return [line.split(" ", 1)[1] for line in listed.stdout.splitlines() if line.startswith("Debian ")]


def _prepare(state: Path, suite: str, into: Path, log: Path, kind: str = "deb") -> Path:
    """Write the suite's apt configuration and sources; returns the configuration's path.

    `kind` is `deb` for packages, with those of the release that backports are built against, or `deb-src`.
    """
    if not KEYRING.exists():
        raise AptFailed(f"{KEYRING} is missing: apt-get install debian-archive-keyring")
    (state / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    sources = state / "sources.list"
    address = mirror(state, log)
    suites = suites_for(suite) if kind == "deb" else [suite]
    wanted = [f"{kind} [signed-by={KEYRING}] {address} {name} main contrib\n" for name in suites]
    if not sources.exists() or sources.read_text() != "".join(wanted):
        sources.write_text("".join(wanted))
        (state / "updated").unlink(missing_ok=True)
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False).stdout
    settings = {
        "Dir::Etc::parts": "/dev/null",
        "Dir::Etc::main": "/dev/null",
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::State": state,
        "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": state,
        "Dir::Cache::archives": into,
        **({"APT::Default-Release": suite} if kind == "deb" else {}),
        "APT::Sandbox::User": "root",  # the usual _apt user cannot enter a home directory
        "Acquire::Languages": "none",
        "Acquire::Retries": "5",
        "Debug::NoLocking": "true",  # locked() above is the lock; apt's would need root
    }
    config = state / "apt.conf"
    own = [f'{key} "{value}";' for key, value in settings.items()]
    config.write_text("\n".join([*inherited_settings(dump), *own]) + "\n")
    config.chmod(0o600)
    return config


def _update(state: Path, config: Path, log: Path, *, even_if_fresh: bool = False) -> None:
    stamp = state / "updated"
    if not even_if_fresh and stamp.exists() and time.time() - stamp.stat().st_mtime < LISTS_ARE_FRESH_FOR:
        return
    _apt(["update", "--error-on=any"], config, log)
    stamp.touch()


def _fetch(command: Sequence[str], config: Path, into: Path, log: Path) -> list[Path]:
    # apt does not name a file that is already there, so it is asked from a place where none is.
    empty = config.parent / "empty"
    (empty / "partial").mkdir(parents=True, exist_ok=True)
    elsewhere = ["-o", f"Dir::Cache::archives={empty}"]
    uris = _apt([*command, *elsewhere, "--yes", "--print-uris"], config, log, cwd=empty)
    debs = [into / name for name in deb_names(uris)]
    download_only = ["--download-only"] if command[0] == "install" else []
    if not all(deb.exists() for deb in debs):
        _apt([*command, "--yes", *download_only], config, log, cwd=into)
    missing = [deb.name for deb in debs if not deb.exists()]
    if missing or not debs:
        raise AptFailed(f"apt did not deliver {', '.join(missing) or ' '.join(command)} (see {log})")
    return debs


def _apt(command: Sequence[str], config: Path, log: Path, cwd: Path | None = None) -> str:
    environment = {
        **os.environ,
        "APT_CONFIG": str(config),
        "LC_ALL": "C",
        "DEBIAN_FRONTEND": "noninteractive",
    }
    return _run(["apt-get", "-q", *command], log, environment, cwd)


def _run(
    argv: Sequence[str], log: Path, environment: os._Environ[str] | dict[str, str], cwd: Path | None = None
) -> str:
    try:
        done = subprocess.run(
            argv, env=environment, cwd=cwd, capture_output=True, text=True, check=False, timeout=APT_TIMEOUT
        )
    except subprocess.TimeoutExpired as late:
        raise AptFailed(f"apt-get gave no answer within {APT_TIMEOUT:g} s") from late
    with log.open("a") as sink:
        sink.write(f"$ {' '.join(argv)}\n{done.stdout}{done.stderr}")
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("E:")]
        reason = errors[0] if errors else f"exit status {done.returncode}"
        raise AptFailed(f"apt-get {argv[2]} failed: {reason} (see {log})")
    return done.stdout
