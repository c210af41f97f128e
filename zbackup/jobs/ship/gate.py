"""The one command that the holder of a key asked for over ssh: look at it, decide, run it, write it down."""

import sys
import syslog
from collections.abc import Callable, Iterable, Sequence

from zbackup.model.archive_order import LogOrder, leftover_line, line_of
from zbackup.model.drr_begin import RECORD
from zbackup.model.errors import CommandFailed, Refused, ZbackupError
from zbackup.model.printable import printable
from zbackup.plan.ship.accept_stream import require_plain
from zbackup.plan.ship.gate import GateOrder, Policy, decide, require_below, still_to_mark
from zbackup.proc.log_store import LogStore
from zbackup.proc.run import Runner, run
from zbackup.proc.take_over import become, feed, read_head
from zbackup.zfs import parse
from zbackup.zfs.errors import translate
from zbackup.zfs.log_dataset import LogDataset


def own_properties(names: Sequence[str], runner: Runner = run) -> dict[str, dict[str, str]]:
    """The user properties set on each of these snapshots itself. Raise DatasetNotFound without one."""
    columns = ("-s", "local,received", "-o", "name,property,value")
    return parse.user_properties(_zfs(runner, "get", "-Hp", *columns, "all", "--", *names))


def described(token: str, runner: Runner = run) -> str:
    """What ZFS says it would send for a resume token. Raise CommandFailed when it would send nothing."""
    return _zfs(runner, "send", "-nvP", "-t", token)


def _zfs(runner: Runner, *argv: str) -> str:
    try:
        return runner(("zfs", *argv), mutates=False)
    except CommandFailed as failure:
        raise translate(failure) from failure


def tell(name: str, text: str, *, warning: bool) -> None:
    """One line under the name of a program; without a log on this machine it goes nowhere."""
    syslog.openlog(name, syslog.LOG_PID, syslog.LOG_AUTHPRIV)
    syslog.syslog(syslog.LOG_WARNING if warning else syslog.LOG_INFO, printable(text))


def serve(order: LogOrder) -> int:
    """Do what was asked for, with our input and output; return the exit status."""
    dataset = LogDataset(home=order.home, name=order.dataset)
    if order.verb == "append":
        if order.file is None or order.chunk is None:
            raise AssertionError("it was read as an append")
        data = read_head(order.chunk.size + 1)
        if len(data) != order.chunk.size:
            raise Refused(f"{len(data)} bytes came where {order.chunk.size} were announced")
        _say([str(LogStore(dataset.prepared()).append(order.file, order.chunk, data))])
        return 0
    if order.claim:
        _say([LogStore(dataset.prepared()).claim(*order.claim)])
        return 0
    directory = dataset.directory()
    if directory is None:
        return 0
    store = LogStore(directory)
    if order.file is None:
        found = store.archived()
        problems = (f"! {problem!a}" for problem in found.problems)
        _say([*map(line_of, found.files), *map(leftover_line, found.leftovers), *problems])
    elif order.verb == "read":
        for chunk, data in store.read(order.file, order.begin, order.end):
            sys.stdout.buffer.write(f"{chunk}\n".encode() + data)
        sys.stdout.buffer.flush()
    else:
        store.remove(order.file)
    return 0


def _say(lines: Iterable[str]) -> None:
    sys.stdout.buffer.write("".join(f"{line}\n" for line in lines).encode())
    sys.stdout.buffer.flush()


NAME = "zbackup-gate"
_SHOWN = 2000


def _ready() -> None:
    return


def gate(line: str, policy: Policy, client: str, before_asking: Callable[[], None] = _ready) -> int:
    """Run the command if the policy allows it; return its exit status, unless it takes our place.

    `client` is whom sshd let in, for the machine's log; `before_asking` is called before ZFS is asked
    anything, which is logged. Raise Refused for what is not allowed.
    """
    try:
        order = decide(line, policy)
        if order.changes:
            tell(NAME, f"{client}, below {policy.root}: {line[:_SHOWN]!r}", warning=False)
        return _run(order, policy, before_asking)
    except ZbackupError as failure:
        tell(NAME, f"{client}, below {policy.root}: {line[:_SHOWN]!r}: {failure}", warning=True)
        raise


def _run(order: GateOrder, policy: Policy, before_asking: Callable[[], None]) -> int:
    if order.kind == "receive":
        head = read_head(RECORD)
        require_plain(head)
        return feed(order.argv, head)
    if order.log is not None:
        before_asking()
        from zbackup.jobs.ship.gate import serve

        return serve(order.log)
    if order.kind in ("mark", "resume"):
        before_asking()
        return _ask_and_run(order, policy)
    return become(order.argv)


def _ask_and_run(order: GateOrder, policy: Policy) -> int:
    """What is let through or not by what ZFS says."""
    # What runs programs and logs of it takes long to import, and most commands are a list or a receive.
    from zbackup.jobs.ship.gate import described, own_properties

    if order.kind == "mark":
        argv = still_to_mark(order, own_properties(order.snapshots))
        return become(argv) if argv else 0
    require_below(described(order.argv[-1]), policy)
    return become(order.argv)
