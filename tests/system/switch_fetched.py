"""A clone that was fetched from a destination takes production's place, and goes back."""

from tests.lab.pool import run
from tests.system.switch_story import Shop

NAME = "fetched"


class FetchedSwitch:
    """What was fetched becomes production's own, and shipping goes on; undone, it is the clone's again."""

    def test_what_came_back_takes_productions_place(self, shop: Shop) -> None:
        house = shop.house
        near = f"{house.pool.name}/near"
        run("zfs", "create", "-o", "canmount=off", near)
        ship = [{"name": "near", "to": f"zfs:{near}", "initial": "allow"}]
        config = house.configure("near", service=shop.service.table(), ship=ship)
        sums, copies = house.server.checksum(), f"{house.clones}/{NAME}.copy"
        house.snapshot(config)
        house.zb("ship", "--json", config=config).data  # noqa: B018  checks the exit status
        restored = ("restore", "--from", "near", "--to", "latest", "--name", NAME, "--json")
        house.zb(*restored, config=config).data  # noqa: B018
        house.server.sql("UPDATE shop.customers SET name = 'lost' WHERE id = 1")
        lost = house.server.checksum()
        assert shop.switch(NAME, config=config).data["outcome"] == "switched"
        shop.require(sums)
        origins = run("zfs", "list", "-Hro", "origin", *shop.roots).split()
        assert set(origins) == {"-"}, "it depends on nothing that goes with the clone"
        house.zb("ship", "--json", config=config).data  # noqa: B018
        assert shop.switch("--undo", config=config).data["outcome"] == "undone"
        shop.require(lost)
        origins = run("zfs", "list", "-Hro", "origin", f"{house.clones}/{NAME}").split()[1:]
        assert origins and all(o.startswith(f"{copies}/") for o in origins), origins
