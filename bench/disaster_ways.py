"""The ways back after a disaster that are measured beside each other."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bench import dumpers
from bench.disaster_turns import Spent, Stopwatch, size_of
from bench.replay import LOG_FILES, TOOLS
from tests.lab.demo_stage import Stage, Zbackup
from tests.lab.mysql_fixture import DatabaseServer, Settings
from tests.lab.pool import run
from tests.lab.server_user import SERVER_UID

ZBACKUP, HAND, PHYSICAL, DUMP = "zbackup", "hand", "physical", "dump"
IN_PLACE, FETCHED, RECEIVE = "zbackup there", "zbackup fetched", "receive"
BY_SSH, FROM_S3, RECEIVE_BY_SSH = "zbackup by ssh", "zbackup from S3", "receive by ssh"
APPLY_OPS, PYMONGO, MYDUMPER = "hand, applyOps", "pymongo", "mydumper"
WAYS = {
    ZBACKUP: "zbackup",
    HAND: "zfs clone, start, pipe",
    PHYSICAL: "mariadb-backup",
    DUMP: "dump, load, pipe",
    MYDUMPER: "mydumper, myloader, pipe",
    IN_PLACE: "zbackup, on the copies' pool",
    FETCHED: "zbackup, fetched",
    RECEIVE: "zfs send and receive, start",
    RECEIVE_BY_SSH: "zfs send by ssh, receive, start",
    BY_SSH: "zbackup, fetched by ssh",
    FROM_S3: "zbackup, fetched from S3",
    APPLY_OPS: "zfs clone, start, applyOps",
    PYMONGO: "a dump by pymongo, load, applyOps",
}
SCENES = {
    "dropped": "a table was dropped",
    "destroyed": "the server's files are gone",
    "cold": "the same, with cold caches",
    "host": "the pool is gone",
    "far": "the host is gone",
    "taking": "none: what taking backups costs",
}
LARGEST_DUMP = 3.0
"""GiB. Above it nobody waits for a dump to be loaded, here or anywhere."""
A_LONG_START = 1800
"""Seconds: a server of 10 GiB that was not stopped in order has gigabytes of redo log to read."""
DUMPS = {"mysql": ("mysqldump", "--set-gtid-purged=OFF"), "mariadb": ("mariadb-dump", "--gtid=0")}

Checksums = dict[str, int | None]


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A server with a base and what was committed since; what a server has to hold that was brought back.

    `base` is the snapshot's name, `start` where its log ends, `stop` where what is wanted ends.
    """

    made: Stage
    base: str
    start: tuple[str, int]
    stop: tuple[str, int]
    wanted: Checksums

    @property
    def original(self) -> Settings:
        """Those of the server that had the disaster."""
        return self.made.server.settings

    @property
    def datasets(self) -> dict[str, str]:
        """Its parts, and the dataset of each."""
        return {"data": self.made.pool.data.name, "log": self.made.pool.log.name}

    def program(self, name: str) -> str:
        """The path of one of the server's programs."""
        return str(self.made.programs / name)


Way = Callable[[Scene, str], Spent]


def by_zbackup(*words: str) -> Way:
    """The command of a user with these words; a query at the end, as everywhere here."""

    def way(scene: Scene, name: str) -> Spent:
        made = scene.made
        watch = Stopwatch()
        zbackup(made, "restore", *words, "--name", name)
        server = DatabaseServer(replace(scene.original, run_dir=made.home / "zbackup" / name))
        ask(_Elsewhere(server, made.home / "zbackup" / name / "mysqld.sock"))
        spent = watch.spent()
        compare(scene, _Elsewhere(server, made.home / "zbackup" / name / "mysqld.sock"))
        zbackup(made, "clone", "destroy", name, "--yes")
        return spent

    return way


def zbackup(made: Zbackup, *words: str) -> None:
    """Run it as a user does. Ends with what it said when it fails."""
    environment = {**os.environ, "ZBACKUP_CONFIG": str(made.home / "zbackup.toml")}
    _quietly(sys.executable, "-m", "zbackup", *words, environment=environment)


class _Elsewhere(DatabaseServer):
    """A server that others started, by its socket."""

    def __init__(self, like: DatabaseServer, socket: Path) -> None:
        super().__init__(like.settings)
        self._socket = socket

    def connect(self, user: str = "root", password: str = "", **more: object):  # type: ignore[no-untyped-def]
        return super().connect(user, password, **{"unix_socket": str(self._socket), **more})


def ask(server: DatabaseServer) -> None:
    """The first question of a user."""
    server.sql("SELECT COUNT(*) FROM workload.t")


def compare(scene: Scene, server: DatabaseServer) -> None:
    """Ends with a message unless the server holds what it has to."""
    found = server.checksum(scene.wanted)
    if found != scene.wanted:
        sys.exit(f"the tables have checksums {found}, not {scene.wanted}")


def by_hand(scene: Scene, name: str) -> Spent:
    """zfs clone of the base, the same server on it, and the log of a second snapshot piped into it."""
    with _home(scene, name) as home:
        watch = Stopwatch()
        run("zfs", "snapshot", *(f"{dataset}@{name}" for dataset in scene.datasets.values()))
        for part, dataset in scene.datasets.items():
            run(
                "zfs",
                "clone",
                "-o",
                f"mountpoint={home / part}",
                f"{dataset}@{scene.base}",
                f"{_pool(scene)}/{name}-{part}",
            )
        settings = _opened(scene, home)
        with DatabaseServer(settings).start(A_LONG_START) as server:
            pipe(
                scene,
                settings,
                scene.original.binlog_dir / ".zfs" / "snapshot" / name if scene.original.binlog_dir else home,
            )
            ask(server)
            spent = watch.spent()
            compare(scene, server)
        for part, dataset in scene.datasets.items():
            run("zfs", "destroy", f"{_pool(scene)}/{name}-{part}")
            run("zfs", "destroy", f"{dataset}@{name}")
        return spent


Send = Callable[[str], "subprocess.Popen[bytes]"]
"""Begins to send a copy of the dataset of that name."""


def by_receive(place: str, newest: str, send: Send | None = None) -> Way:
    """All of a backup by zfs send and receive, and the server on it: the least that has to be done."""

    def locally(copy: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(("zfs", "send", "-Lec", f"{copy}@{newest}"), stdout=subprocess.PIPE)

    def way(scene: Scene, name: str) -> Spent:
        with _home(scene, name) as home:
            watch = Stopwatch()
            for part, dataset in scene.datasets.items():
                copy = _copy_of(place, dataset)
                target = ("-o", f"mountpoint={home / part}", f"{_pool(scene)}/{name}-{part}")
                with (send or locally)(copy) as stream:
                    subprocess.run(("zfs", "receive", *target), stdin=stream.stdout, check=True)
            with DatabaseServer(_opened(scene, home)).start(A_LONG_START) as server:
                ask(server)
                spent = watch.spent()
                compare(scene, server)
            for part in scene.datasets:
                run("zfs", "destroy", "-r", f"{_pool(scene)}/{name}-{part}")
            return spent

    return way


def cold(way: Way) -> Way:
    """With nothing of the files and programs in memory: neither in Linux's cache nor in that of ZFS.

    Nothing may be open in the pool.
    """

    def colder(scene: Scene, name: str) -> Spent:
        scene.made.pool.export()
        Path("/proc/sys/vm/drop_caches").write_text("3")
        scene.made.pool.bring_back()
        return way(scene, name)

    return colder


def _copy_of(place: str, dataset: str) -> str:
    """The dataset that one was shipped to."""
    below = run("zfs", "list", "-Hro", "name", place).splitlines()
    return next(name for name in below if name.endswith("/" + dataset.partition("/")[2]))


def _opened(scene: Scene, home: Path) -> Settings:
    """The original's settings, on files that were put below `home`."""
    index = home / "log" / "binlog.index"
    index.write_text(index.read_text().replace(str(scene.original.binlog_dir), str(home / "log")))
    (home / "data" / "data" / "auto.cnf").unlink(missing_ok=True)
    return replace(
        scene.original, datadir=home / "data" / "data", binlog_dir=home / "log", run_dir=home / "run"
    )


def take_physical(scene_of: Stage, where: Path) -> int:
    """As mariadb-backup's manual says. Returns its size in bytes."""
    socket = scene_of.server.settings.socket
    backup = (str(scene_of.programs / "mariadb-backup"), "--no-defaults", "--backup")
    _quietly(*backup, f"--target-dir={where}", "--user=root", f"--socket={socket}")
    return size_of(where)


def by_physical(taken: Path) -> Way:
    """Prepare, copy back, start, pipe. Preparing changes the backup, so that it is done on a copy of it."""

    def way(scene: Scene, name: str) -> Spent:
        copy = taken.with_name(name)
        shutil.copytree(taken, copy)
        run("zpool", "sync", _pool(scene))
        program = (scene.program("mariadb-backup"), "--no-defaults")
        with _home(scene, name, "files") as home:
            data = home / "files" / "data"
            settings = replace(
                scene.original, datadir=data, binlog_dir=home / "files" / "log", run_dir=home / "run"
            )
            watch = Stopwatch()
            _quietly(*program, "--prepare", f"--target-dir={copy}")
            data.mkdir()
            (home / "files" / "log").mkdir()
            _quietly(*program, "--copy-back", f"--target-dir={copy}", f"--datadir={data}")
            subprocess.run(("chown", "-R", f"{SERVER_UID}:{SERVER_UID}", str(home / "files")), check=True)
            with DatabaseServer(settings).start(A_LONG_START) as server:
                pipe(scene, settings, _log(scene))
                ask(server)
                spent = watch.spent()
                compare(scene, server)
            run("zfs", "destroy", f"{_pool(scene)}/{name}-files")
        shutil.rmtree(copy)
        return spent

    return way


def take_dump(made: Stage, where: Path) -> int:
    """All schemas of users, in one transaction. Returns its size in bytes."""
    program, option = DUMPS[made.kind]
    argv = (
        str(made.programs / program),
        "--no-defaults",
        f"--socket={made.server.settings.socket}",
        "--user=root",
    )
    schemas = sorted({name.partition(".")[0] for name in made.server.tables()})
    with where.open("wb") as sink:
        subprocess.run(
            [*argv, "--single-transaction", option, "--databases", *schemas], stdout=sink, check=True
        )
    return size_of(where)


Load = Callable[[Scene, Settings], None]
"""Brings what was dumped into a running server."""


def by_dump(taken: Path) -> Way:
    """The dump of one program, through a client."""

    def load(scene: Scene, settings: Settings) -> None:
        client = [*_client(scene, settings), "--init-command=SET sql_log_bin=0"]
        with taken.open("rb") as dump:
            subprocess.run(client, stdin=dump, check=True)

    return into_a_new_server(load)


def take_mydumper(made: Stage, where: Path) -> int:
    """All schemas of users, by two threads, one after the other. Returns its size in bytes.

    Told to look for several itself mydumper 0.10 may wait for ever: its main thread goes on, and frees a
    queue, when one is done before the next is found.
    """
    where.mkdir()
    for schema in sorted({name.partition(".")[0] for name in made.server.tables()}):
        options = (f"--outputdir={where / schema}", f"--database={schema}")
        _mydumper("mydumper", made.server.settings, *options)
    return size_of(where)


def by_mydumper(taken: Path) -> Way:
    """Load what mydumper dumped, by two threads."""

    def load(_: Scene, settings: Settings) -> None:
        for schema in sorted(taken.iterdir()):
            _mydumper("myloader", settings, f"--directory={schema}", "--overwrite-tables")

    return into_a_new_server(load)


def _mydumper(program: str, settings: Settings, *options: str) -> None:
    root = dumpers.fetch()
    login = (f"--socket={settings.socket}", "--user=root", "--threads=2")
    argv = (str(root / "usr/bin" / program), *login, *options)
    _quietly(*argv, environment=dumpers.environment(root))


def into_a_new_server(load: Load) -> Way:
    """One that was made before, as quick to load as servers allow."""

    def way(scene: Scene, name: str) -> Spent:
        with _home(scene, name, "files") as home:
            settings = replace(
                scene.original,
                datadir=home / "files" / "data",
                binlog_dir=home / "files" / "log",
                run_dir=home / "run",
                options=(*scene.original.options, "--sync-binlog=0", "--innodb-flush-log-at-trx-commit=0"),
            )
            server = DatabaseServer(settings)
            server.prepare()
            watch = Stopwatch()
            with server:
                load(scene, settings)
                pipe(scene, settings, _log(scene))
                ask(server)
                spent = watch.spent()
                compare(scene, server)
            run("zfs", "destroy", f"{_pool(scene)}/{name}-files")
        return spent

    return way


def pipe(scene: Scene, settings: Settings, log: Path) -> None:
    """Decode what was committed since the base, up to where it has to end, and pipe it into a client."""
    names = [str(f) for f in sorted(log.glob(LOG_FILES)) if scene.start[0] <= f.name <= scene.stop[0]]
    decode = scene.program(TOOLS[scene.made.kind][0])
    bounds = (f"--start-position={scene.start[1]}", f"--stop-position={scene.stop[1]}")
    with subprocess.Popen([decode, "--disable-log-bin", *bounds, *names], stdout=subprocess.PIPE) as decoded:
        subprocess.run([*_client(scene, settings), "--binary-mode"], stdin=decoded.stdout, check=True)
    if decoded.returncode:
        sys.exit(f"{decode} failed")


def _client(scene: Scene, settings: Settings) -> list[str]:
    return [
        scene.program(TOOLS[scene.made.kind][1]),
        "--no-defaults",
        f"--socket={settings.socket}",
        "--user=root",
    ]


def _log(scene: Scene) -> Path:
    return scene.original.binlog_dir or scene.original.datadir


def _pool(scene: Scene) -> str:
    return scene.made.pool.name


@contextmanager
def _home(scene: Scene, name: str, dataset: str = "") -> Iterator[Path]:
    """A directory with one for the server to run in, and a dataset mounted in it if one is named."""
    home = scene.made.home / name
    (home / "run").mkdir(parents=True)
    shutil.chown(home / "run", SERVER_UID, SERVER_UID)
    if dataset:
        run("zfs", "create", "-o", f"mountpoint={home / dataset}", f"{_pool(scene)}/{name}-{dataset}")
        shutil.chown(home / dataset, SERVER_UID, SERVER_UID)
    yield home
    shutil.rmtree(home, ignore_errors=True)


def _quietly(*argv: str, environment: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        sys.exit(f"{' '.join(argv)} failed: {done.stderr[-2000:]}")
