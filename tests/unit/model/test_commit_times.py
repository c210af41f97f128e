"""The cut by time, against a world that knows when everything was committed."""

from dataclasses import dataclass, field, replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from zbackup.model.anchors import Anchor, bounds, dependable
from zbackup.model.clock_reading import Reading
from zbackup.model.commit_times import Bounds, Decision, Rules, StopSearch

S = 1_000_000
MINUTE, HOUR = 60 * S, 3600 * S
START = 1_700_000_000 * S
SIZE = 100
MYSQL, MARIADB, REPLICA = Rules(), Rules(starts=True), Rules(replica=True)


@dataclass
class World:
    """True commit times in the log's order, what the log says, where files begin, and clock readings."""

    rules: Rules
    true: list[int] = field(default_factory=list)
    said: list[int] = field(default_factory=list)
    files: dict[int, int | None] = field(default_factory=lambda: {0: None})
    anchors: list[Anchor] = field(default_factory=list)
    began: dict[int, set[int]] = field(default_factory=dict)
    """In which seconds the last transactions before a file began."""

    def place(self, index: int) -> tuple[int, int]:
        """Where the transaction begins: file number and offset."""
        begins = [first for first in self.files if first <= index]
        return len(begins), (index - max(begins)) * SIZE + 4

    def decide(self, target: int) -> Decision:
        found = dependable(self.anchors, self.rules)
        search = StopSearch(target, bounds(found, target, self.rules), self.rules)
        firsts = [*sorted(self.files), len(self.said)]
        for number, (first, end) in enumerate(pairwise(firsts), 1):
            spans = [
                ((i - first) * SIZE + 4, (i - first + 1) * SIZE + 4, self.said[i]) for i in range(first, end)
            ]
            search.add(number, self.files[first], iter(spans), lambda f=first: self.began.get(f, ()))
        return search.decide()


def log(rules: Rules, *said: float, now: float | None = None) -> World:
    """A log that says these seconds; with `now`, a clock reading at its end."""
    world = World(rules, said=[START + round(s * S) for s in said])
    if now is not None:
        world.anchors.append(anchor(world, len(said), START + round(now * S)))
    return world


def anchor(world: World, index: int, wall: int, *, uptime: int | None = None, boot: str = "a") -> Anchor:
    up = (wall if uptime is None else uptime) - START + HOUR
    return Anchor(
        position=world.place(index), earliest=wall, latest=wall + S, clock=Reading(boot, up / S, False)
    )


def cut(world: World, seconds: float) -> tuple[int, int | None]:
    """Transactions before the cut, by the earlier reading and by the later one if there are two."""
    found = world.decide(START + round(seconds * S))
    return found.point.count, found.other.count if found.other else None


def test_times_in_order_are_exact() -> None:
    world = log(MYSQL, 1, 2, 3.000001, 4, now=9)
    cuts = [cut(world, t) for t in (0.5, 3.000001, 3.000002, 4, 5)]
    assert cuts == [(0, None), (2, None), (3, None), (3, None), (4, None)]


def test_a_time_in_the_future_hides_nothing_behind_it() -> None:
    for rules in (MYSQL, MARIADB):
        world = log(rules, 1, 2, 9_000_000, 3, 4, 5, now=100)
        assert [cut(world, t) for t in (4, 5, 50)] == [(4, None), (5, None), (6, None)]


def test_the_liar_itself_is_disputed_when_its_neighbours_are_far_apart() -> None:
    world = log(MYSQL, 0, 9_000_000, 600, now=1000)
    assert cut(world, 300) == (1, 2)
    assert cut(world, 601) == (3, None)
    last = log(MYSQL, 0, 9_000_000, now=1000)
    assert cut(last, 300) == (1, 2)


def test_a_true_time_between_a_liar_and_the_target_belongs_before_the_target() -> None:
    """Its neighbours are within what is ordinary, and by its own time it is far before the target."""
    assert cut(log(REPLICA, 3600, 7, 3607, 3607, now=3607), 3606) == (2, None)
    assert cut(log(MYSQL, 99, 7, 101, 101, now=101), 100) == (2, None)
    assert cut(log(MYSQL, 99, 9_000_000, 101, now=101), 100) == (1, None)


def test_a_time_far_in_the_future_in_front_of_those_just_before_the_target_is_asked_for() -> None:
    """They are but a moment before the target, which is ordinary; that in front of them is not."""
    assert cut(log(MYSQL, 0, 3600, 7, 7, 3607, now=3608), 7.000001) == (1, 4)
    assert cut(log(MYSQL, 0, 7.4, 7, 7.2, 3607, now=3608), 7.3) == (1, None)


def test_a_clock_that_stood_ahead_is_disputed_only_as_long_as_it_said() -> None:
    times = [*range(0, 100, 10), 3600, 3601, *range(100, 8000, 10)]
    world = log(MYSQL, *times, now=9000)
    assert cut(world, 90) == (9, None)
    assert cut(world, 95) == (10, 12)
    assert cut(world, 2000) == (10, 12 + 190)
    assert cut(world, 3600) == (10, 12 + 350)
    assert cut(world, 3700) == (12 + 360, None)


def test_a_snapshot_in_between_settles_it() -> None:
    times = [*range(0, 100, 10), 3600, 3601, *range(100, 8000, 10)]
    world = log(MYSQL, *times, now=9000)
    world.anchors.append(anchor(world, 12 + 100, START + 1100 * S))
    assert [cut(world, t) for t in (2000, 3600, 500)] == [(12 + 190, None), (12 + 350, None), (12 + 40, None)]


def test_a_clock_put_back_is_disputed_where_it_said_the_same_twice() -> None:
    times = [*range(0, 7200, 10), *range(3600, 9000, 10)]
    world = log(MYSQL, *times, now=9001)
    assert cut(world, 3000) == (300, None)
    assert cut(world, 5000) == (500, 720 + 140)
    assert cut(world, 8000) == (720 + 440, None)


def test_a_snapshot_taken_while_the_clock_was_wrong_settles_nothing() -> None:
    times = [*range(0, 7200, 10), *range(3600, 9000, 10)]
    world = log(MYSQL, *times)
    world.anchors = [
        anchor(world, 600, START + 6000 * S, uptime=START + 2400 * S),
        anchor(world, len(times), START + 9000 * S),
    ]
    assert cut(world, 5000) == (500, 720 + 140)


def test_a_second_that_is_repeated_is_ordinary() -> None:
    world = log(MYSQL, 1, 2, 2.9, 2.1, 2.95, 3.5, now=9)
    assert [cut(world, t) for t in (2.5, 2.92)] == [(2, None), (4, None)]


def test_a_slow_statement_is_ordinary_on_mariadb_alone() -> None:
    times = [*range(0, 1200), 100, *range(1200, 2000)]
    assert cut(log(MARIADB, *times, now=3000), 700) == (700, None)
    assert cut(log(MYSQL, *times, now=3000), 700) == (700, 1201)


def test_a_slow_statement_just_in_front_of_the_cut_is_before_it() -> None:
    for slow in ((-300,), (-300, -200)):
        world = log(MARIADB, *range(0, 100), *slow, *range(100, 104), now=3000)
        assert cut(world, 100) == (100 + len(slow), None)
    # At the log's end nothing says when it ended.
    assert cut(log(MARIADB, *range(0, 100), -300, now=101), 100) == (100, 101)


def test_a_session_that_writes_into_the_future_is_no_slow_statement() -> None:
    ahead = range(1000, 1100)
    world = log(MARIADB, *range(0, 100), *ahead, *range(100, 110), *range(1000, 1500), now=3000)
    assert cut(world, 1000) == (100, 210)


def test_a_header_tells_that_a_time_before_it_was_ahead() -> None:
    world = log(MYSQL, 0, 1, 3600, 7200, now=9000)
    world.files[3] = START + 5 * S
    assert cut(world, 1000) == (2, 3)


def test_a_header_of_a_long_statement_tells_nothing() -> None:
    for rules in (MYSQL, MARIADB):
        world = log(rules, *range(0, 1000), 5 if rules.starts else 1000, *range(1001, 2000))
        world.files[1001] = START + 5 * S
        world.anchors.append(anchor(world, 2000, START + 3000 * S))
        assert rules.starts or cut(world, 700)[1] is not None
        world.began[1001] = {START + 5 * S, START + 1000 * S}
        assert cut(world, 700) == (700, None)
        assert cut(world, 1500) == (1500, None)


def test_a_header_counts_where_the_clock_may_have_been_put_forward_meanwhile() -> None:
    world = log(MYSQL, 0, 1, 3600, 7200, now=9000)
    world.files[3], world.began[3] = START + 5 * S, {START + 5 * S}
    assert cut(world, 1000) == (2, 3)


def test_sources_seconds_apart_are_ordinary_on_a_replica() -> None:
    times = [t + lag for t in range(0, 100) for lag in (0, -8)]
    assert cut(log(REPLICA, *times, now=300), 50)[1] is None
    assert cut(log(MYSQL, *times, now=300), 50)[1] is not None
    # A replica that lags by hours is behind every clock reading.
    late = log(REPLICA, *range(0, 100), now=30_000)
    late.anchors.append(anchor(late, 50, START + 20_000 * S))
    assert cut(late, 70) == (70, None)


def test_a_sources_clock_put_back_for_a_moment_is_asked_for() -> None:
    """On a replica no clock reading is a bound: how far the log had come in front of it is."""
    world = log(REPLICA, 7, -3293, now=3907)
    world.anchors.append(anchor(world, 1, START + 7 * S, uptime=START + 7 * S))
    assert cut(world, 67) == (1, 2)
    # The same when the log is read from there on: then the backup's record says how far it had come.
    base = log(REPLICA, -3293, now=3907)
    at = anchor(base, 0, START + 7 * S, uptime=START + 7 * S)
    base.anchors.append(replace(at, said=START + 7 * S))
    assert cut(base, 67) == (0, 1)
    # One that had not come far tells nothing, and what says a later time than the snapshot's is wrong.
    base.anchors[-1] = replace(at, said=START - 3300 * S)
    assert cut(base, 67) == (1, None)
    world.said[0] = START + 60 * S
    assert cut(world, 67) == (2, None)


def test_times_of_the_future_between_two_that_contradict_each_other_are_asked_for() -> None:
    """By the one the target had come, by the other it had not."""
    assert cut(log(REPLICA, 2, 3602, 3604, 9_000_000, 5, 6, now=3607), 3605) == (3, 6)
    assert cut(log(REPLICA, 1, 7200, 3601, 46802, 10803, now=7203), 7201) == (2, 5)
    assert cut(log(MYSQL, 3900, 14703, 57904, 11104, 14704, 14705, now=15306), 14703.5) == (2, 4)
    assert cut(log(MYSQL, 3900, 14703, 57904, 14704, 14705, now=15306), 14703.5) == (2, None)


def test_what_has_no_believable_time_in_front_of_a_leap_over_the_target_is_asked_for() -> None:
    assert cut(log(MARIADB, 100, 9_000_000, 3700, 103, now=4000), 103) == (1, 3)
    assert cut(log(MARIADB, 3600, 3513, 7203, 3603, 7203, now=7300), 3603) == (1, 3)


def test_a_statement_that_began_where_the_times_leapt_to_the_target_is_not_known_to_be_slow() -> None:
    ahead = range(3900, 3940)
    assert cut(log(MARIADB, 0, *ahead, 40, *range(3940, 3950), now=9000), 3901) == (2, 42)
    # A server that did nothing for as long as that before: the statement may have begun then.
    assert cut(log(MARIADB, 0, *range(30, 70), 20, *range(70, 80), now=9000), 60) == (31, None)
    assert cut(log(MARIADB, *range(3800, 3940), 3850, *range(3940, 3950), now=9000), 3901) == (101, None)


def test_readings_that_contradict_each_other() -> None:
    world = log(MYSQL, *range(10))
    right = [anchor(world, n, START + n * MINUTE) for n in (1, 3)]
    ahead = anchor(world, 2, START + 2 * HOUR, uptime=START + 2 * MINUTE)
    other = anchor(world, 0, START + 9 * HOUR, boot="b")
    assert dependable([other, *right, ahead], MYSQL) == right
    assert dependable([], MYSQL) == []
    assert bounds([], START, MYSQL) == Bounds()
    alone = Anchor(position=(1, 4), earliest=START, latest=START)
    assert dependable([alone], MYSQL) == []


# The same with worlds that nobody thought of.


all_rules = st.sampled_from([MYSQL, MARIADB, REPLICA])
passed = st.sampled_from([0, 3, 900, S // 3, S, 7 * S, HOUR])
jitters, events, one_in_six = st.integers(-30, 30), st.integers(0, 15), st.integers(0, 5)
nudged, nudges = st.integers(0, 20), st.sampled_from([-S, -S // 8, 0, S // 8])
took, briefly = st.sampled_from([0, 10 * S, 5 * MINUTE]), st.sampled_from([30, S // 3, S])
odd_passed, odd_events = st.sampled_from([0, 3, S // 3, S, 7 * S, 5 * MINUTE, HOUR]), st.integers(0, 12)
steps = st.sampled_from([0, 0, HOUR, -HOUR, S, -S, 12 * HOUR, -90 * S, 400 * 24 * HOUR])


@st.composite
def ordinary(draw: st.DrawFn) -> World:
    """Clocks within a second of the truth, files switched, snapshots taken, and a few slow statements."""
    rules = draw(all_rules)
    world = World(rules)
    at, nudge = START, 0
    lag = draw(st.sampled_from([0, HOUR])) if rules.replica else 0
    for index in range(draw(st.integers(1, 30))):
        at += draw(passed)
        if draw(nudged) == 0:
            nudge = draw(nudges)
        jitter = draw(jitters)
        commit = at - lag
        said = commit + nudge + jitter
        if rules.replica and draw(st.booleans()):
            said -= draw(st.integers(0, 7 * S))
        world.true.append(commit)
        world.said.append(said // S * S if rules.starts else said)
        event = draw(events)
        if event == 0:
            world.files[index + 1] = (at + nudge) // S * S
        elif event == 1:
            world.anchors.append(anchor(world, index + 1, at + nudge, uptime=at))
    world.files.pop(len(world.said), None)
    world.anchors.append(anchor(world, len(world.said), at + draw(st.integers(0, HOUR)) + nudge, uptime=None))
    return world


@given(ordinary(), st.data())
def test_ordinary_logs_are_cut_truly_and_nobody_is_asked(world: World, data: st.DataObject) -> None:
    target = data.draw(targets(world))
    found = world.decide(target)
    assert found.other is None
    tolerance = world.rules.tolerance
    assert all(t < target + tolerance for t in world.true[: found.point.count])
    assert all(t >= target - tolerance for t in world.true[found.point.count :])


@st.composite
def busy(draw: st.DrawFn) -> World:
    """Something is committed every second; long statements fill files, and the next says when they began."""
    world = World(MYSQL)
    at = START
    for index in range(draw(st.integers(10, 60))):
        at += draw(briefly)
        world.true.append(at)
        world.said.append(at)
        if index > 2 and draw(one_in_six) == 0:
            header = (at - draw(took)) // S * S
            world.files[index + 1], world.began[index + 1] = header, {header, at // S * S}
    world.files.pop(len(world.said), None)
    world.anchors.append(anchor(world, len(world.said), at + MINUTE))
    return world


@given(busy(), st.data())
def test_long_statements_are_no_reason_to_ask(world: World, data: st.DataObject) -> None:
    target = data.draw(targets(world).filter(lambda t: t > world.true[0]))
    found = world.decide(target)
    assert (found.point.count, found.other) == (sum(t < target for t in world.true), None)


def targets(world: World) -> st.SearchStrategy[int]:
    near = st.tuples(
        st.sampled_from(world.said + world.true), st.sampled_from([-MINUTE, -S, 0, 1, S, MINUTE])
    )
    targets = near.map(sum)
    return targets.map(lambda t: t // S * S) if world.rules.starts else targets


@st.composite
def odd(draw: st.DrawFn) -> World:
    """Clocks that are stepped by anything for any time, while snapshots are taken, and sessions that lie."""
    rules = draw(all_rules)
    world = World(rules)
    at, off = START, 0
    clocks = [(at, off)]
    boot = 0
    for index in range(draw(st.integers(1, 30))):
        at += draw(odd_passed)
        event = draw(odd_events)
        if event == 0:
            off = draw(steps)
        clocks.append((at, off))
        said = at + off + draw(jitters)
        if event == 1:
            said += draw(steps)
        world.true.append(at)
        world.said.append(max(0, said // S * S if rules.starts else said))
        if event == 2:
            world.files[index + 1] = (at + off + draw(steps)) // S * S
        elif event == 5:
            # Begun by a statement that began any time ago, by the clock as it was then.
            then, was_off = draw(st.sampled_from(clocks))
            header = (then + was_off) // S * S
            world.files[index + 1], world.began[index + 1] = header, {header}
        elif event == 3:
            world.anchors.append(anchor(world, index + 1, at + off, uptime=at, boot=str(boot)))
        elif event == 4:
            boot += 1
    world.files.pop(len(world.said), None)
    # Restored by a clock that is right: else nobody could say what a target means.
    world.anchors.append(
        anchor(world, len(world.said), at + draw(st.sampled_from([0, MINUTE, HOUR])), boot=str(boot))
    )
    return world


@given(odd(), st.data())
def test_odd_logs_are_cut_truly_or_somebody_is_asked(world: World, data: st.DataObject) -> None:
    target = data.draw(targets(world))
    found = world.decide(target)
    if found.other is not None:
        assert found.point.count < found.other.count
        return
    tolerance = world.rules.tolerance
    right = [abs(t - s) <= tolerance for t, s in zip(world.true, world.said, strict=True)]
    too_early = [i for i, t in enumerate(world.true[: found.point.count]) if t >= target + 3 * tolerance]
    too_late = [i for i, t in enumerate(world.true) if i >= found.point.count and t < target - 3 * tolerance]
    assert not any(right[i] for i in too_early + too_late)
    # The one next to the cut decides: the order of the log does the rest.
    near = 3 * tolerance
    for decisive in too_early[-1:]:
        behind = [i for i in range(decisive, len(right)) if world.said[i] <= target + near]
        assert any(undetectable(world, right, i) for i in behind)
    for decisive in too_late[:1]:
        before = [i for i in range(decisive + 1) if world.said[i] >= target - near]
        assert any(undetectable(world, right, i) for i in before)


def undetectable(world: World, right: list[bool], index: int) -> bool:
    """Whether a wrong time stands where it would if it were right, by all that is right around it. What is
    next to it is then placed by it."""
    if right[index]:
        return False
    said, tolerance = world.said, world.rules.tolerance
    before = max((said[i] for i in range(index) if right[i]), default=0)
    after = min((said[i] for i in range(index + 1, len(said)) if right[i]), default=1 << 62)
    return before - tolerance <= said[index] <= after + tolerance
