"""Runs this lane: an engine, the images, then pytest. Arguments are pytest's."""

import sys

import pytest
from docker.errors import DockerException  # type: ignore[import-untyped]

from tests.containers import images
from tests.containers.engine import EngineUnavailable, engine
from tests.lab import servers
from tests.lab.progress import say


def main(arguments: list[str]) -> int:
    """The exit status of pytest; 1 with one line when there is nothing to run it with."""
    try:
        servers.ensure(tuple(images.VENDORS))
        with engine() as (client, own):
            whose = "our own" if own else "the one that answers"
            say(f"Docker engine: {whose}, {client.version()['Version']}")
            # What our own engine pulled would be gone with it, only to be pulled again the next time.
            image = images.build if own else images.find
            for flavour in images.VENDORS:
                say(f"{flavour}: image {image(client, flavour)}")
            return int(pytest.main(["-q", "tests/containers", *arguments]))
    except (EngineUnavailable, servers.ServerUnavailable, DockerException) as failed:
        print(f"test-containers: {failed}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
