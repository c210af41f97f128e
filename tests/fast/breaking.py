"""Break the nth change of a job, in every way there is; see tests/faults for the same with real programs."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

from tests.fast.right import portrait, require_foreign_untouched, same
from tests.fast.world import CLONES, World, unbroken
from zbackup.model.errors import CommandFailed, ZbackupError

Way = Literal["fails", "fails late", "interrupted", "killed before", "killed after"]
WAYS: tuple[Way, ...] = get_args(Way)
"""The command fails without or with effect; SIGINT or SIGTERM comes as it has taken effect; SIGKILL, before
or after it has. Who is killed after one change has left what he leaves who is killed before the next."""

MOST = 200
"""A job with more changes than that does not end."""


class Killed(BaseException):
    """The process is dead. Nothing of zbackup's catches this, and nothing passes a door from then on."""


@dataclass
class Break:
    """A world's door: the nth change breaks, or with `questions` the nth command of any kind."""

    nth: int
    way: Way
    questions: bool = False
    count: int = 0
    broke: tuple[str, ...] = ()
    dead: bool = False
    known: bool = False

    def __call__(self, argv: tuple[str, ...], mutates: bool, act: Callable[[], Any]) -> Any:
        if self.dead:
            raise Killed
        if not (mutates or self.questions):
            return act()
        self.count += 1
        if self.count != self.nth:
            return act()
        self.broke = argv
        if self.way in ("fails late", "interrupted", "killed after"):
            act()
        if self.way.startswith("killed"):
            self.dead = True
            raise Killed
        if self.way == "interrupted":
            raise KeyboardInterrupt
        raise CommandFailed(argv, 255, "injected")


def every_break(
    world: World, job: Callable[[], object], ways: tuple[Way, ...] = WAYS, *, questions: bool = False
) -> Iterator[Break]:
    """Run the job from this world on, and each time another change of it breaks in another way.

    With `questions` another of its commands, also of those that change nothing.

    Each time it is for the caller to look at what is left. Any failure of the job but the injected one is
    the test's. What is left may be `known`: but for numbers and times the same as after an earlier break,
    from which the way on was looked at already.
    """
    kept, seen, last = world.keep(), set[str](), 0
    for way in ways:
        # See WAYS: after the last change, and otherwise where nobody was killed before the changes.
        begin = last if way == "killed after" and "killed before" in ways else 1
        for nth in itertools.count(begin):
            assert nth <= MOST
            world.put_back(kept)
            broken = Break(nth, way, questions)
            world.passing = broken
            try:
                job()
            except (ZbackupError, KeyboardInterrupt, Killed):
                if not broken.broke:
                    raise
            if not broken.broke:
                break
            world.passing = unbroken
            require_foreign_untouched(world)
            assert not world.server.locked, broken
            last = max(last, nth)
            left = state_of(world)
            broken.known = left in seen
            seen.add(left)
            yield broken
    world.put_back(kept)


def state_of(world: World) -> str:
    """All that a job could meet, but for numbers, times and what production has written since."""
    clones = {
        d.name: sorted(d.files.items())
        for d in world.pools.datasets.values()
        if d.name.startswith(f"{CLONES}/") or d.partial
    }
    others = (world.server.running, sorted(world.state.servers.items()), sorted(world.state.files), clones)
    partial = [(d.name, d.partial.name) for d in world.pools.datasets.values() if d.partial]
    return "\n".join((*portrait(world), same(repr(others)), repr(partial)))
