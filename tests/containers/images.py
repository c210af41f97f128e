"""Images with a database server: the vendor's where it can be had, else one made of Debian's packages."""

import re
import tarfile
import tempfile
from pathlib import Path

import docker  # type: ignore[import-untyped]
from docker.errors import DockerException, ImageNotFound  # type: ignore[import-untyped]

from tests.lab import servers
from tests.lab.progress import say, step
from tests.lab.servers.recipes import RECIPES
from tests.lab.servers.templates import DAEMON, KINDS

VENDORS = {"mysql-9.7": "mysql:9.7", "mariadb-11.8": "mariadb:11.8"}
"""The vendors' images, by the lab's name of the server whose data directory they can open."""


def find(client: docker.DockerClient, flavour: str) -> str:
    """The name of an image that the engine has now: what it has already, else pulled, else built."""
    name = VENDORS[flavour]
    for there in (built_name(flavour), name):
        if _has(client, there):
            return there
    try:
        with step(f"pulling {name}"):
            client.images.pull(name)
    except (DockerException, OSError) as failure:
        say(f"{name} cannot be pulled ({failure}): building an image instead")
        return build(client, flavour)
    return name


def build(client: docker.DockerClient, flavour: str) -> str:
    """Make an image of the lab's server, which lies unpacked with all it depends on; return its name."""
    name = built_name(flavour)
    if not _has(client, name):
        repository, _, tag = name.partition(":")
        with step(f"building {name}"), tempfile.TemporaryDirectory(dir="/var/tmp") as place:
            archive = Path(place) / "image.tar"
            _pack(flavour, archive)
            client.api.import_image_from_file(str(archive), repository=repository, tag=tag)
            client.images.get(name)
    return name


def built_name(flavour: str) -> str:
    """The name of the image that build() makes; another one for each version of the server."""
    return f"zbackup-lab/{flavour}:{re.sub('[^A-Za-z0-9_.-]', '_', servers.path(flavour).name)}"


def _has(client: docker.DockerClient, name: str) -> bool:
    try:
        client.images.get(name)
    except ImageNotFound:
        return False
    return True


def _pack(flavour: str, archive: Path) -> None:
    root = servers.path(flavour) / "root"
    program = RECIPES[flavour].programs[DAEMON[KINDS[flavour]]]
    with tarfile.open(archive, "w") as tar:
        for inside in ("usr/lib", "usr/lib64", "usr/share/mysql", "usr/share/mariadb", program):
            if (root / inside).exists():
                tar.add(root / inside, inside)
        # What an installed system has besides the files of its packages; MySQL insists on its directory.
        for name in ("lib", "lib64"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            tar.addfile(link)
        for name, mode in (("tmp", 0o1777), ("var/lib/mysql-files", 0o755)):
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, mode
            tar.addfile(directory)
