"""Servers out of container images: the files of an image, unpacked, are a directory that somebody brings."""

import re
import shutil
import subprocess
from pathlib import Path

from tests.lab import apt
from tests.lab.servers import brought
from tests.lab.servers.places import ServerUnavailable, root

IMAGE = "image:"
"""What stands before an image's name where else a directory is named."""


def unpacked(text: str) -> str:
    """The list of servers with a directory in place of each image, which is pulled if it is not there.

    Raises ServerUnavailable for what is no such list, before anything is pulled, and for an image that is not
    to be had.
    """
    words = [word.partition(f"={IMAGE}") for word in text.split(",") if word]
    for name, is_image, image in words:
        if is_image and not image:
            raise ServerUnavailable(f"{brought.SERVERS}: {name} is an image without a name")
        brought.named({brought.SERVERS: f"{name}=/" if is_image else name})
    return ",".join(f"{name}={unpack(image)}" if is_image else name for name, is_image, image in words)


def unpack(image: str) -> Path:
    """The directory with the image's files; another one for each version of it. Raises ServerUnavailable."""
    if not shutil.which("docker"):
        raise ServerUnavailable(f"image {image}: there is no program docker here to take its files with")
    try:
        found = _docker(image, "image", "inspect", "--format={{.Id}}", image)
    except ServerUnavailable:
        _docker(image, "pull", "--quiet", image)
        found = _docker(image, "image", "inspect", "--format={{.Id}}", image)
    called = f"image-{re.sub('[^A-Za-z0-9_.-]', '_', image)}-{found.removeprefix('sha256:')[:12]}"
    home, partial = root() / called, root() / f".{called}.partial"
    with apt.locked(root() / f".{called}.lock"):
        if not home.exists():
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            _export(image, partial)
            partial.rename(home)
    return home


def _export(image: str, into: Path) -> None:
    """Of a container that is never started: its command is not run."""
    container = _docker(image, "create", image, "none")
    try:
        argv = ("docker", "export", container)
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as files:
            # Whose files they are inside says nothing here, where they only have to be trusted.
            tar = ("tar", "--extract", "--no-same-owner", "--exclude=dev/*", f"--directory={into}")
            done = subprocess.run(tar, stdin=files.stdout, capture_output=True, text=True, check=False)
        if files.returncode or done.returncode:
            raise ServerUnavailable(f"image {image}: its files cannot be unpacked: {_last(done.stderr)}")
    finally:
        _docker(image, "rm", container)


def _docker(image: str, *words: str) -> str:
    done = subprocess.run(("docker", *words), capture_output=True, text=True, check=False)
    if done.returncode:
        raise ServerUnavailable(f"image {image}: docker {words[0]} failed: {_last(done.stderr)}")
    return done.stdout.strip()


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1]
