"""The files of an image as a directory that somebody brings: see tests/lab/servers/images.py."""

import shutil
import subprocess

import pytest

from tests.containers import engine, images
from tests.lab.servers import brought
from tests.lab.servers.images import unpack
from tests.lab.servers.wrappers import wrapper


@pytest.mark.parametrize("flavour", images.VENDORS)
def test_its_server_runs_where_it_lies(flavour: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    client = engine.answering()
    assert client is not None
    home = unpack(images.find(client, flavour))
    try:
        (daemon,) = (
            p for p in home.glob("usr/sbin/*") if p.name == brought.DAEMONS[brought.kind_of(flavour)]
        )
        script = tmp_path_factory.mktemp("bin") / daemon.name
        script.write_text(wrapper(daemon, home, [], script))
        said = subprocess.run(["sh", str(script), "--version"], capture_output=True, text=True, check=True)
        assert f"Ver {flavour.partition('-')[2]}" in said.stdout
        assert unpack(images.find(client, flavour)) == home
    finally:
        shutil.rmtree(home)
