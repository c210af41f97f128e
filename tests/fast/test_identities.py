"""Between a look and the act somebody puts another thing in the place of what was looked at."""

from collections.abc import Callable

import pytest

from tests.fast.world import CLONES, World
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.clones import lifecycle as clones
from zbackup.jobs.dev_clones.create import CreateOptions, create
from zbackup.model.errors import NotFound


def test_a_dataset_that_took_a_name_over_is_not_destroyed(world: World) -> None:
    ctx = world.context()
    snapshot(ctx)
    list(create(ctx, CreateOptions(name="dev")))
    name, swapped = f"{CLONES}/dev/1", list[int]()

    def swap(argv: tuple[str, ...], mutates: bool, act: Callable[[], object]) -> object:
        if argv[1] == "get" and argv[-1] == name and "guid" in argv and not swapped:
            world.pools.datasets[name].mounted = None
            world.pools.destroy(name)
            swapped.append(world.pools.create(name, {"canmount": "noauto"}).guid)
        return act()

    world.passing = swap
    with pytest.raises(NotFound, match="is not the one expected"):
        clones.destroy([ctx], "dev")
    assert swapped == [world.pools.datasets[name].guid]
