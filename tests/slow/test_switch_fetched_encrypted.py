"""A clone that was fetched takes the place of a production that is encrypted by one key with the clones."""

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.pool import Pool, create_pool, run
from tests.lab.variants import Variant
from tests.system.conftest import house
from tests.system.switch_story import Shop, shop

__all__ = ["house", "shop"]

NAME = "fetched"


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("key") / "key"
    file.write_text("not a secret")
    return file


@pytest.fixture(scope="module")
def pool(key: Path) -> Iterator[Pool]:
    made = create_pool(encryption="on", keyformat="passphrase", keylocation=f"file://{key}")
    yield made
    made.destroy()


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-10.11")


def test_what_was_fetched_gets_the_key_of_production_and_takes_its_place(shop: Shop, key: Path) -> None:
    """Each refusal has the command that helps, and nothing was changed."""
    near = f"{shop.vault.name}/near"
    run("zfs", "create", "-o", "canmount=off", near)
    config = shop.house.configure(
        "near", service=shop.service.table(), ship=[{"name": "near", "to": f"zfs:{near}", "initial": "allow"}]
    )
    sums = shop.house.server.checksum()
    shop.house.snapshot(config)
    assert shop.house.zb("ship", config=config).rc == 0
    words = ("restore", "--from", "near", "--to", "latest", "--name", NAME)
    refused = shop.house.zb(*words, "-q", config=config).refused(9)
    order = refused[refused.index("zfs load-key") :]
    subprocess.run(["sh", "-ec", order.replace("load-key", f"load-key -L file://{key}")], check=True)
    assert shop.house.zb(*words, "-q", config=config).rc == 0
    shop.house.server.sql("UPDATE shop.customers SET name = 'lost' WHERE id = 1")
    lost, before = shop.house.server.checksum(), shop.places()
    refused = shop.switch(NAME, config=config).refused(9)
    assert "was fetched, and has a key of its own" in refused and shop.places() == before
    order = refused[refused.index("zfs change-key -i") :]
    assert len(shlex.split(order)) == 4 * 2 + 1, "each of both datasets"
    subprocess.run(["sh", "-ec", order], check=True)
    assert shop.switch(NAME, config=config).data["outcome"] == "switched"
    shop.require(sums)
    roots = run("zfs", "get", "-Hro", "value", "-t", "filesystem", "encryptionroot", *shop.roots).split()
    assert set(roots) == {shop.house.pool.name}
    shop.house.snapshot(config)
    assert shop.house.zb("ship", config=config).rc == 0
    assert shop.house.zb("verify", "--at", "near", "--read", "all", config=config).rc == 0
    assert shop.switch("--undo", config=config).data["outcome"] == "undone"
    shop.require(lost)
