"""Servers in a mount namespace of their own: what they see, who they are, how long they live."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab.pool import Pool, run
from tests.lab.reach import let_reach
from tests.platform.confined import GID, LIMIT_S, UID, tries
from tests.platform.stand_ins import OLD_KERNEL, SERVER
from zbackup.model.errors import CommandFailed
from zbackup.model.snapshot import Dataset
from zbackup.proc import detached
from zbackup.proc.detached import Confinement, Process, last_lines, launch
from zbackup.proc.start import FIXED_PATH
from zbackup.zfs.datasets import Zfs

ZFS = Zfs()


class House:
    """Production with a file in each of two nested datasets, and clones of them."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.data, self.log = pool.data, pool.log
        for directory in (self.data.mountpoint, self.log.mountpoint):
            (directory / "file").write_text("production")
            directory.chmod(0o755)
        run("zfs", "snapshot", "-r", f"{self.data.name}@s")

    def clone(self, name: str) -> list[Dataset]:
        """Both datasets' clones, mounted, their files marked with the clone's name."""
        made = []
        for number, origin in enumerate((self.data, self.log)):
            target = f"{self.pool.name}/{name}.{number}"
            run("zfs", "clone", f"{origin.name}@s", target)
            (found,) = ZFS.filesystems(target)
            assert found.mountpoint
            (Path(found.mountpoint) / "file").write_text(name)
            made.append(found)
        return made

    def confinement(self, clone: list[Dataset], *others: Dataset) -> Confinement:
        hidden = (self.data.mountpoint, self.log.mountpoint)
        bind = zip((str(d.mountpoint) for d in clone), map(str, hidden), strict=True)
        hide = (*map(str, hidden), *(str(d.mountpoint) for d in others))
        return Confinement(hide=hide, bind=tuple(bind), uid=UID, gid=GID)


@pytest.fixture(scope="module")
def house(pool: Pool) -> House:
    let_reach(Path(sys.executable))
    return House(pool)


def serve(
    started: list[Process], confinement: Confinement, output: Path, *look_at: Path
) -> tuple[Process, dict[str, object]]:
    """Start the server and return what it saw."""
    argv = (sys.executable, "-c", SERVER, json.dumps([str(path) for path in look_at]))
    process = launch(argv, confinement, output)
    started.append(process)
    deadline = time.monotonic() + LIMIT_S
    while not (output.exists() and output.read_text().endswith("}\n")):
        assert process.alive and time.monotonic() < deadline, last_lines(output)
        time.sleep(0.05)
    return process, json.loads(output.read_text().splitlines()[-1])


def test_it_sees_the_clone_at_the_original_paths_and_nothing_of_production(
    house: House, started: list[Process], tmp_path: Path
) -> None:
    mine, other = house.clone("mine"), house.clone("other")
    paths = [house.data.mountpoint / "file", house.log.mountpoint / "file"]
    elsewhere = [Path(str(d.mountpoint)) / "file" for d in other]
    process, seen = serve(started, house.confinement(mine, *other), tmp_path / "o", *paths, *elsewhere)
    assert seen["files"] == {
        **{str(path): "mine" for path in paths},
        **{str(path): "No such file or directory" for path in elsewhere},
    }
    # Where memory runs out, it goes before production's server.
    assert Path(f"/proc/{process.pid}/oom_score_adj").read_text() == "1000\n"
    # Each original path is one mount, and that one is the clone's.
    mountinfo = Path(f"/proc/{process.pid}/mountinfo").read_text()
    assert house.data.name.replace(" ", "\\040") + " " not in mountinfo
    for place in (house.data, house.log):
        assert mountinfo.count(f" {str(place.mountpoint).replace(' ', chr(92) + '040')} ") == 1
    # And production's own view is as it was.
    assert [path.read_text() for path in paths] == ["production", "production"]


def test_it_is_nobody_but_the_owner_and_holds_nothing_of_ours(
    house: House, started: list[Process], tmp_path: Path
) -> None:
    secret = (tmp_path / "secret").open("w")
    os.set_inheritable(secret.fileno(), True)
    with secret:
        _, seen = serve(started, house.confinement(house.clone("who")), tmp_path / "o")
    assert seen["ids"] == [UID, UID, UID, GID, GID, GID]
    assert seen["groups"] == []
    assert seen["cwd"] == "/"
    assert seen["session"] is True
    assert seen["umask"] == 0o027
    assert len(seen["fds"]) == 4, "0, 1, 2, and the one that lists them"  # type: ignore[arg-type]


def test_it_shows_no_secret_of_ours(
    house: House, started: list[Process], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its user reads its environment in /proc for as long as it lives."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    process, _ = serve(started, house.confinement(house.clone("env")), tmp_path / "o")
    assert environment(process) == {"PATH": FIXED_PATH}


def environment(process: Process) -> dict[str, str]:
    entries = Path(f"/proc/{process.pid}/environ").read_text().rstrip("\0").split("\0")
    return dict(entry.split("=", 1) for entry in entries)


LAUNCHER = """
import sys
from pathlib import Path
from zbackup.proc.detached import Confinement, launch
process = launch(["sleep", "120"], Confinement(hide=(), bind=(), uid=27, gid=28), Path(sys.argv[1]))
print("it is", process, flush=True)
sys.stdin.read()
"""


def test_it_outlives_whoever_started_it(started: list[Process], tmp_path: Path) -> None:
    """And whoever that is may stand in a directory of somebody's, with a package of that name."""
    hostile, trace = tmp_path / "hostile", tmp_path / "imported"
    (hostile / "zbackup").mkdir(parents=True)
    (hostile / "zbackup" / "__init__.py").write_text(f"open({str(trace)!r}, 'w').close()\n")
    (hostile / "json.py").write_text(f"open({str(trace)!r}, 'w').close()\n")
    parent = subprocess.Popen(
        [sys.executable, "-I", "-c", LAUNCHER, str(tmp_path / "o")],
        cwd=hostile,
        env={**os.environ, "PYTHONPATH": str(hostile)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert parent.stdout
    said = next(line for line in parent.stdout if line.startswith("it is "))
    process = Process.parse(said.removeprefix("it is "))
    started.append(process)
    os.killpg(parent.pid, signal.SIGINT)
    os.killpg(parent.pid, signal.SIGKILL)
    parent.communicate()
    deadline = time.monotonic() + LIMIT_S
    # A process has its new name a moment before its new environment.
    while not _is_sleep(process) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert process.alive
    assert environment(process) == {"PATH": FIXED_PATH}
    assert not trace.exists()


def _is_sleep(process: Process) -> bool:
    about = Path(f"/proc/{process.pid}")
    return about.joinpath("comm").read_text() == "sleep\n" and bool(about.joinpath("environ").read_bytes())


def test_stop_ends_exactly_it(house: House, started: list[Process], tmp_path: Path) -> None:
    one, _ = serve(started, house.confinement(house.clone("one")), tmp_path / "1")
    two, _ = serve(started, house.confinement(house.clone("two")), tmp_path / "2")
    assert one.stop(20)
    assert not one.alive and two.alive


def test_other_clones_can_be_destroyed_while_it_runs(
    house: House, started: list[Process], tmp_path: Path
) -> None:
    """Hidden mounts are no mounts of the namespace any more, so they hold nothing busy."""
    running, doomed = house.clone("running"), house.clone("doomed")
    process, _ = serve(started, house.confinement(running, *doomed), tmp_path / "o")
    for dataset in doomed:
        ZFS.destroy_filesystem(dataset)
    assert process.alive
    # One that is mounted later is not carried into the namespace for ever either.
    for dataset in house.clone("later"):
        ZFS.destroy_filesystem(dataset)
    assert process.alive
    assert (house.data.mountpoint / "file").read_text() == "production"


def test_its_own_clone_can_be_destroyed_once_it_is_stopped(
    house: House, started: list[Process], tmp_path: Path
) -> None:
    mine = house.clone("gone")
    process, _ = serve(started, house.confinement(mine), tmp_path / "o")
    process.stop(LIMIT_S)
    for dataset in mine:
        ZFS.destroy_filesystem(dataset)
    assert not any(ZFS.exists(dataset.name) for dataset in mine)


def test_a_host_that_never_had_the_original_is_left_as_it_is(
    house: House, started: list[Process], tmp_path: Path
) -> None:
    mine = house.clone("moved")
    (Path("/srv/neighbour")).mkdir(exist_ok=True)
    Path("/srv/neighbour/file").write_text("here")
    before = [sorted(Path(each).iterdir()) for each in ("/", "/srv")]
    for foreign in (Path("/srv/of another host/data"), Path("/never/heard of")):
        confinement = Confinement(hide=(), bind=((str(mine[0].mountpoint), str(foreign)),), uid=UID, gid=GID)
        output = tmp_path / foreign.name
        look_at = (foreign / "file", Path("/srv/neighbour/file"))
        _, seen = serve(started, confinement, output, *look_at)
        assert list(seen["files"].values()) == ["moved", "here"]  # type: ignore[attr-defined]
    assert [sorted(Path(each).iterdir()) for each in ("/", "/srv")] == before


CANARY = Path("/usr/lib/zbackup-canary")


@pytest.mark.parametrize("beyond", ["", "/new"], ids=["the link's target", "below the link's target"])
def test_a_link_where_something_is_to_be_shown_is_not_followed(
    house: House, started: list[Process], tmp_path: Path, beyond: str
) -> None:
    """The server's user owns the clone's files, and puts a link where the nested dataset's mountpoint was."""
    CANARY.mkdir(exist_ok=True)
    outer, inner = house.clone(f"led{len(beyond)}")
    mountpoint = Path(str(outer.mountpoint)) / house.log.mountpoint.relative_to(house.data.mountpoint)
    mountpoint.rmdir()
    mountpoint.symlink_to(CANARY)
    confinement = house.confinement([outer, inner])
    bind = (confinement.bind[0], (confinement.bind[1][0], confinement.bind[1][1] + beyond))
    output = tmp_path / "o"
    argv = (sys.executable, "-c", SERVER, json.dumps([str(CANARY / "file")]))
    process = launch(argv, replace(confinement, bind=bind), output)
    started.append(process)
    said = ended(process, output)
    assert said.startswith(f"cannot show {house.log.mountpoint}{beyond} to the server: ")
    assert "\n" not in said and "link" in said
    assert list(CANARY.iterdir()) == []


@pytest.mark.parametrize("kernel", ["new", "old"])
def test_it_writes_to_nothing_but_its_own(
    house: House, started: list[Process], tmp_path: Path, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where mount_setattr(2) is missing, too."""
    if kernel == "old":
        monkeypatch.setattr(detached, "own_module", lambda _: (sys.executable, "-c", OLD_KERNEL))
    mine = house.clone(f"own-{kernel}")
    run = Path("/run/zbackup-test/mine")
    theirs = Path("/srv/theirs")
    sockets = Path("/srv/sockets")
    for directory in (run, theirs, sockets):
        directory.mkdir(parents=True, exist_ok=True)
        os.chown(directory, UID, GID)
    confinement = replace(
        house.confinement(mine),
        own=(str(mine[0].mountpoint), str(run)),
        cover=(str(sockets),),
        network="host",
    )
    for dataset in mine:
        os.chown(str(dataset.mountpoint), UID, GID)
    good = [
        f"{house.data.mountpoint}/new",
        f"{house.log.mountpoint}/new",
        f"{run}/new",
        "/tmp/new",
        "/dev/shm/new",
    ]
    bad = [f"{theirs}/new", "/etc/new", "/run/new", "/run/zbackup-test/new", "/srv/new"]
    out = f"/proc/{os.getpid()}/root{theirs}/new"
    with socket.create_server(("127.0.0.1", 0)) as port, socket.socket(socket.AF_UNIX) as local:
        path = sockets / "production.sock"
        path.unlink(missing_ok=True)
        local.bind(str(path))
        local.listen()
        path.chmod(0o777)
        words = json.dumps([[*good, *bad, out], port.getsockname()[1], str(path)])
        seen = tries(started, confinement, tmp_path / "o", words)
    assert {name: seen[name] for name in good} == dict.fromkeys(good, "done")
    assert {name: seen[name] for name in bad} == dict.fromkeys(bad, "EROFS")
    assert (seen[out], seen["call"], seen["processes"]) == ("ENOENT", "EACCES", True)
    assert seen["knock"] in ("EACCES", "ENOENT")
    assert [list(directory.iterdir()) for directory in (theirs, sockets)] == [[], [path]]


def ended(process: Process, output: Path) -> str:
    assert process.wait(LIMIT_S)
    return last_lines(output)


def test_a_mount_that_fails_is_said_and_the_server_never_starts(tmp_path: Path) -> None:
    output = tmp_path / "o"
    confinement = Confinement(hide=(), bind=((str(tmp_path / "gone"), str(tmp_path)),), uid=UID, gid=GID)
    said = ended(launch(["touch", str(tmp_path / "started")], confinement, output), output)
    assert said.startswith("cannot show ") and "gone" in said
    assert not (tmp_path / "started").exists()


def test_what_is_not_mounted_any_more_need_not_be_hidden(started: list[Process], tmp_path: Path) -> None:
    """Another recovery may have destroyed its clone between our look and the server's start."""
    hide = (str(tmp_path), str(tmp_path / "gone"))
    process, _ = serve(started, Confinement(hide=hide, bind=(), uid=UID, gid=GID), tmp_path / "o")
    assert process.alive


def test_a_program_that_is_not_there_is_said(tmp_path: Path) -> None:
    output = tmp_path / "o"
    confinement = Confinement(hide=(), bind=(), uid=UID, gid=GID)
    said = ended(launch(["/no/such/server"], confinement, output), output)
    assert said.startswith("cannot start the server: cannot run /no/such/server: No such file or directory")


def test_without_python_it_cannot_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/no/python")
    with pytest.raises(CommandFailed, match="cannot run /no/python"):
        launch(["true"], Confinement(hide=(), bind=(), uid=UID, gid=GID), tmp_path / "o")
    assert detached.last_lines(tmp_path / "o") == ""
